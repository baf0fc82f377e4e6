"""What docs/howto/devices.md tells people to type works: on two ranks, and with stand-ins for Slurm's own commands."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_readme import ROOT

BLOCKS = re.findall(r"```\n(.*?)```", (ROOT / "docs/howto/devices.md").read_text(encoding="utf-8"), re.DOTALL)
JOB = next(block for block in BLOCKS if block.startswith("#!"))
# What a page for many devices says, as it is on a machine of two cores.
HERE = {
    r"--nproc-per-node 8": "--nproc-per-node 2",
    r"--preset albert-\w+": "--preset albert-nano --num-sequences 4 --length 32 --evaluation-sequences 0",
    r"--corpus \S+": "--corpus demo/corpus",
    r"--run \S+": "--run my-run",
    r"--rdzv-endpoint \S+:29400": "--rdzv-endpoint localhost:$PORT",
    r"--rdzv-endpoint \$\((.*)\):29400": r"--rdzv-endpoint $(\1):$PORT",
}
SLURM = {
    "srun": 'echo $$ > srun.pid; exec "$@"',
    "scontrol": 'if [ "$1" = show ]; then echo localhost; else echo "$@" > requeued; fi',
    "scancel": 'echo "$@" > signalled; kill -TERM $(cat srun.pid)',
}


def find_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def start(script: str, **environment: str) -> "subprocess.Popen[str]":
    """The script, in the workplace that this test is in."""
    for said, here in HERE.items():
        script = re.sub(said, here, script)
    folder = Path("stand-ins")
    folder.mkdir(exist_ok=True)
    for name, content in SLURM.items():
        (folder / name).write_text(f"#!/bin/bash\n{content}\n")
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder.resolve()), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.Popen(
        ["bash", "-c", script],
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "PORT": str(find_port())} | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=300)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def read_steps() -> list[int]:
    """The steps that the run has told of."""
    path = Path("my-run/metrics.jsonl")
    return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("script", [block for block in BLOCKS if block != JOB])
def test_every_command_on_the_page_runs(script: str, workplace: None) -> None:
    process = start(f"{script.rstrip()} --steps 3", PET_NNODES="1")
    said = finish(process)
    assert process.returncode == 0, said
    assert "3 steps done" in said


def test_a_job_of_slurm_is_saved_before_its_time_is_up_and_goes_on(workplace: None) -> None:
    script = JOB.replace(" &\n", " --steps 300 --log-every 1 &\n")
    slurm = {"SLURM_NNODES": "1", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "localhost"}
    job = start(script, **slurm)
    while not read_steps() and job.poll() is None:
        time.sleep(0.1)
    job.send_signal(signal.SIGUSR1)  # to the script alone, as Slurm does
    said = finish(job)
    assert Path("signalled").read_text() == "--signal=TERM 7\n", said
    assert Path("requeued").read_text() == "requeue 7\n", said
    (saved,) = Path("my-run/checkpoints").glob("step_*")
    step = int(saved.name.removeprefix("step_"))
    assert step == read_steps()[-1] < 300

    Path("requeued").unlink()
    said = finish(start(script, **slurm))
    assert f"{step}/300  from the checkpoint of this step on" in said
    assert read_steps() == list(range(1, 301))
    assert not Path("requeued").exists()
