"""A rank that is killed ends its job at once, under the launcher that its container runs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from k8sbench.trainers import paddle_launch
from tests.unit.trainers.torch_runs import environment, free_port

pytestmark = pytest.mark.tier("frameworks")

MARK = "K8SBENCH_TEST_KILLED_RANKS"
ENDLESS = ("--device", "cpu", "--threads", "1", "--warmup", "0", "--iterations", "100000")
TRAINERS = pathlib.Path(paddle_launch.__file__).parent
# Launcher and trainer, the variables of a job of one node with two ranks, the variable in which a
# process finds its own rank, what is said of the one that was killed, and the job's exit code.
JOBS = {
    "pytorch": (
        (
            *("-m", "torch.distributed.run", "-m", "k8sbench.trainers.resnet50", *ENDLESS),
            *("--batch-size", "2", "--input-size", "32", "--classes", "10", "--log-interval", "1"),
        ),
        {"PET_NPROC_PER_NODE": "2", "PET_NNODES": "1", "PET_MASTER_ADDR": "127.0.0.1"},
        "LOCAL_RANK",
        "Signal 9 (SIGKILL)",
        1,
    ),
    "paddle": (
        (
            *(str(TRAINERS / "paddle_launch.py"), str(TRAINERS / "arcface.py"), *ENDLESS),
            *("--batch-size", "2", "--size", "16", "--classes", "7", "--log-interval", "1"),
        ),
        {"PADDLE_NPROC_PER_NODE": "2", "PADDLE_NNODES": "1", "PADDLE_JOB_ID": "job"},
        "PADDLE_RANK_IN_NODE",
        "rank 1: Signal 9 (SIGKILL)",
        128 + signal.SIGKILL,
    ),
}


def processes(mark: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The processes of one job, with their environments."""
    for path in pathlib.Path("/proc").glob("[1-9]*/environ"):
        try:
            entries = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
        found = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if found.get(MARK) == mark:
            yield int(path.parent.name), found


@pytest.mark.parametrize("framework", JOBS)
def test_a_killed_rank_ends_the_job_and_is_named(framework: str) -> None:
    arguments, variables, local_rank, told, code = JOBS[framework]
    mark = f"{framework}-{os.getpid()}"
    command = [sys.executable, *arguments]
    env = environment(**variables, PET_MASTER_PORT=str(free_port()), **{MARK: mark})
    pipe = subprocess.PIPE
    errors: list[str] = []
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        reader = threading.Thread(target=errors.extend, args=(job.stderr,))
        reader.start()
        try:
            for line in job.stdout:
                if '"event": "step"' in line:
                    break
            (second,) = (pid for pid, found in processes(mark) if found.get(local_rank) == "1")
            os.kill(second, signal.SIGKILL)
            rest = job.stdout.read()
            assert job.wait(timeout=60) == code
        finally:
            left = list(processes(mark))
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            reader.join()
    assert told in "".join(errors), rest + "".join(errors)
    assert left == []
