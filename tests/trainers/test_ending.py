"""Ends of a trainer: prompt, with an exit code that gives the cause."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.harness import children
from tests.trainers import endings


def start(function: Callable[..., object], *given: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # From Python 3.12 on a fork beside threads, as loaders do it, is warned of.
        [
            *(sys.executable, "-W", "ignore::DeprecationWarning", "-c"),
            children.calling(endings.run, function.__name__, *given),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_error_ends_with_1_and_its_traceback_though_a_thread_hangs() -> None:
    process = start(endings.break_beside_a_thread)
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out) == (1, "before\n")
    assert "Traceback" in err
    assert "ValueError: rank 1 broke" in err


def test_sigterm_ends_a_trainer_that_is_blocked_in_native_code() -> None:
    """It waits for a native lock, as in a collective; no handler would run."""
    process = start(endings.block_in_native_code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 143
    assert "SIGTERM" in err


@pytest.mark.parametrize("blocked", ["pause", "read"])
def test_ctrl_c_ends_a_trainer_and_its_loader_processes_without_a_traceback(blocked: str) -> None:
    """A terminal sends SIGINT to all of them."""
    process = start(endings.block_beside_a_loader, blocked)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=400)
    assert (process.returncode, err) == (130, "k8sbench: ended by SIGINT\n")


def test_the_end_of_a_loader_process_is_not_the_trainers() -> None:
    process = start(endings.end_a_loader)
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out, err) == (0, "15\n", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone tells a child")
@pytest.mark.parametrize(
    ("way", "is_read", "code"),
    [
        ("done", True, 0),
        ("broken", True, 1),
        ("told", True, 143),
        ("killed", True, -signal.SIGKILL),
        ("done", False, 1),
        ("broken", False, 1),
        ("told", False, 143),
    ],
)
def test_no_loader_process_outlives_its_trainer(way: str, is_read: bool, code: int) -> None:
    """A loader that lived on would keep the output's pipe open."""
    process = start(endings.end_beside_a_loader, way, is_read)
    out, _ = process.communicate(timeout=400)
    assert (process.returncode, out) == (code, "" if code else "done")


@pytest.mark.parametrize(
    ("refusal", "given", "code", "line"),
    [
        (endings.refuse, ("no GPU here", False), 2, "k8sbench: error: no GPU here\n"),
        (endings.refuse, ("no disk", True), 1, "k8sbench: failed: no disk\n"),
        (
            endings.refuse_words,
            ("-y",),
            2,
            "k8sbench: error: unrecognized arguments: -y; see x --help\n",
        ),
    ],
)
def test_a_refusal_is_one_line_and_a_code(
    refusal: Callable[..., None], given: tuple[object, ...], code: int, line: str
) -> None:
    process = start(refusal, *given)
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out, err) == (code, "", line)


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize(
    ("kill", "workers"), [(os.kill, 1), (os.kill, 4), (os.killpg, 1), (os.killpg, 4)]
)
def test_paddles_loader_processes_leave_no_batch_in_shared_memory(
    kill: Callable[[int, int], None], workers: int
) -> None:
    """The trainer, or its group, is killed while its loaders write batches.

    A launcher kills the group of a rank that has ended.
    """
    process = start(endings.load_batches, workers)
    assert process.stdout is not None
    loaders = process.stdout.readline().split()
    kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=400)  # until they have ended, too
    assert len(loaders) == workers
    left = [path.name for path in pathlib.Path("/dev/shm").glob("paddle_*")]
    assert [name for name in left if name.split("_")[1] in loaders] == []
