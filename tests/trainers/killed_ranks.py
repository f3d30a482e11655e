"""Kills a rank of a training job under its container's launcher."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

import psutil

from k8sbench.cli.terminal.live import LAST_LINES
from k8sbench.diagnose.job import exits as endings
from k8sbench.diagnose.job.exits import Ended
from k8sbench.trainers import paddle_launch
from tests.trainers.runs import environment, free_port, marked

MARK = "K8SBENCH_TEST_KILLED_RANKS"
ENDLESS = ("--warmup", "0", "--iterations", "100000", "--log-interval", "1", "--batch-size", "2")
TRAINERS = pathlib.Path(paddle_launch.__file__).parent
# Launcher and trainer, the variables of a job of one node with two ranks, and the variable in which
# a process finds its own rank.
JOBS: dict[str, tuple[Sequence[str], Mapping[str, str], str]] = {
    "pytorch": (
        (
            *("-m", "torch.distributed.run", "-m", "k8sbench.trainers.resnet50", *ENDLESS),
            *("--input-size", "32", "--classes", "10"),
        ),
        {"PET_NPROC_PER_NODE": "2", "PET_NNODES": "1", "PET_MASTER_ADDR": "127.0.0.1"},
        "LOCAL_RANK",
    ),
    "paddle": (
        (
            *(str(TRAINERS / "paddle_launch.py"), str(TRAINERS / "arcface.py"), *ENDLESS),
            *("--size", "16", "--classes", "7"),
        ),
        {"PADDLE_NPROC_PER_NODE": "2", "PADDLE_NNODES": "1", "PADDLE_JOB_ID": "job"},
        "PADDLE_RANK_IN_NODE",
    ),
}
# What the last lines hold of it.
TOLD = {
    "pytorch": r"rank +: 1 .*\n +exitcode +: -9 ",
    "paddle": r"paddle_launch.py: rank 1: Signal 9 \(SIGKILL\) .*\Z",
}


def a_killed_rank_ends_its_job(framework: str, *options: str) -> None:
    """Kill the second of two working ranks; the job ends and names it.

    The name is in the displayed last lines and in the diagnosis.
    """
    arguments, variables, local_rank = JOBS[framework]
    mark = f"{framework}-{os.getpid()}"
    env = environment(**variables, PET_MASTER_PORT=str(free_port()), **{MARK: mark})
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, *arguments, *options],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # as a container's log has it: one stream
        text=True,
    ) as job:
        assert job.stdout is not None
        try:
            for line in job.stdout:
                lines.append(line.rstrip("\n"))
                if '"event": "step"' in line:
                    break
            # The rank, and not the watch that it has started.
            ranks = {child.pid for child in psutil.Process(job.pid).children()}
            second = [
                pid
                for pid, found in marked(MARK, mark)
                if found.get(local_rank) == "1" and pid in ranks
            ]
            assert len(second) == 1, "\n".join(lines)
            os.kill(second[0], signal.SIGKILL)
            lines += job.stdout.read().splitlines()
            code = job.wait(timeout=400)
        finally:
            left = list(marked(MARK, mark))
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    shown = "\n".join(lines[-LAST_LINES:])
    assert code == (137 if framework == "paddle" else 1), shown  # torchrun has but one
    assert re.search(TOLD[framework], shown), shown
    assert endings.cause(Ended(replica="worker-0", code=code, last=lines), []).sentence == (
        "rank 1 of worker-0 was killed by signal 9 (SIGKILL): it was possibly out of memory."
    )
    assert left == []
