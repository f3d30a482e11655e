"""Identities of processes.

A pid alone says little: pids are used again, every container counts its own, and a boot starts
over. A :class:`~k8sbench.model.run.Process` therefore carries the host, the machine's id, the boot,
the pid namespace and the process's start time. Where that is not enough to be sure the answer is
"cannot be known from here", never a guess: a run that is wrongly called lost would lose its result.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from k8sbench.model.run import Process

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


def is_elsewhere(process: Process) -> bool:
    """Return True if a process is not one of this machine, as far as can be known.

    Locks on files exclude the processes of one machine alone.
    """
    if process.host != platform.node():
        return True
    return process.boot_id != _boot_id() and alive(process) is None


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
