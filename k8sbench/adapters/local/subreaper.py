"""Program that runs one replica and ends all of its processes.

Started as ``python -I subreaper.py GRACE SCRATCH COMMAND...`` in the replica's environment. It runs
COMMAND as the replica's main process, in a session and process group of its own, and is the
*subreaper* of all that comes from it: the kernel makes a process whose parent has ended a child of
this one, whatever session it moved to, so psutil finds the whole tree from here.

It ends the replica when stdin, a socket that k8sbench holds open, is at its end. So k8sbench asks
for the end by closing its side, and the kernel does the same when k8sbench is killed. SIGTERM goes
to every process, and SIGKILL to what is left GRACE seconds later. When the main process has ended,
all others are killed, as those of a pod are. If this program itself is killed, the kernel kills the
main process (PR_SET_PDEATHSIG).

When the main process has ended it writes three words to the socket: the exit code (128 + N where
signal N ended it), the time (the machine's monotonic clock), and 1 if k8sbench had asked for the
end before, else 0. At its own end it removes the folder SCRATCH. stdout and stderr are the
replica's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From ``linux/prctl.h``."""
KILL_SECONDS = 10.0
"""Limit for killing, seconds; an uninterruptible process may survive it."""
KILL_INTERVAL = 0.01
"""Pause between signals to remaining processes, seconds."""
NO_COMMAND = 127
"""Exit code of a program that could not be started, as in a shell."""

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LIBC = ctypes.CDLL(None)
_VANISHED = contextlib.suppress(psutil.Error, OSError)
"""A process may end while it is looked at."""


class Subreaper:
    """The main process of a replica and all its descendants."""

    def __init__(self, command: list[str]) -> None:
        """Start the main process; raises OSError if its program cannot be."""
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wakeup, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        self.ended_at = 0.0
        self._main = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_in_child,  # noqa: PLW1509 - safe here: this program has one thread
        )

    @property
    def code(self) -> int | None:
        """Exit code of the main process; None while it runs."""
        code = self._main.returncode
        return code if code is None or code >= 0 else 128 - code

    def wait(self, grace: float) -> bool:
        """Wait for the main process's end, at most ``grace`` after a request.

        Returns True if k8sbench requested the end, also by its own end.
        """
        was_asked = False
        deadline: float | None = None
        sources = [0, self._wakeup]
        while self._reap() and self.code is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            ready, _, _ = select.select(sources, [], [], left)
            numbers = os.read(self._wakeup, 4096) if self._wakeup in ready else b""
            if 0 in ready:
                was_asked = True
                sources.remove(0)
            if deadline is None and (was_asked or set(numbers) - {signal.SIGCHLD}):
                deadline = time.monotonic() + grace
                self._send(signal.SIGTERM)
        return was_asked

    def kill(self) -> None:
        """Kill all that is left."""
        until = time.monotonic() + KILL_SECONDS
        while self._reap() and time.monotonic() < until:
            self._send(signal.SIGKILL)
            time.sleep(KILL_INTERVAL)

    def _reap(self) -> bool:
        """Reap ended children; return False if none is left.

        Then the whole tree is gone: of its living processes at least one is always a child of the
        subreaper.
        """
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main.pid:
                    self._main.returncode = os.waitstatus_to_exitcode(status)
                    self.ended_at = time.monotonic()
        return False

    def _send(self, number: int) -> None:
        with _VANISHED:
            for process in psutil.Process().children(recursive=True):
                with _VANISHED:
                    process.send_signal(number)


def _in_child() -> None:
    """Prepare the main process between fork and exec."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main(grace: str, scratch: str, *command: str) -> None:
    """Run a replica from start to end; see the module's docstring."""
    try:
        replica = Subreaper(list(command))
    except OSError as error:
        sys.stderr.write(f"k8sbench: error: {error.filename}: {error.strerror}\n")
        _report(NO_COMMAND, time.monotonic(), was_asked=False)
    else:
        was_asked = replica.wait(float(grace))
        if replica.code is None:
            replica.kill()
        if replica.code is not None:
            _report(replica.code, replica.ended_at, was_asked=was_asked)
        replica.kill()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _report(code: int, ended_at: float, *, was_asked: bool) -> None:
    with contextlib.suppress(OSError):  # k8sbench is gone
        os.write(0, f"{code} {ended_at} {was_asked:d}".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
