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
from tests.harness import children
from tests.trainers import hanging
from tests.trainers.hanging import IN_A_STEP, LOSES_ITS_WATCH, STOPS, WAITS
from tests.trainers.killed_ranks import JOBS
from tests.trainers.runs import environment, free_port, marked, narrow, ranks

pytestmark = pytest.mark.tier("linux", "frameworks")

MARK = "K8SBENCH_TEST_HANGS"
OPTIONS = ("--device", "cpu", "--threads", "1")


def of_job(framework: str, folder: pathlib.Path, *hang: object) -> list[str]:
    """Run a job of which a rank hangs; return its lines.

    The watch is the same on both frameworks, and Paddle's launcher and imports take less time.
    """
    program = folder / "program.py"
    program.write_text(children.calling(hanging.train, folder, *hang))
    words, variables, _ = JOBS[framework]
    trainer = {"pytorch": "resnet50", "paddle": "arcface"}[framework]
    launcher = words[: 2 if framework == "pytorch" else 1]
    options = words[words.index("--warmup") :]
    mark = f"{framework}-{os.getpid()}"
    variables = {**variables, "PET_MASTER_PORT": str(free_port()), MARK: mark}
    try:
        job = subprocess.run(
            [
                sys.executable,
                *launcher,
                str(program),
                trainer,
                *options,
                *OPTIONS,
                *narrow(trainer),
            ],
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
    ("framework", "where", "how", "is_from_the_hang", "sentence"),
    [
        ("pytorch", IN_A_STEP, STOPS, True, r"rank 1 of worker-0 is stopped .* of step 3"),
        ("paddle", IN_A_STEP, WAITS, True, r"rank 1 of worker-0 hangs at the data of step 3"),
        (
            "paddle",
            IN_A_STEP,
            LOSES_ITS_WATCH,
            True,
            "rank 1 of worker-0 has lost its watch, and hangs or is gone",
        ),
        ("paddle", "1", WAITS, False, "rank 1 of worker-0 has not come"),
        ("pytorch", "0", WAITS, False, "rank 0 of worker-0 has not come"),
        ("paddle", "0", WAITS, False, "rank 0 of worker-0 has not come"),
    ],
)
def test_the_job_ends_and_its_cause_names_the_silent_rank(
    framework: str,
    where: str,
    how: str,
    is_from_the_hang: bool,
    sentence: str,
    tmp_path: pathlib.Path,
) -> None:
    lines = of_job(framework, tmp_path, where, how, is_from_the_hang)
    ended = exits.Ended(replica="worker-0", code=1, last=lines)
    cause = exits.cause(ended, [])
    assert (cause.replica, cause.id) == ("worker-0", "replica-failed"), lines
    assert re.match(f"{sentence}: no rank has done anything for 1 s", cause.sentence)


def test_a_rank_of_paddles_waits_for_a_late_one_outside_of_the_collective() -> None:
    """On CPUs Paddle's collectives end a rank that waits for 30 s."""
    program = children.calling(hanging.sum_up_late)
    assert ranks(["-c", program], 2, "paddle") == ["2.0\n", "2.0\n"]


def test_both_frameworks_have_one_limit_of_minutes() -> None:
    from k8sbench.trainers.parts import watch

    assert watch.LIMIT == paddle_launch.LIMIT == 300.0
