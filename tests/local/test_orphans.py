"""Whatever happens to k8sbench, nothing that a job started outlives it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.local.jobs import Machine, living, processes_of, wait_for

# A replica as bad as can be: children of its own, one of them deaf to SIGTERM and in another
# session, one stopped in another process group, one a daemon that nobody waits for.
BROOD = """
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
signal.pause()
"""
SINGLE = "import signal; print('up', flush=True); signal.pause()"
REPLICAS = 2
MEMBERS = 5 * REPLICAS

PARENT = """
import sys
from pathlib import Path
from tests.local.jobs import Machine
from tests.local.test_orphans import BROOD, SINGLE

running = Machine(Path(sys.argv[1])).start(globals()[sys.argv[3]], run_id=sys.argv[2])
for event in running.watch:
    if event.line is not None:
        print(event.line.text, flush=True)
"""
"""Stands for k8sbench: it starts the job, and watches until something happens to it."""


RUN_ID = f"orphans-{os.getpid()}"


@pytest.fixture
def starting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Start a parent, and see at the end that nothing of it is left."""
    trainer = getattr(request, "param", "BROOD")
    mine = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), RUN_ID, trainer],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | mine | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        yield process
    finally:
        process.kill()
        with process:  # waits, and closes its pipe
            pass
    wait_for(lambda: not processes_of(RUN_ID), "the replicas to end")
    wait_for(lambda: not wardens(tmp_path), "the wardens to end")
    assert not list(tmp_path.glob("k8sbench-*")), "scratch folders"


@pytest.fixture
def parent(starting: subprocess.Popen[str], tmp_path: Path) -> subprocess.Popen[str]:
    """Have a parent whose replicas are all up, with all their children."""
    assert starting.stdout is not None
    up = list(itertools.islice(starting.stdout, REPLICAS))
    assert up == ["up\n"] * REPLICAS
    wait_for(lambda: len(processes_of(RUN_ID)) == MEMBERS, "all children to be there")
    assert len(wardens(tmp_path)) == REPLICAS
    assert len(list(tmp_path.glob("k8sbench-*"))) == REPLICAS
    return starting


def wardens(home: Path) -> list[psutil.Process]:
    """The wardens of the parent's job, known by the user's home that they keep."""
    return living(lambda each: is_warden(each) and each.environ().get("HOME") == str(home))


def is_warden(process: psutil.Process | None) -> bool:
    return process is not None and any(word.endswith("/warden.py") for word in process.cmdline())


def test_nothing_is_left_when_k8sbench_is_killed_while_it_starts_wardens(
    starting: subprocess.Popen[str], tmp_path: Path
) -> None:
    wait_for(lambda: wardens(tmp_path), "the first warden")
    starting.kill()


def test_nothing_is_left_when_k8sbench_is_killed_while_its_replicas_start(
    starting: subprocess.Popen[str],
) -> None:
    wait_for(lambda: processes_of(RUN_ID), "the first process of a replica")
    starting.kill()


def test_nothing_is_left_when_k8sbench_is_killed(parent: subprocess.Popen[str]) -> None:
    parent.kill()
    # The fixture looks.


def test_nothing_is_left_when_k8sbenchs_whole_session_is_killed(
    parent: subprocess.Popen[str],
) -> None:
    os.killpg(parent.pid, signal.SIGKILL)


def test_nothing_is_left_when_k8sbench_stops_and_is_killed_then(
    parent: subprocess.Popen[str],
) -> None:
    parent.send_signal(signal.SIGSTOP)
    parent.kill()


def test_nothing_is_left_when_k8sbench_crashes(parent: subprocess.Popen[str]) -> None:
    parent.send_signal(signal.SIGSEGV)


def test_nothing_is_left_when_a_main_process_and_k8sbench_die_together(
    parent: subprocess.Popen[str],
) -> None:
    started = psutil.Process(parent.pid).children(recursive=True)
    mains = [p for p in started if is_warden(p.parent()) and os.getsid(p.pid) == p.pid]
    assert len(mains) == REPLICAS
    parent.send_signal(signal.SIGSTOP)  # or it would end the second one upon the first one's end
    for main in mains:
        main.kill()
    parent.kill()


@pytest.mark.parametrize("starting", ["SINGLE"], indirect=True)
def test_main_processes_end_even_when_their_wardens_die_with_k8sbench(
    starting: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert starting.stdout is not None
    assert list(itertools.islice(starting.stdout, REPLICAS)) == ["up\n"] * REPLICAS
    starting.send_signal(signal.SIGSTOP)  # it cannot help them
    for warden in wardens(tmp_path):
        warden.kill()
    starting.kill()
    wait_for(lambda: not processes_of(RUN_ID), "the main processes to end")
    for left in tmp_path.glob("k8sbench-*"):
        shutil.rmtree(left)  # there was nobody to do it


def test_the_terminals_interrupt_does_not_reach_the_replicas(
    parent: subprocess.Popen[str],
) -> None:
    """Ctrl-C is k8sbench's: the terminal signals its process group, and that is all."""
    members = [
        process.pid
        for process in psutil.process_iter()
        if _group(process.pid) == os.getpgid(parent.pid)
    ]
    assert members == [parent.pid]


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_cancelling_ends_the_whole_brood(make_machine: Callable[..., Machine], how: str) -> None:
    machine = make_machine(grace=0.3)
    running = machine.start(BROOD)
    running.until_line("up", "master-0")
    running.until_line("up", "worker-0")
    if how == "cancel":
        machine.cluster.cancel(running.run_id, "enough", "enough")
        running.to_the_end()
    else:
        machine.cluster.close()
    assert not processes_of(running.run_id)


def test_what_a_replica_leaves_behind_ends_with_it(machine: Machine) -> None:
    """A pod's processes end with its first one. So here, whatever session they moved to."""
    running = machine.start(BROOD.replace('print("up", flush=True)\nsignal.pause()', ""))
    running.to_the_end()
    assert running.seen.exit_codes() == {"master-0": 0, "worker-0": 0}
    assert not processes_of(running.run_id)


def test_a_brood_is_ended_with_the_replica_that_failed(machine: Machine) -> None:
    trainer = BROOD.replace(
        'print("up", flush=True)', "if os.environ['RANK'] == '1': raise ValueError('boom')"
    )
    running = machine.start(trainer)
    assert "ValueError: boom" in running.to_the_end().final.cause
    assert not processes_of(running.run_id)


def test_a_process_that_forks_and_ends_again_and_again_does_not_get_away(
    machine: Machine,
) -> None:
    """At any look at /proc it may be between two of its lives. It is killed in its last one."""
    trainer = """
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"up\\n")
    for _ in range(1000):
        if os.fork() != 0:
            os._exit(0)
signal.pause()
"""
    running = machine.start(trainer, replicas=1)
    running.until_line("up")
    machine.cluster.close()
    assert not processes_of(running.run_id)


def test_no_scratch_folder_is_left(tmp_path: Path, make_machine: Callable[..., Machine]) -> None:
    machine = make_machine()
    seen = machine.run("import tempfile; print(tempfile.gettempdir())")
    assert not Path(seen.lines("master-0")[0]).parent.exists()
