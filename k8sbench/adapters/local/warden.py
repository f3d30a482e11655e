"""Starts one replica and sees to it that nothing of it outlives its end: a program of its own.

A warden is to a replica what a pod is to a container. It is the *subreaper* of everything that the
replica starts: a process that is orphaned, whatever session or group it moved to, becomes the
warden's child instead of init's, so that the whole tree can always be found from here. It kills
that tree

- when the replica's main process has ended, as a pod's does;
- when k8sbench asks for the end: SIGTERM to all, SIGKILL after a grace;
- when k8sbench is gone, however it went: its end of a pipe closes, its pidfd becomes readable.

Should the warden itself be killed, the kernel kills the main process with it (PR_SET_PDEATHSIG),
and k8sbench, if it is still there, finds the rest by the mark in their environment.

Runs as ``python -I -S warden.py``: the standard library alone, one thread, nothing of k8sbench.
stdin carries one JSON line that says what to start, then one byte per wish to end; its end of file
is k8sbench's own end. stdout carries JSON lines about what happened. stderr is the replica's
output, where a fault of the warden itself shows too.
"""

from __future__ import annotations

# Without pathlib, which would double the time that a replica takes to start.
# ruff: noqa: PTH102, PTH123, PTH208
import contextlib
import ctypes
import errno
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From ``linux/prctl.h``."""
END = b"T"
"""On stdin: end the replica."""
SWEEP_SECONDS = 10.0
"""How long to go on killing what does not die: a process in an uninterruptible call may not."""
LOOK_MS = 10
"""Between two looks at what is left while killing."""
NO_COMMAND = 127
"""Exit code of a replica whose program could not be started, as in a shell."""


class Process(NamedTuple):
    """A process, safe from a reuse of its pid by its start time (clock ticks since boot)."""

    pid: int
    parent: int
    started: bytes
    is_dead: bool


def processes() -> Iterator[Process]:
    """Yield all processes that /proc shows."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := look(int(name))) is not None:
            yield found


def look(pid: int) -> Process | None:
    """Describe one process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return None
    # The command's name stands in brackets and may itself hold blanks and brackets.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), fields[19], fields[0] in b"ZXx")


def descendants(root: int) -> list[Process]:
    """Return the tree below ``root``, dead ones that nobody has waited for included."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    unseen = [root]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += [process.pid for process in below]
    return found


def marked(variable: bytes) -> list[Process]:
    """Return the processes whose environment holds ``NAME=value``, as far as one may look."""
    found = []
    for process in processes():
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
            if variable in file.read().split(b"\0"):
                found.append(process)
    return found


def send(process: Process, number: int) -> None:
    """Signal exactly this process: never one that has its pid by now."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (OSError, AttributeError):  # a kernel before 5.3, or a sandbox without the call
        with contextlib.suppress(OSError):
            os.kill(process.pid, number)
        return
    try:
        now = look(process.pid)
        # The pidfd was opened before this look: if the process is still the one that was meant,
        # it was so then.
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(pidfd, number)
    except OSError:  # gone, or another user's (a set-uid program)
        pass
    finally:
        os.close(pidfd)


def sweep(
    find: Callable[[], list[Process]],
    is_over: Callable[[list[Process]], bool],
    seconds: float = SWEEP_SECONDS,
) -> list[int]:
    """Kill what ``find`` finds alive until ``is_over``; returns what would not die.

    That nothing was found proves little: a process that forks and ends, again and again, can slip
    through between two looks. ``is_over`` is given what was found, and waits a moment if it is not.
    """
    until = time.monotonic() + seconds
    while True:
        left = [process for process in find() if not process.is_dead]
        for process in left:
            send(process, signal.SIGKILL)
        if is_over(left):
            return []
        if time.monotonic() > until:
            return [process.pid for process in left]


class Warden:
    """One replica's life."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self.wish = wish
        self.pid = os.getpid()
        self.main = 0
        self.status: int | None = None
        """Exit status of the main process; negative where a signal ended it."""
        self.scratch: str | None = None
        """The replica's private folder, once it is made."""
        self._alarm, self._bell = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._bell, False)
        self._poll = select.poll()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _prctl(self, option: int, value: int) -> int:
        words = (ctypes.c_ulong(word) for word in (value, 0, 0, 0))
        return int(self._libc.prctl(ctypes.c_int(option), *words))

    def prepare(self) -> None:
        """Take charge of orphans, and be told of signals."""
        if self._prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        for number in _HEARD:
            signal.signal(number, lambda *_: None)

    def make_folders(self) -> None:
        """Make the replica's private folder, which must be new, and those below it."""
        scratch, *below = self.wish["folders"]
        os.mkdir(scratch, 0o700)
        self.scratch = scratch
        for folder in below:
            os.mkdir(folder, 0o700)

    def start(self) -> None:
        """Start the main process; raises OSError if its program cannot be."""
        reader, writer = os.pipe()  # closed by a successful exec, holds the error of another one
        self.main = os.fork()
        if self.main == 0:
            self._become(writer)
        os.close(writer)
        with open(reader, "rb") as pipe:
            problem = pipe.read()
        if problem:
            number, _, what = problem.partition(b" ")
            raise OSError(int(number), os.strerror(int(number)), what.decode(errors="replace"))
        tell({"started": self.main})

    def _become(self, writer: int) -> NoReturn:
        """Turn into the main process; runs in the forked child and never returns."""
        what = ""
        try:
            signal.set_wakeup_fd(-1)
            # Python ignores the last two; an ignored signal stays so across exec.
            for number in (*_HEARD, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.setsid()
            self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:  # the warden died before the line above
                os._exit(NO_COMMAND)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(2, 1)
            what = self.wish["cwd"]
            os.chdir(what)
            command = self.wish["command"]
            what = command[0]
            os.execve(what, command, self.wish["environ"])  # noqa: S606 - a list, no shell
        except OSError as wrong:
            os.write(writer, f"{wrong.errno} {what}".encode(errors="replace"))
        except Exception as wrong:
            os.write(writer, f"{errno.EINVAL} {what}: {wrong}".encode(errors="replace"))
        finally:
            os._exit(NO_COMMAND)

    def watch(self, *, ending: bool) -> bool:
        """Wait for the main process' end; False if k8sbench went away before."""
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._alarm, select.POLLIN)
        with contextlib.suppress(OSError, AttributeError):  # the pipe alone will do
            self._poll.register(os.pidfd_open(self.wish["parent"]), select.POLLIN)
        if os.getppid() != self.wish["parent"]:
            return False
        deadline: float | None = None
        while True:
            if ending and deadline is None:
                deadline = time.monotonic() + self.wish["grace"]
                tell({"ending": True})
                for process in descendants(self.pid):
                    send(process, signal.SIGTERM)
            if deadline is not None and time.monotonic() >= deadline:
                self.kill()
            self.reap()
            if self.status is not None:
                tell({"exited": self.status, "at": time.monotonic()})
                return True
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = dict(self._poll.poll(left))
            if self._alarm in ready and self._heard():
                ending = True
            if 0 in ready:
                if not os.read(0, 64):
                    return False
                ending = True
            if ready.keys() - {0, self._alarm}:
                return False

    def _heard(self) -> bool:
        """Empty the alarm pipe; whether a signal other than a child's end came."""
        heard = set(os.read(self._alarm, 4096))
        return bool(heard - {signal.SIGCHLD})

    def reap(self) -> bool:
        """Take leave of all children that have ended; False if there are none at all any more.

        None at all is proof that the whole tree is gone: as long as any process of it lives, the
        first one above it that does is a child of the subreaper.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = os.waitstatus_to_exitcode(status)

    def kill(self) -> list[int]:
        """Kill the tree until nothing of it is left; returns what would not die."""

        def is_over(_: list[Process]) -> bool:
            if not self.reap():
                return True
            with contextlib.suppress(OSError):
                select.select([self._alarm], [], [], LOOK_MS / 1000)
                os.read(self._alarm, 4096)
            return not self.reap()

        return sweep(lambda: descendants(self.pid), is_over)


_HEARD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def tell(news: dict[str, Any]) -> None:
    """Report to k8sbench, if it is still there."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(news).encode() + b"\n")


def main() -> int:
    """Do what the line on stdin says; see the top of this file."""
    line = b""
    while b"\n" not in line:
        piece = os.read(0, 1 << 16)
        if not piece:  # k8sbench ended before it could say anything
            return 1
        line += piece
    line, _, wished = line.partition(b"\n")
    wish = json.loads(line)
    warden = Warden(wish)
    stayed = False
    try:
        warden.prepare()
        try:
            warden.make_folders()
            warden.start()
        except OSError as wrong:
            tell({"failed": f"{wrong.filename}: {wrong.strerror}"})
            return 0
        stayed = warden.watch(ending=bool(wished))
    finally:
        left = warden.kill()
        if warden.scratch is not None:
            shutil.rmtree(warden.scratch, ignore_errors=True)
        if left:
            tell({"left": left})
    return 0 if stayed else 1


if __name__ == "__main__":
    sys.exit(main())
