"""A program that starts a test cluster's processes and ends all of them.

It is the first process of a PID namespace of its own: with it the kernel ends every other one
there. Before that it ends what it has started, the last to have started first, kills whatever is
left, and removes the cluster's folder,

- when it is asked to, on its socket or by SIGTERM;
- when the process that started it is gone, however it went: the other end of its stdin closes.

Its namespaces of network and mounts end with the last process in them, without a trace.

``python -m tests.harness.cluster.subreaper FOLDER`` says a line when it listens on
``FOLDER/subreaper.sock``. There, each connection carries one JSON line each way.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOCKET = "subreaper.sock"
ALONE = (
    *("unshare", "--mount", "--net", "--pid", "--mount-proc", "--propagation=slave"),
    *("--kill-child", sys.executable, "-m"),
)
"""Start of a Python command in own namespaces, which end with it."""
GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL."""
Answer = dict[str, Any]


class Process:
    """A requested process; its name is reusable after its end."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.pid = popen.pid
        self.status: int | None = None
        """Exit status, negative where a signal ended it; None while it runs."""


class Subreaper:
    """The processes, and what may be asked about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, Process] = {}
        self.operations: dict[str, Callable[[Any], Answer]] = {
            "start": self.start,
            "stop": self.stop,
            "signal": self.signal,
            "list": self.list,
        }
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

    def watch(self) -> None:
        """Serve requests until the end; then end everything and confirm."""
        asked: socket.socket | None = None
        waiting: list[Any] = [self._door, self._alarm, 0]
        while asked is None and not self._told:
            ready, _, _ = select.select(waiting, [], [])
            self._hear()
            if 0 in ready:
                break
            if self._door in ready:
                asked = self._answer(self._door.accept()[0])
        self.end()
        if asked is not None:
            with contextlib.suppress(OSError), asked:
                asked.sendall(b'{"ended": true}\n')

    def _hear(self) -> None:
        """Drain the alarm, note a signal to end, and reap children."""
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
        with Path(wish["log"]).open("ab") as log:
            popen = subprocess.Popen(
                wish["argv"],
                env=wish["environ"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # One that starts again keeps its place: those after it need it until their end.
        self.processes[name] = Process(popen)
        return {}

    def stop(self, wish: Any) -> Answer:
        """End a process and wait for that."""
        self._end(self.processes[wish["name"]], wish.get("grace", GRACE))
        return {}

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
        named = self.processes.items()
        return {"processes": [{"name": name, "status": one.status} for name, one in named]}

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
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all that there are in the namespace
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def main() -> int:
    """Do what the argument says; see the top of this file."""
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    subreaper = Subreaper(Path(sys.argv[1]))
    print("listens", flush=True)
    subreaper.watch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
