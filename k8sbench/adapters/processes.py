"""Processes: the steady clock of this one, identities, and trainers' programs.

A pid alone says little: pids are used again, every container counts its own, and a boot starts
over. A :class:`~k8sbench.model.run.Process` therefore carries the host, the machine's id, the boot,
the pid namespace and the process's start time. Where that is not enough to be sure the answer is
"cannot be known from here", never a guess: a run that is wrongly called lost would lose its result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.model.run import Process

if TYPE_CHECKING:
    import subprocess

PROC = Path("/proc")
MACHINE_ID = Path("/etc/machine-id")
_DEAD_STATES = frozenset("ZXx")
"""Zombie and dead: the process ended, its parent has not reaped it."""
_STATE, _START = 0, 19
"""Fields 3 and 22 of ``/proc/PID/stat``, counted after the command."""


def this_process() -> Process:
    """Describe the calling process."""
    return describe(os.getpid())


def describe(pid: int) -> Process:
    """Describe a running process of this machine."""
    stat = _stat(pid)
    return Process(
        host=platform.node(),
        machine=_machine(),
        boot_id=_boot_id(),
        pid=pid,
        started=float(stat[_START]) if stat else 0.0,
        pid_space=_pid_space(),
    )


def alive(process: Process) -> bool | None:
    """Return True if a process still runs; None if unknown here."""
    if process.host != platform.node():
        return None
    if process.boot_id != _boot_id():
        # The machine was started anew since, unless it is another one of the same name. Without
        # boot ids (an odd /proc) nothing is known.
        same = process.machine and process.machine == _machine()
        return False if same and process.boot_id and _boot_id() else None
    if process.pid_space != _pid_space():
        return None
    stat = _stat(process.pid)
    return (
        stat is not None
        and stat[_STATE] not in _DEAD_STATES
        and float(stat[_START]) == process.started
    )


def _stat(pid: int) -> list[str] | None:
    """Return ``/proc/PID/stat`` from the state on; None without the process."""
    # The command's name stands in brackets and may itself hold blanks and brackets.
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return fields if len(fields) > _START else None


def _text(path: Path) -> str:
    """Read a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _boot_id() -> str:
    return _text(PROC / "sys/kernel/random/boot_id")


def _machine() -> str:
    """Return a hash of the machine's id, which machine-id(5) keeps private."""
    machine_id = _text(MACHINE_ID)
    return machine_id and hashlib.sha256(f"k8sbench {machine_id}".encode()).hexdigest()[:16]


def _pid_space() -> str:
    """Name of the pid namespace: ``pid:[4026531836]``; two containers have two."""
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


# --- the clock of this process --------------------------------------------------------------------

_BEGAN = time.time() - time.monotonic()


def steady() -> float:
    """Return Unix seconds: the program's start plus the elapsed time.

    A clock that is set during a run, by hand or by NTP, must not end the run or a wait.
    """
    return _BEGAN + time.monotonic()


# --- a trainers' program as a child process -------------------------------------------------------


END_SECONDS = 10.0
"""For a program to end that was asked to."""


@contextlib.contextmanager
def running(module: str, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start ``python -m module``; it ends with the block.

    stdout and stderr are one stream. It has its own session, because Ctrl-C is handled here.
    """
    import subprocess  # every command imports this module, and few start a program

    tree = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (tree, os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


def read_lines(process: subprocess.Popen[str], tell: Callable[[str], None]) -> int:
    """Tell each line that a program prints until it ends; returns its exit code."""
    assert process.stdout is not None
    for line in process.stdout:
        tell(line.rstrip("\n"))
    return process.wait()
