import json
import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from litebert.config import UserError
from litebert.training.metrics import MetricsWriter, read_metrics


def read_events(run: Path) -> EventAccumulator:
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def train(run: Path, start: int, stop: int, loss: float) -> None:
    with MetricsWriter(run, from_step=start) as writer:
        if not start:
            writer.write("evaluation", 0, sop_accuracy=0.5)
        for step in range(start + 1, stop + 1):
            writer.write("train", step, loss=loss)
            if step % 5 == 0:
                writer.write("evaluation", step, sop_accuracy=loss / 10)
                writer.write("event", step, message=f"checkpoint at {step}")


def test_lines_read_as_they_were_written_and_are_on_disk_at_once(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path / "new" / "run") as writer:
        writer.write("train", 1, loss=0.1 + 0.2, tokens=1 << 40, missing=None)
        writer.write("event", 1, message="深度 grows\nto 4")
        expected = [
            {"kind": "train", "step": 1, "loss": 0.1 + 0.2, "tokens": 1 << 40},
            {"kind": "event", "step": 1, "message": "深度 grows\nto 4"},
        ]
        assert read_metrics(tmp_path / "new" / "run") == expected
        assert read_events(tmp_path / "new" / "run").Scalars("train/loss")[0].value == pytest.approx(0.3)


def test_a_loss_that_is_not_a_number_is_kept(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.write("train", 1, loss=math.nan, gradient_norm=math.inf)
    (line,) = read_metrics(str(tmp_path))
    assert math.isnan(line["loss"]) and line["gradient_norm"] == math.inf


def test_however_often_a_run_is_killed_each_step_stands_in_its_metrics_once(tmp_path: Path) -> None:
    for number in range(2):
        train(tmp_path / "killed", 0, 8 + number, loss=9.0)  # without a checkpoint
    train(tmp_path / "killed", 5, 13, loss=8.0)
    train(tmp_path / "killed", 10, 17, loss=7.0)
    train(tmp_path / "killed", 10, 20, loss=6.0)
    lines = read_metrics(tmp_path / "killed")
    assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 21))
    assert [line["step"] for line in lines if line["kind"] == "evaluation"] == [0, 5, 10, 15, 20]
    assert [line["step"] for line in lines if line["kind"] == "event"] == [5, 10, 15, 20]
    assert [line["loss"] for line in lines if line["kind"] == "train"] == [9.0] * 5 + [8.0] * 5 + [6.0] * 10


def test_tensorboard_shows_what_the_lines_say(tmp_path: Path) -> None:
    train(tmp_path, 0, 8, loss=9.0)
    train(tmp_path, 5, 12, loss=8.0)
    train(tmp_path, 10, 15, loss=7.0)
    lines, events = read_metrics(tmp_path), read_events(tmp_path)
    assert set(events.Tags()["scalars"]) == {"train/loss", "evaluation/sop_accuracy"}
    for kind, key in (("train", "loss"), ("evaluation", "sop_accuracy")):
        shown = [(event.step, event.value) for event in events.Scalars(f"{kind}/{key}")]
        said = [(line["step"], line[key]) for line in lines if line["kind"] == kind]
        assert [step for step, _ in shown] == [step for step, _ in said]
        assert [value for _, value in shown] == pytest.approx([value for _, value in said])
    texts = events.Tensors("event/message/text_summary")
    assert [(text.step, text.tensor_proto.string_val[0].decode()) for text in texts] == [
        (line["step"], line["message"]) for line in lines if line["kind"] == "event"
    ]


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_half_written_last_line_is_ignored_and_then_replaced(tmp_path: Path, cut: int) -> None:
    train(tmp_path, 0, 4, loss=9.0)
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    half = '{"kind": "train", "step": 5, "loss": 3.0, "note": "é"}'.encode()[:-cut]
    (tmp_path / "metrics.jsonl").write_bytes(whole + half)
    assert [line["step"] for line in read_metrics(tmp_path)] == [0, 1, 2, 3, 4]
    MetricsWriter(tmp_path, from_step=9).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_a_last_line_that_lacks_only_its_end_is_whole(tmp_path: Path) -> None:
    train(tmp_path, 0, 3, loss=9.0)
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(whole.removesuffix(b"\n"))
    assert read_metrics(tmp_path)[-1]["step"] == 3
    MetricsWriter(tmp_path, from_step=3).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


HUGE = b"1" + b"0" * 400


@pytest.mark.parametrize(
    "damage",
    [
        b"no json",
        b"",
        b"\xff\xfe",
        b"[1]",
        b'{"kind": "train"}',
        b'{"step": 3, "loss": 1.0}',
        b'{"kind": "train", "step": %s}' % HUGE,
        b'{"kind": "train", "step": 3, "tokens": -%s}' % HUGE,
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_rewritten(tmp_path: Path, damage: bytes) -> None:
    train(tmp_path, 0, 4, loss=9.0)
    path = tmp_path / "metrics.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], damage, *lines[2:], b""]))
    before = path.read_bytes()
    for act in (read_metrics, lambda run: MetricsWriter(run, from_step=4)):
        with pytest.raises(UserError, match=f"line 3 of {path} is damaged"):
            act(tmp_path)
    assert path.read_bytes() == before


def test_a_rewrite_that_fails_leaves_the_lines_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, 0, 4, loss=9.0)
    before = (tmp_path / "metrics.jsonl").read_bytes()

    def fail(line: object) -> bytes:
        raise OSError("the disk is full")

    monkeypatch.setattr("litebert.training.metrics.to_json", fail)
    with pytest.raises(OSError, match="full"):
        MetricsWriter(tmp_path, from_step=2)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "tensorboard"]


def test_a_folder_without_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere does not exist; give the folder of a training run"):
        read_metrics(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no metrics.jsonl; give the folder of a training run"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(json.dumps({"kind": "train", "step": 1}).encode()[:-3])
    with pytest.raises(UserError, match="metrics.jsonl has no whole line; wait"):
        read_metrics(tmp_path)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.file.close()
        with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
            writer.file = full
            with pytest.raises(UserError, match="metrics.jsonl cannot be written: no space is left; make room"):
                writer.write("train", 1, loss=1.0)


def test_a_line_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(UserError, match="line 1 of .* is damaged"):
        read_metrics(tmp_path)
