import errno
import math
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from litebert.config import UserError
from litebert.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, verify_checkpoint


def make_tensors(step: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(step)
    return {
        "model.weight": torch.randn(7, 5, generator=random),
        "model.bias": torch.randn(5, generator=random),
        "optimizer.mean": torch.randn(7, 5, generator=random),
    }


def save(folder: Path, *steps: int, keep: int = 3) -> None:
    for step in steps:
        save_checkpoint(folder, step, make_tensors(step), {"step": step}, keep=keep)


def load(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """What is loaded, which must be what was saved, and what was warned of."""
    warnings: list[str] = []
    checkpoint = load_checkpoint(folder, warn=warnings.append)
    if checkpoint:
        assert checkpoint.state == {"step": checkpoint.step}
        assert_same(checkpoint.tensors, make_tensors(checkpoint.step))
    return checkpoint, warnings


def load_step(folder: Path) -> int:
    checkpoint, warnings = load(folder)
    assert checkpoint and not warnings
    return checkpoint.step


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert to_bytes(found[name]).equal(to_bytes(tensor)), name


def to_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "checkpoints", 100, 200)
    return tmp_path / "checkpoints"


def test_tensors_of_every_kind_come_back_bit_for_bit(tmp_path: Path) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "model.scalar": torch.tensor(0.1),
        "model.empty": torch.empty(0, 3),
        "model.odd": torch.tensor([math.nan, -0.0, math.inf, 1e-45]),
        "model.bf16": torch.randn(9).bfloat16(),
        "model.parameter": torch.nn.Parameter(torch.randn(3)),
        "model.whole": whole,
        "model.again": whole,
        "model.row": whole[1],
        "model.column": whole[:, 1],
        "model.turned": whole.t(),
        "model.expanded": torch.ones(1).expand(5),
        "optimizer.whole": whole,
        "optimizer.step": torch.tensor([2**62, -1]),
        "random": torch.get_rng_state(),
    }
    path = save_checkpoint(tmp_path, 5, tensors, {})
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint and checkpoint.path == path and checkpoint.step == 5
    assert_same(checkpoint.tensors, tensors)
    files = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]
    assert names(path) == files
    checkpoint.tensors["model.row"].zero_()
    assert checkpoint.tensors["model.whole"].equal(whole), "what shared memory is apart"


def test_state_comes_back_exactly(tmp_path: Path) -> None:
    state = {
        "loss": 0.1 + 0.2,
        "tiny": 5e-324,
        "best": -math.inf,
        "seed": 2**100,
        "name": "中文 \udcff",
        "list": [None],
    }
    save_checkpoint(tmp_path, 1, {}, state | {"nan": math.nan})
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint and math.isnan(checkpoint.state.pop("nan")) and checkpoint.state == state


def test_without_checkpoints_nothing_is_loaded(tmp_path: Path) -> None:
    assert load(tmp_path) == load(tmp_path / "nowhere") == (None, [])


def test_every_flipped_byte_is_noticed_and_nothing_altered_is_loaded(folder: Path) -> None:
    chance = random.Random(0)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert len(files) == 9
    for _ in range(200):
        file = chance.choice(files)
        whole = file.read_bytes()
        broken = bytearray(whole)
        broken[chance.randrange(len(whole))] ^= chance.randrange(1, 256)
        file.write_bytes(broken)
        checkpoint, warnings = load(folder)
        assert checkpoint
        if file.name == "latest":
            assert checkpoint.step == 200
            assert len(warnings) == 1 and warnings[0].startswith(f"{file} ") and "step_00000200 is used" in warnings[0]
        elif file.parent.name == "step_00000200":
            assert checkpoint.step == 100
            assert len(warnings) == 1 and warnings[0].startswith(f"the checkpoint {file.parent} cannot be used: ")
            assert f"{file.name} " in warnings[0] and warnings[0].endswith("; step_00000100 is used")
        else:
            assert checkpoint.step == 200 and not warnings, "the older one was not needed"
            assert file.name in (verify_checkpoint(file.parent) or "")
        file.write_bytes(whole)
    assert load_step(folder) == 200 and verify_checkpoint(folder / "step_00000100") is None


def cut_short(path: Path) -> None:
    os.truncate(path / "model.safetensors", 100)


def lose_a_file(path: Path) -> None:
    (path / "optimizer.safetensors").unlink()


def lose_the_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def lose_everything(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def add_a_file(path: Path) -> None:
    (path / "extra.safetensors").write_bytes(b"")


def make_a_folder_of_a_file(path: Path) -> None:
    (path / "state.json").unlink()
    (path / "state.json").mkdir()


DAMAGES = {
    cut_short: "model.safetensors has 100 bytes; manifest.json says [0-9]+",
    lose_a_file: "optimizer.safetensors is missing",
    lose_the_manifest: "manifest.json is missing",
    lose_everything: "manifest.json is missing",
    add_a_file: "extra.safetensors does not belong there",
    make_a_folder_of_a_file: "state.json cannot be read .Is a directory.",
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.items())
def test_a_damaged_checkpoint_is_named_and_an_older_one_used(
    folder: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(folder / "step_00000200")
    checkpoint, warnings = load(folder)
    assert checkpoint and checkpoint.step == 100 and len(warnings) == 1
    assert re.fullmatch(f"the checkpoint .*step_00000200 cannot be used: {said}; step_00000100 is used", warnings[0])
    assert re.fullmatch(said, verify_checkpoint(folder / "step_00000200") or "")


def test_the_manifest_of_another_checkpoint_is_refused(folder: Path) -> None:
    other = (folder / "step_00000100" / "manifest.json").read_bytes()
    (folder / "step_00000200" / "manifest.json").write_bytes(other)
    assert verify_checkpoint(folder / "step_00000200") == "manifest.json is that of step 100"
    checkpoint, warnings = load(folder)
    assert checkpoint and checkpoint.step == 100 and len(warnings) == 2


@pytest.mark.parametrize(("damage", "said"), DAMAGES.items())
def test_a_folder_without_a_good_checkpoint_is_refused(folder: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(folder / "step_00000100")
    damage(folder / "step_00000200")
    everything = rf"step_00000200 \({said}\), step_00000100 \({said}\)"
    with pytest.raises(UserError, match=f"^no checkpoint in {folder} can be used: {everything}; restore one"):
        load_checkpoint(folder)


def test_a_checkpoint_of_a_later_version_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litebert.training.checkpoint.FORMAT", 2)
    assert verify_checkpoint(folder / "step_00000200") == "manifest.json has format 1; this version reads 2"


def test_a_latest_that_names_nothing_is_warned_of(folder: Path) -> None:
    (folder / "step_00000200").rename(folder.parent / "elsewhere")
    checkpoint, warnings = load(folder)
    assert checkpoint and checkpoint.step == 100
    said = f"{folder}/latest names step_00000200, which is not there"
    assert warnings == [f"{said}; step_00000100 is used"]
    (folder / "step_00000100").rename(folder.parent / "elsewhere too")
    assert load(folder) == (None, [f"{said}; there is no checkpoint"])


def test_a_checkpoint_newer_than_latest_is_used(folder: Path) -> None:
    latest = (folder / "latest").read_bytes()
    save(folder, 300)
    (folder / "latest").write_bytes(latest)
    assert load_step(folder) == 300
    (folder / "latest").unlink()
    assert load_step(folder) == 300


def test_hidden_folders_and_other_names_are_ignored(folder: Path) -> None:
    (folder / ".step_00000300.unfinished").mkdir()
    (folder / "step_00000300.bak").mkdir()
    (folder / "step_00000300").write_bytes(b"a file")
    (folder / "step_00000200" / ".nfs0001").write_bytes(b"the system's")
    assert load_step(folder) == 200


def test_the_newest_are_kept_and_leftovers_removed(folder: Path) -> None:
    (folder / ".step_00000150.unfinished").mkdir()
    (folder / ".step_00000150.unfinished" / "model.safetensors").write_bytes(b"half")
    (folder / ".latest.unfinished").write_bytes(b"half")
    save(folder, 300, 400, keep=2)
    assert names(folder) == ["latest", "step_00000300", "step_00000400"]
    assert load_step(folder) == 400


def test_steps_of_any_length_are_ordered_as_numbers(tmp_path: Path) -> None:
    save(tmp_path, 99_999_999, 100_000_000)
    assert load_step(tmp_path) == 100_000_000


def test_a_run_that_fell_back_keeps_its_own_checkpoints_and_mends_the_damaged_one(folder: Path) -> None:
    cut_short(folder / "step_00000200")
    save(folder, 150, keep=2)
    assert names(folder) == ["latest", "step_00000100", "step_00000150", "step_00000200"]
    checkpoint, warnings = load(folder)
    assert checkpoint and checkpoint.step == 150 and len(warnings) == 1
    save(folder, 200, keep=2)
    assert names(folder) == ["latest", "step_00000150", "step_00000200"]
    assert load_step(folder) == 200


@pytest.mark.parametrize(("step", "keep", "said"), [(-1, 3, "step is -1"), (1, 0, "keep is 0")])
def test_impossible_numbers_are_refused(tmp_path: Path, step: int, keep: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        save_checkpoint(tmp_path, step, {}, {}, keep=keep)


@pytest.mark.parametrize("name", ["", ".weight", "../model.weight", "a/b.weight"])
def test_a_tensor_whose_name_names_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="needs a name"):
        save_checkpoint(tmp_path, 1, {name: torch.ones(1)}, {})
    assert names(tmp_path) == []


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system refuses to write more than 16 MiB into a file: the limit is also that of the log of the tests."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_the_system_cuts_off_leaves_the_old_checkpoint(folder: Path, small_files: None) -> None:
    with pytest.raises(UserError) as caught:
        save_checkpoint(folder, 300, {"model.weight": torch.ones(5 << 20)}, {})
    said = f"the checkpoint {folder}/step_00000300 cannot be written (File too large); the last good checkpoint, "
    assert str(caught.value).startswith(f"{said}step_00000200, is intact: free space")
    assert names(folder) == ["latest", "step_00000100", "step_00000200"]
    assert load_step(folder) == 200


def test_without_an_old_checkpoint_the_failure_says_so(tmp_path: Path, small_files: None) -> None:
    with pytest.raises(UserError, match="there is no good checkpoint yet: free space"):
        save_checkpoint(tmp_path / "new", 300, {"model.weight": torch.ones(5 << 20)}, {})
    assert names(tmp_path / "new") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="cannot be written .*(exists|directory)"):
        save_checkpoint(tmp_path / "file", 300, {}, {})


@pytest.mark.parametrize("step", [200, 300])
def test_wherever_the_disk_is_full_a_good_checkpoint_is_left(
    folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync
    num_failures = 0
    while True:
        calls = iter(range(100))

        def fail(descriptor: int, calls: Iterator[int] = calls, last: int = num_failures) -> None:
            if next(calls) == last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        try:
            save(folder, step)
            break
        except UserError as error:
            num_failures += 1
            good = re.search(r"No space left on device\); the last good checkpoint, (step_\w+), is intact", str(error))
        checkpoint, _ = load(folder)
        assert checkpoint and good and checkpoint.path.name == good[1]
        assert (checkpoint.step == 300) == (step == 300 and num_failures > 5), (
            "all is on the disk before it has its name"
        )
        assert not [name for name in names(folder) if name.endswith(".unfinished")]
    assert num_failures == 8, "4 files, their folder, its name, latest, its name"
    assert load_step(folder) == step


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from litebert.training.checkpoint import load_checkpoint, save_checkpoint

torch.set_num_threads(1)  # a fork does not take threads along
folder, warnings = Path(sys.argv[1]), []
events = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}

def save(step):
    tensors = {f"{part}.weight": torch.full((30_000,), float(step)) for part in ("model", "optimizer")}
    save_checkpoint(folder, step, tensors, {"step": step}, keep=2)

def check():
    warnings.clear()
    checkpoint = load_checkpoint(folder, warn=warnings.append)
    if checkpoint is None:
        return 0
    assert checkpoint.state == {"step": checkpoint.step} and len(checkpoint.tensors) == 2
    assert all(tensor.eq(checkpoint.step).all() and len(tensor) == 30_000 for tensor in checkpoint.tensors.values())
    return checkpoint.step

def fork(work):
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return child

def save_for_ever():
    step = check()
    while True:
        step += 1
        save(step)

def save_until(step, number):
    def count(event, arguments):
        nonlocal number
        if event in events and str(folder) in str(arguments):
            if number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            number -= 1
    sys.addaudithook(count)
    save(step)

chance = random.Random(0)
for _ in range(12):
    before = check()
    child = fork(save_for_ever)
    time.sleep(chance.uniform(0.03, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert check() >= before and not warnings
print("saved", check())

for again in (0, 1):  # a new step, and the step of the checkpoint that is there
    number = 0
    while True:
        step = check()
        child = fork(lambda: save_until(step + 1 - again, number))
        if os.waitpid(child, 0)[1] == 0:
            break
        found = check()
        assert found in (step, step + 1 - again), (found, step)
        # `latest` may lag behind when its own checkpoint is saved again.
        assert not [text for text in warnings if not (again and text.startswith(f"{folder}/latest "))], warnings
        number += 1
    print("killed at", number, "places")
    assert check() == step + 1 - again and not warnings
    assert len(os.listdir(folder)) == 3, os.listdir(folder)
"""


def test_a_kill_at_any_moment_leaves_a_good_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "checkpoints")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    saved, *places = (int(number) for number in re.findall("[0-9]+", done.stdout))
    assert saved > 1 and min(places) > 10, done.stdout
