"""Starts the processes of a test cluster and sees to it that none outlives it: a program.

Everything that the cluster starts is this program's child or, being orphaned, becomes it
(PR_SET_CHILD_SUBREAPER). It ends them all, the last to have started first, then kills whatever is
left, and removes the cluster's folder,

- when it is asked to, on its socket or by SIGTERM;
- when the process that it is tied to is gone, however it went: the other end of its stdin closes,
  a pidfd becomes readable.

Should it be killed itself, the kernel kills its children with it (PR_SET_PDEATHSIG). It first
enters a network namespace of its own and a mount namespace that the host's mounts reach but that
hands none back: both end with the last process in them, without a trace.

``python -m tests.harness.cluster.subreaper FOLDER PARENT``; its pid on stdout says that it listens
on ``FOLDER/subreaper.sock``. There, each connection carries one JSON line each way.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

SOCKET = "subreaper.sock"
MARK = "K8SBENCH_TEST_CLUSTER"
"""Variable in the environment of each process of a cluster: the cluster's folder."""
GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL."""
# From linux/prctl.h, sched.h, mount.h, sockios.h and if.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_SLAVE = 1 << 14, 1 << 19
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)
Answer = dict[str, Any]


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, *(ctypes.c_ulong(word) for word in (value, 0, 0, 0)))


def enter_private_namespaces() -> None:
    """Leave the host's network and the host's view of our mounts."""
    _call("unshare", CLONE_NEWNET | CLONE_NEWNS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


class Process:
    """One process that was asked for; its name may start again when it has ended."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.pid = popen.pid
        self.status: int | None = None
        """Exit status, negative where a signal ended it; None while it runs."""


class Subreaper:
    """The processes, and what may be asked about them."""

    def __init__(self, folder: Path, parent: int) -> None:
        self.folder = folder
        self.pid = os.getpid()
        self.processes: dict[str, Process] = {}
        self.operations: dict[str, Callable[[Any], Answer]] = {
            "start": self.start,
            "stop": self.stop,
            "signal": self.signal,
            "list": self.list,
        }
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._alarm, bell = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(bell, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / SOCKET))
        self._door.listen()
        self._told = False
        self._ties = [0]
        with contextlib.suppress(OSError):
            self._ties.append(os.pidfd_open(parent))

    def watch(self) -> None:
        """Answer until it is time to end; then end everything, and say so to who asked."""
        asked: socket.socket | None = None
        while asked is None and not self._told:
            waiting: list[Any] = [self._door, self._alarm, *self._ties]
            ready, _, _ = select.select(waiting, [], [])
            self._hear()
            if any(tie in ready for tie in self._ties):
                break
            if self._door in ready:
                asked = self._answer(self._door.accept()[0])
        self.end()
        if asked is not None:
            with contextlib.suppress(OSError), asked:
                asked.sendall(b'{"ended": true}\n')

    def _hear(self) -> None:
        """Empty the alarm, remember whether a signal asked us to end, and wait for the dead."""
        with contextlib.suppress(BlockingIOError):
            heard = set(os.read(self._alarm, 4096))
            self._told = self._told or bool(heard - {signal.SIGCHLD})
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for process in self.processes.values():
                    if process.pid == pid and process.status is None:
                        process.status = os.waitstatus_to_exitcode(status)
                        process.popen.returncode = process.status

    def _answer(self, caller: socket.socket) -> socket.socket | None:
        """Answer one caller; returns it where the answer is the end."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(caller)
            caller.settimeout(GRACE)
            try:
                with caller.makefile("rb") as file:
                    wish = json.loads(file.readline())
                if wish["op"] == "end":
                    stack.pop_all()
                    return caller
                answer = self.operations[wish["op"]](wish)
            except (OSError, ValueError, KeyError) as wrong:
                answer = {"error": f"{type(wrong).__name__}: {wrong}"}
            with contextlib.suppress(OSError):
                caller.sendall(json.dumps(answer).encode() + b"\n")
        return None

    def start(self, wish: Any) -> Answer:
        """Start a program under a name."""
        name = wish["name"]
        if (old := self.processes.get(name)) is not None and old.status is None:
            raise ValueError(f"{name} runs already")
        with open(wish["log"], "ab") as log:  # noqa: PTH123
            popen = subprocess.Popen(
                wish["argv"],
                env=wish["environ"] | {MARK: str(self.folder)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self._bind_life,  # noqa: PLW1509 - one thread alone
            )
        # One that starts again keeps its place: those after it need it until their end.
        self.processes[name] = Process(popen)
        return {"pid": popen.pid}

    def _bind_life(self) -> None:
        """Run in the child: die with the subreaper."""
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.pid:
            os._exit(1)

    def stop(self, wish: Any) -> Answer:
        """End a process and wait for that."""
        process = self.processes[wish["name"]]
        self._end(process, wish.get("grace", GRACE))
        return {"status": process.status}

    def signal(self, wish: Any) -> Answer:
        """Send a process a signal."""
        process = self.processes[wish["name"]]
        if process.status is not None:
            raise ValueError(f"{wish['name']} has ended")
        os.kill(process.pid, wish["signal"])
        return {}

    def list(self, wish: Any) -> Answer:
        """Describe all processes, in the order of their start."""
        self._hear()
        return {
            "processes": [
                {"name": name, "pid": one.pid, "status": one.status}
                for name, one in self.processes.items()
            ]
        }

    def _end(self, process: Process, grace: float) -> None:
        if process.status is None and grace > 0:
            os.kill(process.pid, signal.SIGTERM)
            os.kill(process.pid, signal.SIGCONT)  # one that is stopped hears nothing else
            self._wait(process, grace)
        if process.status is None:
            os.kill(process.pid, signal.SIGKILL)
            self._wait(process, GRACE)

    def _wait(self, process: Process, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._hear()
        while process.status is None and (left := until - time.monotonic()) > 0:
            select.select([self._alarm], [], [], left)
            self._hear()

    def end(self) -> None:
        """End all processes, last started first, and whatever they left; remove the folder."""
        self._door.close()
        try:
            for process in reversed(self.processes.values()):
                with contextlib.suppress(OSError):
                    self._end(process, GRACE)
            self._sweep()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _sweep(self) -> None:
        """Kill what is below us until nothing is; what cannot die yet is left after a grace."""
        until = time.monotonic() + GRACE
        while left := psutil.Process().children(recursive=True):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            select.select([self._alarm], [], [], 0.01)
            self._hear()
            if time.monotonic() > until:
                return


def main() -> int:
    """Do what the arguments say; see the top of this file."""
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    enter_private_namespaces()
    subreaper = Subreaper(folder, parent)
    print(subreaper.pid, flush=True)
    subreaper.watch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
