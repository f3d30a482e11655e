"""Commands of k8sbench in processes that are forked off one that has loaded it: also a program.

To load it takes a third of a second of a processor, and tests run it hundreds of times to its end.
What they interrupt or kill is started as a program.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.tiers import ROOT

THEIRS = ("sqlalchemy.dialects.sqlite", "yaml", "rich.table", "http.client", "asyncio")
"""What k8sbench loads when it is used first."""
_LARGEST = 1 << 20


class Ended(NamedTuple):
    """A process that has ended, and what it has printed."""

    code: int
    out: str
    err: str


class Forks:
    """Has a process that has loaded k8sbench, and other limits of time; ends with this one."""

    def __init__(self, begin: str) -> None:
        """Start it; ``begin`` is Python that it runs before anything is loaded."""
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-m", __name__, str(theirs.fileno()), begin]
            nobody = subprocess.DEVNULL
            self._loaded = subprocess.Popen(
                words, cwd=ROOT, stdin=nobody, stdout=nobody, pass_fds=[theirs.fileno()]
            )
        atexit.register(self.end)

    def run(
        self, words: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
    ) -> Ended:
        """Run a command to its end; raises TimeoutError if it takes longer."""
        request = json.dumps([[*words], str(folder), dict(environ)]).encode()
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with theirs:
                given = [out.fileno(), err.fileno(), theirs.fileno()]
                socket.send_fds(self._door, [request], given)
            ours.settimeout(seconds)
            code = int(ours.recv(16))
            out.seek(0)
            err.seek(0)
            return Ended(code, out.read(), err.read())

    def end(self) -> None:
        """End it."""
        self._door.close()
        self._loaded.wait()


def main() -> None:
    """Load k8sbench, and fork for each request until nobody is there to make one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the tests say when it ends
    door = socket.socket(fileno=int(sys.argv[1]))
    exec(sys.argv[2])
    package = importlib.import_module("k8sbench")
    found = (each.name for each in pkgutil.walk_packages(package.__path__, "k8sbench."))
    left_out = ("k8sbench.trainers", "k8sbench.__main__")
    for name in (*(name for name in found if not name.startswith(left_out)), *THEIRS):
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, given, _, _ = socket.recv_fds(door, _LARGEST, 3)
        if not request:
            return
        if os.fork() == 0:
            break
        for descriptor in given:
            os.close(descriptor)
    door.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *printed, answer = given
    if (command := os.fork()) != 0:
        status = os.waitpid(command, 0)[1]
        os.write(answer, b"%d" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.close(answer)
    for number, descriptor in enumerate(printed, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    words, folder, environ = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = words
    try:
        runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        # Without taking apart what was loaded, which takes longer than most commands.
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread():
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 0)


if __name__ == "__main__":
    main()
