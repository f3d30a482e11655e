"""No process, folder, thread, file or port outlives a job or k8sbench."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from k8sbench import trainers
from k8sbench.model.phase import Phase
from tests.local.jobs import Machine, MakeMachine, processes_of, wait_for

# A replica with children of every kind: one that ignores SIGTERM in a session of its own, one that
# is stopped in another process group, one that made itself a daemon.
FAMILY = """
import os, signal, subprocess, sys

WAIT = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + chr(10) + "while True:"
DEAF += " signal.pause()"

def child(text, **how):
    return subprocess.Popen([sys.executable, "-c", text], **how)

child(WAIT)
child(DEAF, start_new_session=True)
child(WAIT, process_group=0).send_signal(signal.SIGSTOP)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.pause()
    os._exit(0)
os.wait()
print("up", flush=True)
"""
FAMILY_WAITS = FAMILY + "signal.pause()"
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
WAITS = "import signal; print('up', flush=True); signal.pause()"
REPLICAS = 2

LAUNCHERS = {"paddle_launch.py": (Path(trainers.__path__[0]) / "paddle_launch.py").read_text()}
PARENT = """
import sys
from pathlib import Path
from tests.local.jobs import Machine
from tests.local.test_nothing_is_left import LAUNCHERS

folder, run_id, trainer, framework, launcher = sys.argv[1:]
machine = Machine(Path(folder), grace=1.0)
running = machine.start(
    trainer, run_id=run_id, framework=framework, launcher=bool(launcher), files=LAUNCHERS
)
for event in running.watch:
    if event.line is not None:
        print(event.line.text, flush=True)
"""
"""Stands for k8sbench: it starts a job, and watches until something happens to it."""

RUN_ID = f"left-{os.getpid()}"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a parent with running replicas; check at the end for remains."""
    started: list[subprocess.Popen[str]] = []

    def start_parent(
        trainer: str, framework: str = "pytorch", *, launcher: bool = False
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", PARENT),
                *(str(tmp_path), RUN_ID, trainer, framework, "yes" if launcher else ""),
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ
            | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        started.append(process)
        assert process.stdout is not None
        up = itertools.islice((line for line in process.stdout if line == "up\n"), REPLICAS)
        assert list(up) == ["up\n"] * REPLICAS
        assert len(list(tmp_path.glob("k8sbench-*"))) >= REPLICAS
        return process

    yield start_parent
    for process in started:
        process.kill()
        with process:  # waits, and closes its pipe
            pass
    wait_for(lambda: not processes_of(RUN_ID), "the replicas to end")
    wait_for(lambda: not list(tmp_path.glob("k8sbench-*")), "their folders to be removed")


# -- k8sbench is killed -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trainer", "number"),
    [
        (WAITS, signal.SIGKILL),
        (WAITS, signal.SIGSEGV),
        (FAMILY_WAITS, signal.SIGKILL),
        (DEAF, signal.SIGKILL),
    ],
    ids=["alone", "crashes", "family", "ignores SIGTERM"],
)
def test_when_k8sbench_is_killed(start: Start, trainer: str, number: int) -> None:
    start(trainer).send_signal(number)
    # The fixture looks.


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_launchers_and_their_ranks_when_k8sbench_is_killed(start: Start, framework: str) -> None:
    process = start(WAITS, framework, launcher=True)
    # The subreaper, the launcher and the rank of each replica at least.
    assert len(processes_of(RUN_ID)) >= 3 * REPLICAS
    process.kill()


def test_when_k8sbench_and_its_subreapers_are_killed(start: Start, tmp_path: Path) -> None:
    process = start(WAITS)
    subreapers = psutil.Process(process.pid).children()
    assert len(subreapers) == REPLICAS
    process.send_signal(signal.SIGSTOP)  # it cannot help them
    for subreaper in subreapers:
        subreaper.kill()
    process.kill()
    wait_for(lambda: not processes_of(RUN_ID), "the main processes to end")
    for folder in tmp_path.glob("k8sbench-*/*"):
        folder.rmdir()  # there was nobody to do it
        folder.parent.rmdir()


def test_the_terminals_ctrl_c_does_not_reach_the_replicas(start: Start) -> None:
    """The terminal signals k8sbench's process group, which ends its replicas in order."""
    process = start(FAMILY_WAITS)
    assert len(processes_of(RUN_ID)) > REPLICAS
    assert not [each for each in processes_of(RUN_ID) if os.getpgid(each.pid) == process.pid]


# -- the job ends -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.parametrize("trainer", [FAMILY_WAITS, DEAF], ids=["family", "ignores SIGTERM"])
def test_when_the_job_is_cancelled(make_machine: MakeMachine, how: str, trainer: str) -> None:
    machine = make_machine(grace=0.3)
    running = machine.start(trainer)
    running.until_line("up", "master-0", "worker-0")
    if how == "cancel":
        machine.cluster.cancel(running.run_id, "enough", "enough")
        seen = running.to_the_end()
        assert seen.final.phase is Phase.CANCELLED
        code = 137 if trainer is DEAF else 143
        assert seen.exit_codes() == {"master-0": code, "worker-0": code}
    else:
        machine.cluster.close()
    assert not processes_of(running.run_id)


def test_when_the_main_processes_end(machine: Machine) -> None:
    """As in a pod, all processes end with the first, whatever their session."""
    running = machine.start(FAMILY)
    assert running.to_the_end().exit_codes() == {"master-0": 0, "worker-0": 0}
    assert not processes_of(running.run_id)


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


def test_jobs_leave_nothing_open(tmp_path: Path) -> None:
    Machine(tmp_path / "warm").close()  # imports what is imported on first use
    gc.collect()  # what an earlier test left must not go now
    threads, files = threading.active_count(), open_files()
    children = psutil.Process().children()
    machine = Machine(tmp_path)
    for trainer in ("pass", "raise ValueError", WAITS):
        running = machine.start(trainer)
        if trainer is WAITS:
            machine.cluster.cancel(running.run_id, "enough", "enough")
        running.to_the_end()
    machine.start(WAITS)  # which nobody watches
    machine.close()
    assert threading.active_count() == threads
    assert open_files() == files
    assert psutil.Process().children() == children
