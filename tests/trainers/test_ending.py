"""Ends of a trainer: prompt, with an exit code that gives the cause."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLD = "os.kill(os.getpid(), signal.SIGTERM); threading.Event().wait(60)"
UNREAD = "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1); os.dup2(writer, 2); "


def start(body: str) -> subprocess.Popen[str]:
    program = f"from k8sbench.trainers.parts import ending\n{body}\nending.run(main)\n"
    return subprocess.Popen(
        # From Python 3.12 on a fork beside threads, as loaders do it, is warned of.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_error_ends_with_1_and_its_traceback_though_a_thread_hangs() -> None:
    process = start(
        "def main():\n"
        "    import threading\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    print('before')\n"
        "    raise ValueError('rank 1 broke')"
    )
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out) == (1, "before\n")
    assert "Traceback" in err
    assert "ValueError: rank 1 broke" in err


def test_sigterm_ends_a_trainer_that_is_blocked_in_native_code() -> None:
    """It waits for a native lock, as in a collective; no handler would run."""
    process = start(
        "def main():\n"
        "    import ctypes, os\n"
        "    reader, writer = os.pipe()\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 143
    assert "SIGTERM" in err


@pytest.mark.parametrize("blocked", ["signal.pause()", "os.read(reader, 1)"])
def test_ctrl_c_ends_a_trainer_and_its_loader_processes_without_a_traceback(blocked: str) -> None:
    """A terminal sends SIGINT to all of them."""
    process = start(
        "def main():\n"
        "    import os, signal\n"
        "    reader, writer = os.pipe()\n"
        "    ready, tells = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        ending.outlive_signals()\n"
        "        os.write(tells, b'.')\n"
        "        signal.pause()\n"
        "    os.read(ready, 1)\n"
        "    print('ready', flush=True)\n"
        f"    while True: {blocked}"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=400)
    assert (process.returncode, err) == (130, "k8sbench: ended by SIGINT\n")


def test_the_end_of_a_loader_process_is_not_the_trainers() -> None:
    process = start(
        "def main():\n"
        "    import os, signal\n"
        "    reader, writer = os.pipe()\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.write(writer, b'.')\n"
        "        signal.pause()\n"
        "    os.read(reader, 1)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    _, status = os.waitpid(child, 0)\n"
        "    print(os.WTERMSIG(status))"
    )
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out, err) == (0, "15\n", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone tells a child")
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("print('done', end='')", 0),
        ("raise ValueError", 1),
        (TOLD, 143),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        (UNREAD + "print('done')", 1),
        (UNREAD + "raise ValueError", 1),
        (UNREAD + TOLD, 143),
    ],
)
def test_no_loader_process_outlives_its_trainer(how: str, code: int) -> None:
    """A loader that lived on would keep the output's pipe open."""
    process = start(
        "def main():\n"
        "    import atexit, os, signal, threading\n"
        "    atexit.register(threading.Event().wait, 60)\n"
        "    reader, writer = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        signal.alarm(60)\n"
        "        os.write(writer, b'.')\n"
        "        while True:\n"
        "            signal.pause()\n"
        "    os.read(reader, 1)\n"
        f"    {how}"
    )
    out, _ = process.communicate(timeout=400)
    assert (process.returncode, out) == (code, "" if code else "done")


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("refuse('no GPU here')", 2, "k8sbench: error: no GPU here\n"),
        ("refuse('no disk', passing=True)", 1, "k8sbench: failed: no disk\n"),
        (
            "Parser(prog='x').parse_args(['-y'])",
            2,
            "k8sbench: error: unrecognized arguments: -y; see x --help\n",
        ),
    ],
)
def test_a_refusal_is_one_line_and_a_code(how: str, code: int, line: str) -> None:
    process = start(
        f"def main():\n    from k8sbench.trainers.parts import settings\n    settings.{how}"
    )
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
    process = start(
        "import multiprocessing, os, signal\n"
        "import numpy as np\n"
        "from k8sbench.trainers.parts.samples import Read\n"
        "class Data:\n"
        "    def __getitem__(self, number):\n"
        "        return Read(number, (np.zeros((64, 64)), np.zeros(1)), ())\n"
        f"WORKERS = {workers}\n"
        "def main():\n"
        "    from k8sbench.trainers.parts import paddle_session\n"
        "    paddle_session._end_by_signals()\n"
        "    batches = iter(paddle_session.Batches(Data(), [[n] for n in range(400)], WORKERS))\n"
        "    for _ in range(8):\n"
        "        next(batches)\n"
        "    print(*[each.pid for each in multiprocessing.active_children()], flush=True)\n"
        "    signal.pause()"
    )
    assert process.stdout is not None
    loaders = process.stdout.readline().split()
    kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=400)  # until they have ended, too
    assert len(loaders) == workers
    left = [path.name for path in pathlib.Path("/dev/shm").glob("paddle_*")]
    assert [name for name in left if name.split("_")[1] in loaders] == []
