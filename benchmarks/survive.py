"""What a pre-training run survives: kills, lost ranks, damaged checkpoints, a full disk.

    python benchmarks/survive.py
    python benchmarks/survive.py --parts kills ranks --kills 5 --rank-kills 2

Every part runs `litebert pretrain` as a user does, in processes of its own, on a small corpus that it makes. A run
counts as survived only if, when it is done, its weights are equal to the last bit to those of a run that nothing
happened to, and its metrics tell every step once, with the same numbers but for the clock's.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from sides import find_children

from litebert.corpus.build import BuildConfig, build_corpus
from litebert.display import print_table
from litebert.text.documents import find_sources
from litebert.training.checkpoint import load_checkpoint, verify_checkpoint
from litebert.training.metrics import read_metrics

PartName = Literal["kills", "chain", "flips", "sigterm", "disk", "ranks"]
Moment = Literal["start", "training", "save"]
MOMENTS: tuple[Moment, ...] = ("start", "training", "save", "training", "save")
"""When runs are killed, in turns: from the start of their process on, while they open, check and write their first
files; once they train; and while they save, which is else too short to be met."""
SAVE_SECONDS = 0.005
CLOCK = ("seconds", "tokens_per_second", "share_of_peak")
WORDS = ["the", "a", "fox", "dog", "bird", "rain", "wind", "sees", "hears", "finds", "big", "old", "red"]
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Hurts pre-training runs and looks whether they recover."""

    parts: tuple[PartName, ...] = ("kills", "chain", "flips", "sigterm", "disk", "ranks")
    kills: int = 50
    """Runs that are killed once, each at a random moment."""
    chain: int = 10
    """How often one run is killed."""
    flips: int = 200
    rank_kills: int = 20
    """Runs of two ranks of which one is killed."""
    steps: int = 120
    """More than 100, so that hard tokens come into it."""
    save_every: int = 4
    seed: int = 0


@dataclass
class Bench:
    """The corpus, the run that nothing happened to, and how long its parts take."""

    options: Options
    folder: Path
    draw: random.Random

    def command(self, run: Path, *launcher: str) -> list[str]:
        return [
            *(launcher or (sys.executable, "-m", "litebert")), "pretrain", "--preset", "albert-nano",
            "--corpus", str(self.folder / "corpus"), "--run", str(run), "--encoder", "hidden_size=64", "num_heads=2",
            "--num-sequences", "8", "--steps", str(self.options.steps), "--length", "48", "--log-every", "7",
            "--save-every", str(self.options.save_every), "--evaluate-every", "50", "--evaluation-sequences", "16",
            "--hardness", "1",
        ]  # fmt: skip

    def start(self, run: Path, *launcher: str, **changes: Any) -> "subprocess.Popen[str]":
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return subprocess.Popen(
            self.command(run, *launcher), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            **changes,
        )  # fmt: skip

    def finish(self, run: Path, *launcher: str) -> str:
        """Runs to the end; what it said, or an error."""
        process = self.start(run, *launcher)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said[-2000:]
        return said


def make_corpus(folder: Path) -> None:
    draw = random.Random(0)
    text = "\n\n".join(
        "\n".join(
            " ".join(
                f"{' '.join(draw.choices(WORDS, k=draw.randint(3, 9)))}.".capitalize()
                for _ in range(draw.randint(2, 5))
            )
            for _ in range(draw.randint(2, 8))
        )
        for _ in range(80)
    )
    (folder / "text.txt").write_text(text + "\n")
    (folder / "vocab").mkdir()
    (folder / "vocab" / "vocab.txt").write_text("\n".join([*MARKS, *WORDS]) + "\n")
    sources = find_sources([str(folder / "text.txt")])
    build_corpus(sources, folder / "vocab", str(folder / "corpus"), BuildConfig(dev_share=0.2), num_workers=1)


def same(run: Path, other: Path) -> bool:
    """Whether two runs came to the same weights and told the same of every step."""
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (run, other)]
    lines = [
        [{key: value for key, value in line.items() if key not in CLOCK} for line in read_metrics(folder)]
        for folder in (run, other)
    ]
    return weights[0] == weights[1] and lines[0] == lines[1]


def wait_for_training(run: Path, process: "subprocess.Popen[str]") -> None:
    """Until this process has begun to save, so that a kill finds a run under way."""
    checkpoints = run / "checkpoints"
    before = time.time_ns()
    while process.poll() is None and not (checkpoints.exists() and checkpoints.stat().st_mtime_ns > before):
        time.sleep(0.005)


def time_training(bench: Bench, run: Path, *launcher: str) -> float:
    """Seconds from the first save to the end, in which moments are drawn."""
    process = bench.start(run, *launcher)
    wait_for_training(run, process)
    start = time.perf_counter()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said[-2000:]
    return time.perf_counter() - start


def kill_later(bench: Bench, run: Path, seconds: float, moment: Moment = "training") -> tuple[bool, bool]:
    """Starts or goes on with a run and kills it at a random moment; whether it was alive, and within a save."""
    process = bench.start(run)
    if moment != "start":
        wait_for_training(run, process)
    time.sleep(bench.draw.uniform(0, seconds))
    if moment == "save":
        while process.poll() is None and not is_saving(run):
            pass
        time.sleep(bench.draw.uniform(0, SAVE_SECONDS))
    process.kill()
    process.wait()
    process.stdout.close()  # type: ignore[union-attr]
    return process.returncode == -signal.SIGKILL, is_saving(run)


def is_saving(run: Path) -> bool:
    """Whether a checkpoint is, or was when the run was killed, half written or half removed."""
    return any((run / "checkpoints").glob(".*"))


def kills(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """Runs that are killed once at a random moment, and gone on with."""
    survived = within_saves = 0
    for number in range(bench.options.kills):
        run = bench.folder / f"kill{number}"
        moment = MOMENTS[number % len(MOMENTS)]
        while not (killed := kill_later(bench, run, seconds, moment))[0]:  # it had come to its end before
            shutil.rmtree(run)
        bench.finish(run)
        survived += same(run, straight)
        within_saves += killed[1]
        shutil.rmtree(run)
    return {"of": bench.options.kills, "survived": survived, "note": f"{within_saves} in a save"}


def chain(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """One run, killed again and again."""
    run, killed = bench.folder / "chain", 0
    for _ in range(bench.options.chain):
        was_running, _ = kill_later(bench, run, seconds / bench.options.chain)
        killed += was_running
    bench.finish(run)
    return {"of": 1, "survived": int(same(run, straight)), "note": f"killed {killed} times"}


def flips(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """A flipped byte somewhere in the newest checkpoint: is it found, and is what is loaded a good one?"""
    found = 0
    checkpoints = straight / "checkpoints"
    newest = checkpoints / (checkpoints / "latest").read_text().split()[0]
    files = [*newest.iterdir(), checkpoints / "latest"]
    sizes = [file.stat().st_size for file in files]
    for _ in range(bench.options.flips):
        # Half of the flips by size, half by file: small files would hardly ever be hit.
        (file,) = bench.draw.choices(files, sizes if bench.draw.random() < 0.5 else None)
        content = bytearray(file.read_bytes())
        place = bench.draw.randrange(len(content))
        before, content[place] = content[place], content[place] ^ bench.draw.randrange(1, 256)
        file.write_bytes(content)
        warnings: list[str] = []
        loaded = load_checkpoint(checkpoints, warn=warnings.append)
        is_good = loaded is not None and verify_checkpoint(loaded.path) is None
        found += bool(warnings) and is_good
        content[place] = before
        file.write_bytes(content)
    return {"of": bench.options.flips, "survived": found, "note": f"in {len(files)} files, {sum(sizes):,} bytes"}


def sigterm(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """A polite end: it saves, exits with 0, and goes on where it was."""
    run = bench.folder / "sigterm"
    process = bench.start(run)
    wait_for_training(run, process)
    time.sleep(seconds / 3)
    process.terminate()
    said, _ = process.communicate(timeout=60)
    saved = load_checkpoint(run / "checkpoints")
    good = process.returncode == 0 and "saved; run the same command to go on" in said
    bench.finish(run)
    step = saved.step if saved else 0
    return {"of": 1, "survived": int(good and same(run, straight)), "note": f"exit {process.returncode} at step {step}"}


def disk(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """A disk that takes no more: the old checkpoint stays, it is said, and the run goes on when there is room."""
    run = bench.folder / "disk"
    process = bench.start(run)
    wait_for_training(run, process)
    while load_checkpoint_step(run) < 2 * bench.options.save_every:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = load_checkpoint_step(run)
    largest = max(file.stat().st_size for file in (run / "checkpoints").glob("step_*/*"))
    limited = bench.start(run, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2,) * 2))
    said, _ = limited.communicate(timeout=60)
    sentence = next((line for line in said.splitlines() if "cannot be written" in line), said[-300:])
    good = limited.returncode == 2 and load_checkpoint_step(run) == before and "is intact" in sentence
    bench.finish(run)
    return {"of": 1, "survived": int(good and same(run, straight)), "note": sentence}


def load_checkpoint_step(run: Path) -> int:
    steps = [int(folder.name[5:]) for folder in (run / "checkpoints").glob("step_*")]
    return max(steps, default=0)


LAUNCHER = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "--max-restarts", "1", "-m", "litebert", "--")  # fmt: skip


def ranks(bench: Bench, straight: Path, seconds: float) -> dict[str, Any]:
    """One of two ranks is killed under torchrun, which may start them again once."""
    together = bench.folder / "two"
    seconds = time_training(bench, together, *LAUNCHER)
    survived = killed = 0
    for number in range(bench.options.rank_kills):
        run = bench.folder / f"ranks{number}"
        process = bench.start(run, *LAUNCHER)
        wait_for_training(run, process)
        time.sleep(bench.draw.uniform(0, 0.8 * seconds))
        workers = find_children(process.pid)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(bench.draw.choice(workers), signal.SIGKILL)
                killed += 1
        process.communicate(timeout=600)
        survived += process.returncode == 0 and same(run, together)
        shutil.rmtree(run)
    return {"of": bench.options.rank_kills, "survived": survived, "note": f"{killed} killed, one restart allowed"}


PARTS: dict[str, Callable[[Bench, Path, float], dict[str, Any]]] = {
    "kills": kills, "chain": chain, "flips": flips, "sigterm": sigterm, "disk": disk, "ranks": ranks
}  # fmt: skip


def run_parts(options: Options, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    bench = Bench(options, folder, random.Random(options.seed))
    make_corpus(folder)
    straight = folder / "straight"
    seconds = time_training(bench, straight)
    bench.finish(folder / "again")
    assert same(folder / "again", straight), "two runs that nothing happened to differ: nothing can be compared"
    for name in options.parts:
        yield name, PARTS[name](bench, straight, seconds)


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, result in run_parts(options, Path(folder)):
            print(f"{name}: {result['survived']} of {result['of']}; {result['note']}", flush=True)
            results[name] = result
    rows = [
        {
            "what happened": (PARTS[name].__doc__ or "").splitlines()[0],
            "times": result["of"],
            "survived, bit for bit": result["survived"],
            "note": result["note"],
        }
        for name, result in results.items()
    ]
    print_table(rows)
    print(json.dumps(results))
    if any(result["survived"] < result["of"] for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
