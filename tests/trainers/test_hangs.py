"""Jobs with a rank that hangs or never comes."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from k8sbench.diagnose.job import exits
from k8sbench.trainers import paddle_launch
from tests.trainers.killed_ranks import JOBS
from tests.trainers.runs import environment, free_port, marked, ranks

pytestmark = pytest.mark.tier("linux", "frameworks")

MARK = "K8SBENCH_TEST_HANGS"
OPTIONS = ("--device", "cpu", "--threads", "1")
PROGRAM = """
import importlib, os, pathlib, signal, sys, threading
from k8sbench.trainers.parts import ending, steps, watch

RANK = os.environ.get("RANK", os.environ.get("PADDLE_TRAINER_ID"))
HERE = pathlib.Path(__file__).parent

class Limit(float):
    '''A second, which begins when a rank hangs: so a slow start is none.'''

    def __gt__(self, still):
        return not (HERE / "hangs").exists() or float(self) > still

    def __mul__(self, times):
        return self

def hang():
    (HERE / "hangs").touch()
    {how}

{where}
watch.LIMIT, watch.TICK = {limit}, 0.1
trainer = importlib.import_module("k8sbench.trainers." + sys.argv[1])
ending.run(lambda: trainer.main(sys.argv[2:]))
"""
IN_A_STEP = """
ready = steps.StepTimer.data_ready
def data_ready(timer):
    if timer.steps == 2 and RANK == "1":
        hang()
    ready(timer)
steps.StepTimer.data_ready = data_ready
"""
AT_THE_START = "if RANK == '{rank}': hang()"
WAITS, STOPS = "threading.Event().wait()", "os.kill(os.getpid(), signal.SIGSTOP)"
LOSES_ITS_WATCH = f"import psutil; [each.kill() for each in psutil.Process().children()]; {WAITS}"


def hanging(framework: str, folder: pathlib.Path, *, where: str, how: str, limit: str) -> list[str]:
    """Run a job of which a rank hangs; return its lines."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(where=where, how=how, limit=limit))
    words, variables, _ = JOBS[framework]
    trainer = {"pytorch": "resnet50", "paddle": "arcface"}[framework]
    launcher = words[: 2 if framework == "pytorch" else 1]
    options = words[words.index("--warmup") :]
    mark = f"{framework}-{os.getpid()}"
    variables = {**variables, "PET_MASTER_PORT": str(free_port()), MARK: mark}
    try:
        job = subprocess.run(
            [sys.executable, *launcher, str(program), trainer, *options, *OPTIONS],
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert job.returncode != 0
        assert list(marked(MARK, mark)) == []
    finally:
        for pid, _ in marked(MARK, mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return job.stdout.splitlines()


@pytest.mark.parametrize(
    ("framework", "where", "how", "limit", "sentence"),
    [
        ("pytorch", IN_A_STEP, STOPS, "Limit(1)", r"rank 1 of worker-0 is stopped .* of step 3"),
        (
            "paddle",
            IN_A_STEP,
            WAITS,
            "Limit(1)",
            r"rank 1 of worker-0 hangs at the data of step 3",
        ),
        (
            "pytorch",
            IN_A_STEP,
            LOSES_ITS_WATCH,
            "Limit(1)",
            "rank 1 of worker-0 has lost its watch, and hangs or is gone",
        ),
        ("pytorch", AT_THE_START.format(rank=1), WAITS, "1", "rank 1 of worker-0 has not come"),
        ("pytorch", AT_THE_START.format(rank=0), WAITS, "1", "rank 0 of worker-0 has not come"),
        ("paddle", AT_THE_START.format(rank=0), WAITS, "1", "rank 0 of worker-0 has not come"),
    ],
)
def test_the_job_ends_and_its_cause_names_the_silent_rank(
    framework: str, where: str, how: str, limit: str, sentence: str, tmp_path: pathlib.Path
) -> None:
    lines = hanging(framework, tmp_path, where=where, how=how, limit=limit)
    ended = exits.Ended(replica="worker-0", code=1, last=lines)
    cause = exits.cause(ended, [])
    assert (cause.replica, cause.id) == ("worker-0", "replica-failed"), lines
    assert re.match(f"{sentence}: no rank has done anything for 1 s", cause.sentence)


PATIENT = """
import os
from k8sbench.trainers.parts import settings
from k8sbench.trainers.parts.paddle_session import open_session
import numpy as np

DEFAULTS = settings.Defaults(benchmark="toy", recipes=("toy",), batch_size=1, speed_options=())
common, _ = settings.read("toy", "", DEFAULTS, None, ["--device", "cpu"])
with open_session(common) as here:
    here.connect()
    summed = here.distributed.all_reduce
    def all_reduce(values):
        assert here.store.add("late", 0) == 1, "Paddle's own limit of 30 s has begun"
        return summed(values)
    here.distributed.all_reduce = all_reduce
    if here.place.rank == 1:
        here.store.get("waits")  # as long as an evaluation or a checkpoint takes
        here.store.add("late", 1)
    else:
        wait = here.wait_by_store
        def waits():
            here.store.set("waits", "1")
            wait()
        here.wait_by_store = waits
    print(here.total(np.ones(1))[0])
from k8sbench.trainers.parts import ending
ending.run(lambda: None)
"""


def test_a_rank_of_paddles_waits_for_a_late_one_outside_of_the_collective() -> None:
    """On CPUs Paddle's collectives end a rank that waits for 30 s."""
    assert ranks(["-c", PATIENT], 2, "paddle") == ["2.0\n", "2.0\n"]


def test_both_frameworks_have_one_limit_of_minutes() -> None:
    from k8sbench.trainers.parts import watch

    assert watch.LIMIT == paddle_launch.LIMIT == 300.0
