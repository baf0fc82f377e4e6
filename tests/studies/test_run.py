import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from litebert.config import UserError
from litebert.corpus.pairs import PairConfig
from litebert.models.folder import read_model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.pace import Pace
from litebert.studies import plan as plan_module
from litebert.studies import run as module
from litebert.studies.catalogue import STUDIES
from litebert.studies.config import StudyConfig
from litebert.studies.plan import Plan, read_plan, settle_plan, share_out
from litebert.studies.questions import Questions
from litebert.studies.results import read_results
from litebert.studies.run import Job, StoppedError, carry_out, find_run, list_jobs, take_part
from litebert.training import lock
from litebert.training.lock import hold
from litebert.training.loop import Outcome
from litebert.training.parallel import Ranks
from tests.corpus.made import write_text_corpus
from tests.finetuning.made import make_labels


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Lets runs be made as ever, and notes those that took steps."""
    made: list[Path] = []
    real = module.pretrain

    def note(config: PretrainConfig, run: Path, ranks: Ranks) -> Outcome:
        if not (run / "config.json").exists():
            made.append(run)
        return real(config, run, ranks)

    monkeypatch.setattr(module, "pretrain", note)
    return made


def test_a_study_leaves_runs_and_what_came_out_of_them(done: Path) -> None:
    results = read_results(done / "layers")
    assert [(result.variant, result.seed) for result in results] == [
        ("ALBERT", 0), ("ALBERT", 1), ("BERT", 0), ("BERT", 1),
    ]  # fmt: skip
    for result in results:
        assert (done / result.run / "model" / "config.json").exists()
        assert result.steps == 6 and result.tokens > 0 and result.tokens_per_second > 0
        assert {"masked_token_loss", "sop_accuracy", "sop_shallow", "nsp_accuracy"} <= result.measures.keys()
        assert result.layers is not None and len(result.layers.distances) == 12
    albert, bert = results[0], results[2]
    assert bert.parameters > albert.parameters and bert.measures != albert.measures


def test_what_is_done_is_not_done_again(done: Path, base: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_runs(monkeypatch)
    carry_out(STUDIES["layers"], base, StudyConfig(seeds=2), done, Ranks())
    assert made == []


def test_a_study_goes_on_with_more_seeds_and_after_results_were_lost(
    done: Path, base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(done, tmp_path / "out")
    before = (tmp_path / "out" / "layers" / "results" / "bert-seed-1.json").read_text()
    (tmp_path / "out" / "layers" / "results" / "bert-seed-1.json").unlink()
    made = count_runs(monkeypatch)
    results = carry_out(STUDIES["layers"], base, StudyConfig(seeds=3), tmp_path / "out", Ranks())
    assert len(results) == 6 and len(made) == 2
    assert (tmp_path / "out" / "layers" / "results" / "bert-seed-1.json").read_text() == before


def test_studies_share_their_runs(base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_runs(monkeypatch)
    carry_out(STUDIES["dropout"], base, StudyConfig(), tmp_path, Ranks())
    carry_out(STUDIES["sentence"], base, StudyConfig(), tmp_path, Ranks())
    assert len(made) == 2 + 3  # without dropout, with sentence order, is one run
    found = read_results(tmp_path / "sentence") + read_results(tmp_path / "dropout")
    runs = {result.variant: result.run for result in found}
    assert runs["sop"] == runs["without dropout"]


def test_all_are_asked_about_the_same_masks(base: PretrainConfig, tmp_path: Path) -> None:
    """Runs that differ in what they hide, and take no step, differ in nothing."""
    frozen = replace(base, learning_rate=1e-30, steps=1)
    results = carry_out(STUDIES["masking"], frozen, StudyConfig(), tmp_path, Ranks())
    assert len({result.measures["masked_token_loss"] for result in results}) == 1 < len(results)


def test_deeper_models_begin_with_the_shallower_one(
    base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(base, steps=2)
    results = carry_out(STUDIES["depth"], short, StudyConfig(), tmp_path, Ranks())
    inits = [json.loads((tmp_path / result.run / "config.json").read_text())["init"] for result in results]
    assert inits == [None, *(str(tmp_path / result.run / "model") for result in results[:-1])]
    models = [read_model(tmp_path / result.run / "model") for result in results]
    assert [model.config.num_layers for model in models] == [1, 3, 6, 12, 24]
    made = count_runs(monkeypatch)
    monkeypatch.chdir(tmp_path.parent)  # the same folder by another name
    carry_out(STUDIES["depth"], short, StudyConfig(), Path(tmp_path.name), Ranks())
    assert made == []


@pytest.mark.parametrize(
    ("changes", "how", "said"),
    [
        ({"learning_rate": 1e-3}, {}, "--learning-rate 0.001 instead of --learning-rate 0.003"),
        ({"evaluation_sequences": 50}, {}, "--evaluation-sequences 50 instead of --evaluation-sequences 40"),
        (
            {"pairs": PairConfig(length=16, windows="paragraph")},
            {},
            r"another config \(now --length 16 instead of --length 32\);",
        ),
        ({}, {"finetune_epochs": 9.0}, "--finetune-epochs 9.0 instead of --finetune-epochs 3.0"),
        ({}, {"finetune_examples": 9}, "--finetune-examples 9 instead of no --finetune-examples"),
    ],
)
def test_other_settings_are_refused_and_change_nothing(
    done: Path, base: PretrainConfig, changes: dict, how: dict, said: str
) -> None:
    before = (done / "layers" / "plan.json").read_text()
    with pytest.raises(UserError, match=f"is a study with .*{said}.*or a new --out"):
        carry_out(STUDIES["layers"], replace(base, **changes), StudyConfig(**how), done, Ranks())
    assert (done / "layers" / "plan.json").read_text() == before


def test_a_corpus_that_was_built_anew_is_not_gone_on_with(base: PretrainConfig, tmp_path: Path) -> None:
    folder = shutil.copytree(str(base.corpus), tmp_path / "corpus")
    here = replace(base, corpus=str(folder), steps=1)
    carry_out(STUDIES["dropout"], here, StudyConfig(), tmp_path / "out", Ranks())
    shutil.rmtree(folder)
    write_text_corpus(folder, seed=1)
    with pytest.raises(UserError) as error:
        carry_out(STUDIES["dropout"], here, StudyConfig(), tmp_path / "out", Ranks())
    assert str(error.value) == (
        f"{folder} has been built anew since {tmp_path}/out/dropout began; restore what was there, or start a new --out"
    )


def test_a_slash_behind_the_corpus_makes_no_other_study_of_it(
    done: Path, base: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_runs(monkeypatch)
    carry_out(STUDIES["layers"], replace(base, corpus=f"{base.corpus}/"), StudyConfig(seeds=2), done, Ranks())
    assert made == []


def test_a_study_of_an_earlier_version_is_gone_on_with(done: Path, base: PretrainConfig, tmp_path: Path) -> None:
    """Which wrote corpora as they are mixed."""
    shutil.copytree(done, tmp_path / "out")
    plan = json.loads((tmp_path / "out" / "layers" / "plan.json").read_text())
    (corpus,) = plan["settings"]["data"]["corpora"]
    corpus["path"] = f"{corpus['path']}={corpus.pop('weight'):g}"
    (tmp_path / "out" / "layers" / "plan.json").write_text(json.dumps(plan))
    questions, study = Questions(base), STUDIES["layers"]
    settled = settle_plan(study, study.variants(base), questions, StudyConfig(), tmp_path / "out", Ranks(), "")
    assert settled.settings == plan["settings"]


def test_a_model_that_was_written_half_way_is_not_taken_for_the_last(base: PretrainConfig, tmp_path: Path) -> None:
    """As when a process is killed after its last step, and before it has written the model anew."""
    short = replace(base, steps=4)
    (first, _) = carry_out(STUDIES["dropout"], short, StudyConfig(), tmp_path, Ranks())
    model = tmp_path / first.run / "model" / "model.safetensors"
    whole = model.read_bytes()
    (other,) = [result for result in read_results(tmp_path / "dropout") if result.run != first.run]
    model.write_bytes((tmp_path / other.run / "model" / "model.safetensors").read_bytes())
    (tmp_path / "dropout" / "results" / "with-dropout-seed-0.json").unlink()
    again = carry_out(STUDIES["dropout"], short, StudyConfig(), tmp_path, Ranks())
    assert model.read_bytes() == whole and again[0].measures == first.measures


def test_a_run_that_is_stopped_stops_the_study(
    base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "pretrain", lambda *_: Outcome(3, 2, 0))
    with pytest.raises(StoppedError):
        carry_out(STUDIES["dropout"], base, StudyConfig(), tmp_path, Ranks())
    assert read_results(tmp_path / "dropout") == []


def write_rte(folder: Path, labels: Sequence[str] = ("entailment", "not_entailment")) -> Path:
    random = np.random.default_rng(0)
    folder.mkdir()
    for split, number in (("train", 16), ("dev", 8)):
        given = [labels[place % 2] for place in range(number)]
        rows = [f"{place}\t{make_labels(random, place)['text']}\tit is\t{label}" for place, label in enumerate(given)]
        (folder / f"{split}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    return folder


def test_models_are_fine_tuned_where_tasks_are_named(done: Path, base: PretrainConfig, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    study, config = STUDIES["layers"], StudyConfig(tasks=(f"rte={write_rte(tmp_path / 'RTE')}",))
    results = carry_out(study, base, config, tmp_path / "out", Ranks())
    scored = {Path(result.run).name: result.scores["rte"] for result in results if result.seed == 0}
    assert len(scored) == 2 and not any(result.scores for result in results if result.seed == 1)
    for run, score in scored.items():
        (folder,) = (tmp_path / "out" / "finetuned" / run).glob("rte-*")
        written = json.loads((folder / "scores.json").read_text())
        assert score == written["dev"]["accuracy"] / 100
    again = StudyConfig(tasks=tuple(f"{task}/" for task in config.tasks))
    assert carry_out(study, base, again, tmp_path / "out", Ranks()) == results
    moved = (tmp_path / "out").rename(tmp_path / "moved")  # what was fine-tuned is not looked at again
    more = StudyConfig(tasks=(*config.tasks, f"wnli={write_rte(tmp_path / 'WNLI', ('0', '1'))}"))
    results = carry_out(study, base, more, moved, Ranks())
    assert all(set(result.scores) == {"rte", "wnli"} for result in results if result.seed == 0)
    moved.rename(tmp_path / "out")
    with pytest.raises(
        UserError, match="layers was fine-tuned for rte from .*RTE, not from .*other; give the same folder"
    ):
        carry_out(study, base, StudyConfig(tasks=(f"rte={write_rte(tmp_path / 'other')}",)), tmp_path / "out", Ranks())


@pytest.mark.parametrize(("task", "said"), [("rtee=RTE", "did you mean 'rte'"), ("rte=nowhere", "nowhere")])
def test_tasks_are_read_before_anything_is_trained_for_them(
    base: PretrainConfig, tmp_path: Path, task: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        carry_out(STUDIES["dropout"], base, StudyConfig(tasks=(task,)), tmp_path, Ranks())
    assert list(tmp_path.iterdir()) == []


def test_steps_that_do_not_fit_are_refused_while_nothing_is_written(base: PretrainConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="warmup_steps is 5000"):
        carry_out(STUDIES["dropout"], replace(base, warmup_steps=5000), StudyConfig(), tmp_path, Ranks())
    assert list(tmp_path.iterdir()) == []


def test_steps_share_out_the_time() -> None:
    paces = {"slow": Pace(3.0, 0.0), "fast": Pace(1.0, 0.0)}
    assert share_out(paces, 400, equal_time=False) == {"slow": 100, "fast": 100}
    assert share_out(paces, 400, equal_time=True) == {"slow": 66, "fast": 200}


def test_a_budget_becomes_steps_by_timing(base: PretrainConfig, tmp_path: Path) -> None:
    said: list[str] = []
    without = replace(base, steps=None)
    results = carry_out(STUDIES["dropout"], without, StudyConfig(budget="2s"), tmp_path, Ranks(), tell=said.append)
    assert results[0].steps == results[1].steps > 1
    assert any(line.startswith("steps: with dropout") for line in said)
    assert any(line.startswith("--encoder hidden_size=32 ") and "holds for every model" in line for line in said)
    with pytest.raises(UserError, match="the budget is 3s; .* was begun with 2s, from which its steps follow"):
        carry_out(STUDIES["dropout"], without, StudyConfig(budget="3s"), tmp_path, Ranks())


def test_a_run_that_another_program_trains_is_waited_for(
    base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    variants = STUDIES["dropout"].variants(base)
    steps = {variant.name: 6 for variant in variants}
    run, _ = find_run(Job(variants[0], base.seed), variants, steps, tmp_path)
    said: list[str] = []
    free = threading.Event()

    def tell(message: str) -> None:
        said.append(message)
        if "waiting for it" in message:
            free.set()

    def occupy() -> None:
        with hold(run, Ranks()):
            assert free.wait(timeout=60)

    other = threading.Thread(target=occupy)
    other.start()
    while not (run / lock.LOCK).exists():
        assert other.is_alive()
    results = carry_out(STUDIES["dropout"], base, StudyConfig(), tmp_path, Ranks(), tell=tell)
    other.join(timeout=60)
    assert len(results) == 2 and sum(f"{run} is being trained" in message for message in said) == 1


def test_parts_that_write_a_plan_at_once_lose_none_of_its_commands(
    base: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    together = threading.Barrier(4)

    def read_slowly(folder: Path) -> Plan:
        plan = read_plan(folder)
        time.sleep(0.05)  # in which another could write
        return plan

    def begin(command: str) -> None:
        study, questions = STUDIES["dropout"], Questions(base)
        together.wait(timeout=60)
        settle_plan(study, study.variants(base), questions, StudyConfig(), tmp_path, Ranks(), command)

    monkeypatch.setattr(plan_module, "read_plan", read_slowly)
    commands = [f"litebert study dropout --part {number}/4" for number in range(1, 5)]
    parts = [threading.Thread(target=begin, args=(command,)) for command in commands]
    for part in parts:
        part.start()
    for part in parts:
        part.join(timeout=60)
    assert sorted(read_plan(tmp_path / "dropout").commands) == commands


@pytest.mark.parametrize("total", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["depth", "sharing"])
def test_parts_do_every_job_once_and_what_depends_on_it_with_it(name: str, total: int, base: PretrainConfig) -> None:
    chains = list_jobs(STUDIES[name].variants(base), 0, 3)
    parts = [list(take_part(chains, (number, total))) for number in range(1, total + 1)]
    jobs = [(job.variant.name, job.seed) for part in parts for job in part]
    assert len(set(jobs)) == len(jobs) == 3 * len(STUDIES[name].variants(base))
    for part in parts:
        done: set[tuple[str | None, int]] = set()
        for job in part:
            assert job.variant.after is None or (job.variant.after, job.seed) in done
            done.add((job.variant.name, job.seed))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: StudyConfig(budget="soon"), "the budget is 'soon'; write it as 90s, 20m or 3h"),
        (lambda: StudyConfig(budget="0m"), "the budget is '0m'"),
        (lambda: StudyConfig(budget="9" * 400 + "s"), "9s; it must be at most 10000000m"),
        (lambda: StudyConfig(budget="166667h"), "the budget is 166667h; it must be at most 10000000m"),
        (lambda: StudyConfig(tasks=("rte=a", "rte=b")), "tasks is 'rte=a rte=b'; name each task once, with one folder"),
        (lambda: StudyConfig(part="4/3"), "the part is '4/3'; write it as 2/3"),
        (lambda: StudyConfig(seeds=0), "seeds is 0; it must be at least 1"),
        (lambda: StudyConfig(tasks=("rte",)), "'rte' is no task with its folder; write it as rte=glue/RTE"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], StudyConfig], said: str) -> None:
    with pytest.raises(UserError) as error:
        make()
    assert said in str(error.value)


def test_budgets_are_seconds_minutes_or_hours() -> None:
    assert [StudyConfig(budget=text).seconds for text in ("90s", "20m", "1.5h")] == [90, 1200, 5400]
