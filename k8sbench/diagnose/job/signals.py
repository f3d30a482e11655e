"""Signals by number, as Linux has them: containers run there, whatever this program runs on."""

from __future__ import annotations

_NAMES = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2"),
    *("PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG"),
    *("XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR", "SYS"),
)
ABORT, KILL, TERMINATE = 6, 9, 15
EXIT_BASE = 128
"""A process that signal N ended has the exit code 128 + N for shells and container runtimes."""
HIGHEST = 64
"""The last of the real-time signals."""


def described(number: int) -> str:
    """Return a signal's number and name: ``signal 9 (SIGKILL)``."""
    name = f" (SIG{_NAMES[number - 1]})" if number <= len(_NAMES) else ""
    return f"signal {number}{name}"


def of_exit(code: int) -> int | None:
    """Return the number of the signal that an exit code stands for; None: it stands for none."""
    return code - EXIT_BASE if EXIT_BASE < code <= EXIT_BASE + HIGHEST else None
