import io
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib import font_manager, rcParams
from PIL import Image

from litebert.config import UserError
from litebert.training import drawing
from litebert.training.curves import Run, limit_amount, smooth_values
from litebert.training.drawing import COLORS, choose_colors, name_runs, save_figure
from litebert.training.plots import draw_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = np.arange(10, 1001, 10)
EVALUATIONS = np.arange(0, 1001, 100)


def make_run(name: str, seed: int = 0) -> Run:
    """A run whose loss falls from 10 within its first steps, and whose gradients are wild once."""
    random = np.random.default_rng(seed)
    lines: list[dict[str, Any]] = [
        {
            "kind": "train", "step": int(step), "tokens": int(step) * 20_000, "seconds": step * 0.6,
            "masked_token_loss": 3 + 7 * math.exp(-step / 10) + random.normal(0, 0.1),
            "masked_token_accuracy": 0.4 * step / 1000, "learning_rate": 1e-3 * (1 - step / 1000),
            "gradient_norm": 1e6 if step == 500 else math.exp(random.normal()), "tokens_per_second": 30_000.0,
            "loss": 4.0, "pair_accuracy": 0.6,
        }
        for step in STEPS
    ]  # fmt: skip
    lines += [
        {
            "kind": "evaluation", "step": int(step), "tokens": int(step) * 20_000, "seconds": step * 0.6,
            "masked_token_loss": 10.0 if step == 0 else 3.1, "masked_token_accuracy": 0.3,
            "sop_accuracy": 0.5 + step / 5000, "sop_low": 0.48 + step / 5000, "sop_high": 0.52 + step / 5000,
            "sop_shallow": 0.55, "sop_majority": 0.5,
        }
        for step in EVALUATIONS
    ]  # fmt: skip
    lines.append({"kind": "event", "step": 705, "message": "depth grows from 2 to 4 layers"})
    return Run(name, sorted(lines, key=lambda line: line["step"]))


def drawn(figure: "Figure") -> "dict[str, Axes]":
    figure.draw_without_rendering()
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def has_line(axes: "Axes", xs: Any, ys: Any, **style: str) -> bool:
    """Whether some line of the panel goes through exactly these points, in this style."""
    return any(
        np.array_equal(line.get_xdata(), xs)
        and np.allclose(line.get_ydata(), ys, rtol=1e-12, equal_nan=True)
        and all(getattr(line, f"get_{name}")() == value for name, value in style.items())
        for line in axes.lines
    )


def values(run: Run, kind: str, key: str) -> list[float]:
    return [line[key] for line in run.metrics if line["kind"] == kind]


def test_each_panel_shows_what_the_metrics_say() -> None:
    runs = [make_run("one"), make_run("two", seed=1)]
    panels = drawn(draw_runs(runs))
    assert list(panels) == [
        "masked-token loss (nats)", "masked tokens", "sentence order", "learning rate",
        "gradient norm", "tokens per second",
    ]  # fmt: skip
    for run, color in zip(runs, COLORS, strict=False):
        loss = values(run, "train", "masked_token_loss")
        axes = panels["masked-token loss (nats)"]
        assert has_line(axes, STEPS, loss, color=color)
        assert has_line(axes, STEPS, smooth_values(np.array(loss), limit_amount(0.9, len(loss))), color=color)
        assert has_line(axes, EVALUATIONS, values(run, "evaluation", "masked_token_loss"), color=color, marker="o")
        assert has_line(panels["learning rate"], STEPS, values(run, "train", "learning_rate"), color=color)
        assert has_line(panels["gradient norm"], STEPS, values(run, "train", "gradient_norm"), color=color)
        norms = values(run, "train", "gradient_norm")
        smoothed = np.exp(smooth_values(np.log(norms), limit_amount(0.9, len(norms))))
        assert has_line(panels["gradient norm"], STEPS, smoothed, color=color)
    assert panels["gradient norm"].get_yscale() == "log"


def test_a_score_has_its_interval_its_shallow_baseline_and_the_majority() -> None:
    run = make_run("one")
    axes = drawn(draw_runs([run]))["sentence order"]
    assert has_line(axes, EVALUATIONS, values(run, "evaluation", "sop_accuracy"), marker="o")
    assert has_line(axes, EVALUATIONS, [0.55] * 11, linestyle="--")
    assert has_line(axes, EVALUATIONS, [0.5] * 11, linestyle=":")
    (band,) = axes.collections
    corners = {(round(x, 6), round(y, 6)) for x, y in band.get_paths()[0].vertices}
    assert {(1000, 0.68), (1000, 0.72), (0, 0.48), (0, 0.52)} <= corners


@pytest.mark.parametrize(("x", "unit", "label"), [("tokens", 0.02, "million tokens"), ("minutes", 0.01, "minutes")])
def test_the_x_axis_counts_what_is_asked_for_and_events_find_their_place_on_it(x: Any, unit: float, label: str) -> None:
    axes = drawn(draw_runs([make_run("one")], x=x, keys=["loss"]))["loss"]
    assert axes.get_xlabel() == label
    assert np.allclose(axes.lines[0].get_xdata(), STEPS * unit)
    (event,) = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert event.get_xdata()[0] == pytest.approx(705 * unit)
    assert [text.get_text() for text in axes.texts] == ["depth grows from 2 to 4 layers"]


def test_events_are_labelled_in_the_first_panel_alone_and_once_for_runs_alike() -> None:
    panels = list(drawn(draw_runs([make_run("one"), make_run("two")])).values())
    assert [len(axes.texts) for axes in panels] == [1, 0, 0, 0, 0, 0]
    assert [sum(len(line.get_xdata()) == 2 for line in axes.lines) for axes in panels] == [1] * 6


def test_neither_the_first_steps_nor_an_outlier_take_the_room() -> None:
    panels = drawn(draw_runs([make_run("one")]))
    low, high = panels["masked-token loss (nats)"].get_ylim()
    assert 2 < low < 2.9 and 3.1 < high < 4.5
    assert panels["gradient norm"].get_ylim()[1] < 100
    assert panels["tokens per second"].get_ylim()[0] <= 0


def test_what_is_not_finite_or_missing_leaves_a_gap() -> None:
    losses = [3.0, math.nan, 2.0, math.inf, 1.0]
    lines = [{"kind": "train", "step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
    lines += [{"kind": "train", "step": 6}, {"kind": "train", "step": 7, "loss": None}]
    axes = drawn(draw_runs([Run("one", lines)], smooth=0.5))["loss"]
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    smoothed = axes.lines[1].get_ydata()
    assert np.isnan(smoothed[[1, 3]]).all() and np.isfinite(smoothed[[0, 2, 4]]).all()
    assert np.isfinite(axes.get_ylim()).all()
    nothing = [{"kind": "train", "step": step, "gradient_norm": value} for step, value in [(1, math.nan), (2, 0.0)]]
    with warnings.catch_warnings(action="error"):
        assert list(drawn(draw_runs([Run("none", nothing)]))) == ["gradient norm"]


def test_a_running_mean_weighs_points_as_it_says() -> None:
    points = np.array([1.0, 2.0, 4.0, np.nan, 8.0])
    expected = [
        (1 + 2 / 2 + 4 / 4 + 8 / 16) / (1 + 1 / 2 + 1 / 4 + 1 / 16),
        (1 / 2 + 2 + 4 / 2 + 8 / 8) / (1 / 2 + 1 + 1 / 2 + 1 / 8),
        (1 / 4 + 2 / 2 + 4 + 8 / 4) / (1 / 4 + 1 / 2 + 1 + 1 / 4),
        np.nan,
        (1 / 16 + 2 / 8 + 4 / 4 + 8) / (1 / 16 + 1 / 8 + 1 / 4 + 1),
    ]
    np.testing.assert_allclose(smooth_values(points, 0.5), expected)
    np.testing.assert_allclose(smooth_values(points, 3), [1.5, 7 / 3, 3, np.nan, 8])
    np.testing.assert_allclose(smooth_values(points, 100)[2], 15 / 4)
    for nothing in (0, 1):
        np.testing.assert_array_equal(smooth_values(points, nothing), points)
    assert len(smooth_values(np.array([]), 0.9)) == 0


def test_a_running_mean_lags_behind_nothing() -> None:
    falling = np.linspace(8, 5, 201)
    np.testing.assert_allclose(smooth_values(falling, 0.9)[90:110], falling[90:110], atol=1e-4)


def test_a_single_measurement_is_seen() -> None:
    lines = [{"kind": "train", "step": 50, "loss": 0.7}, {"kind": "evaluation", "step": 50, "dev_accuracy": 68.0}]
    for axes in drawn(draw_runs([Run("run", lines)])).values():
        assert axes.lines[0].get_marker() == "o"


@pytest.mark.parametrize(
    ("key", "number", "said"),
    [
        ("sop_accuracy", 0.5, "50%"),
        ("pair_accuracy", 0.5, "50%"),
        ("answer_accuracy", 0.5, "50%"),
        ("dev_accuracy", 50.0, "50%"),
        ("dev_matched_accuracy", 50.0, "50%"),
    ],
)
def test_an_accuracy_is_told_in_percent_whether_it_is_a_share_or_a_score(key: str, number: float, said: str) -> None:
    lines = [{"kind": "evaluation", "step": step, "seconds": step, "tokens": step, key: number} for step in (1, 2)]
    (axes,) = drawn(draw_runs([Run("run", lines)], keys=[key])).values()
    assert axes.yaxis.get_major_formatter()(number, 0) == said


def test_keys_that_nobody_foresaw_are_drawn() -> None:
    lines = [
        {"kind": "train", "step": 1, "loss": 2.0, "learning_rate": 0.1},
        {"kind": "evaluation", "step": 1, "tokens": 5, "f1": 0.8, "f1_low": 0.7, "f1_high": 0.9, "exact_match": 0.5},
    ]
    assert list(drawn(draw_runs([Run("squad", lines)]))) == ["loss", "f1", "exact match", "learning rate"]


def test_lines_are_called_smoothed_where_they_are() -> None:
    (_, kinds) = draw_runs([make_run("one")], smooth=0).legends
    assert kinds.get_texts()[0].get_text() == "training"


def test_every_tick_of_a_logarithmic_axis_has_its_number_and_there_are_several() -> None:
    lines = [{"kind": "train", "step": step, "gradient_norm": 3 + step / 25} for step in range(1, 101)]
    figure = draw_runs([Run("run", lines)], keys=["gradient_norm"])
    (axes,) = drawn(figure).values()
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log" and not len(axes.yaxis.get_minorticklocs())
    assert sum(low <= place <= high for place in axes.yaxis.get_majorticklocs()) >= 4


def test_the_legend_names_runs_as_they_are_called() -> None:
    legends = draw_runs([make_run("_a$b$"), make_run("c")]).legends
    shown = [[text.get_text() for text in legend.get_texts()] for legend in legends]
    assert shown == [
        ["_a$b$", "c"],
        ["training, smoothed", "held out", "95 % interval", "shallow baseline", "majority"],
    ]
    save_figure(draw_runs([make_run("$\\frac")]), "memory://legend.png")  # no mathematics


@pytest.mark.parametrize(("name", "is_known"), [("demo", True), ("中文", False)])
def test_letters_that_no_font_has_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str, is_known: bool
) -> None:
    monkeypatch.setattr(font_manager, "get_font_names", lambda: ["DejaVu Sans"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(draw_runs([make_run(name), make_run("c")]), tmp_path / "a.png")
    told = [f"{tmp_path}/a.png has boxes for letters that no font here has; install one, such as Noto Sans CJK"]
    assert caplog.messages == ([] if is_known else told)


def test_chinese_fonts_that_are_installed_are_added_to_a_picture_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "CHINESE_FONTS", ("No Such Font", "DejaVu Serif"))
    figure = draw_runs([make_run("one"), make_run("c")])
    save_figure(figure, tmp_path / "a.png")
    for text in figure.legends[0].get_texts():
        assert text.get_fontfamily()[-1] == "DejaVu Serif"
    assert "DejaVu Serif" not in rcParams["font.family"]


def test_other_warnings_are_heard() -> None:
    with pytest.warns(UserWarning, match="unheard of"), drawing.quietly_drawn():
        warnings.warn("constrained_layout not applied because axes sizes collapsed to zero", stacklevel=1)
        warnings.warn("unheard of", stacklevel=1)


def test_every_run_has_a_colour_of_its_own() -> None:
    for number in (1, 7, 8, 30):
        assert len(set(choose_colors(number))) == number


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["runs/a"], ["a"]),
        (["runs/a/", "runs/b"], ["a", "b"]),
        (["x/run", "y/run", "y/other"], ["x/run", "y/run", "other"]),
        (["x/1/run", "y/1/run", "1/run"], ["x/1/run", "y/1/run", None]),
        (["x/./run", "y/../z/run"], ["x/run", "z/run"]),
    ],
)
def test_runs_are_called_by_the_shortest_names_that_tell_them_apart(
    folders: list[str], names: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert name_runs(folders) == [name or f"{tmp_path.name}/1/run" for name in names]
    assert name_runs(["."]) == [tmp_path.name]


def test_a_picture_is_of_the_kind_that_its_name_says(tmp_path: Path) -> None:
    figure = draw_runs([make_run("one")], keys=["loss"])
    for name in ("a.png", "a.PDF", "a.svg"):
        save_figure(figure, tmp_path / name)
    assert Image.open(io.BytesIO((tmp_path / "a.png").read_bytes())).size == (975, 650)
    assert (tmp_path / "a.PDF").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    with pytest.raises(UserError, match="a.jpg is no name of a picture; let it end in .png, .pdf or .svg"):
        save_figure(figure, tmp_path / "a.jpg")


def test_an_axis_that_was_not_measured_is_refused() -> None:
    with pytest.raises(UserError, match="the metrics of one have no 'tokens'; draw them without --x tokens"):
        draw_runs([Run("one", [{"kind": "train", "step": 1, "loss": 1.0}])], x="tokens")
