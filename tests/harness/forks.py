"""Runs Python programs as forks of a process that has imported what they need.

An import takes a good part of the processor time of a program that does little, and seconds with a
framework. The forks are processes like others, with environments, folders, outputs and ends of
their own. What a test asks of an interpreter's start, of a terminal or of a signal needs a real
one.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import pathlib
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from tests.tiers import ROOT

STREAMS = ("out", "err")


class Ended(NamedTuple):
    """A process that has ended, and what it has printed."""

    code: int
    out: str
    err: str


class Servers:
    """Processes with the same modules imported; one for each request at a time."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._idle: list[Server] = []
        self._all: list[Server] = []
        self._lock = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        timeout: float,
        *,
        cwd: str | os.PathLike[str] = ".",
    ) -> list[Ended]:
        """Run ``python ARGUMENTS`` in each environment, all at once, and wait for their ends."""
        with self._lock:
            server = self._idle.pop() if self._idle else None
        if server is None:
            server = Server(self._modules)
            self._all.append(server)
        with tempfile.TemporaryDirectory() as folder:
            where = os.fspath(pathlib.Path(cwd).resolve())
            try:
                codes = server.run([folder, where, arguments, environments], timeout)
            except BaseException:  # also pytest's own limit
                server.end()
                raise
            texts = [
                [
                    pathlib.Path(folder, f"{name}-{each}").read_text(errors="replace")
                    for name in STREAMS
                ]
                for each in range(len(codes))
            ]
        with self._lock:
            self._idle.append(server)
        return [Ended(code, *text) for code, text in zip(codes, texts, strict=True)]

    def end(self) -> None:
        """Kill them with all their forks."""
        for server in self._all:
            server.end()


class Server:
    """A process that forks; its group is that of the forks."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _paths()))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, request: object, timeout: float) -> list[int]:
        """Have the forks of a request run; returns their exit codes."""
        given, told = self.process.stdin, self.process.stdout
        assert given is not None
        assert told is not None
        given.write(json.dumps(request) + "\n")
        given.flush()
        assert select.select([told], [], [], timeout)[0], f"still running after {timeout:g} s"
        line = told.readline()
        assert line, f"the process that forks has ended with {self.process.wait()}"
        codes: list[int] = json.loads(line)
        return codes

    def end(self) -> None:
        """Kill it with all its forks, once: its number may be another process' afterwards."""
        with self.process:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


def _paths() -> Iterable[object]:
    return [ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]


@functools.cache
def servers(*modules: str) -> Servers:
    """The servers of these tests that have imported modules, or ``PACKAGE.*``: all of one."""
    made = Servers(modules)
    atexit.register(made.end)
    return made


# -- in the server --------------------------------------------------------------------------------


def serve(names: Sequence[str]) -> None:
    """Fork for each line of the input until it ends."""
    for name in names:
        package, every, _ = name.partition(".*")
        module = importlib.import_module(package)
        for each in pkgutil.walk_packages(module.__path__, f"{package}.") if every else ():
            importlib.import_module(each.name)
    gc.collect()
    gc.freeze()  # a collection would write into every page that forks share
    for line in iter(sys.stdin.readline, ""):
        folder, cwd, arguments, environments = json.loads(line)
        forks = []
        for number, environment in enumerate(environments):
            if (fork := os.fork()) == 0:
                os.chdir(cwd)
                become(arguments, environment, folder, number)
            forks.append(fork)
        codes = [os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) for fork in forks]
        print(json.dumps(codes), flush=True)


def become(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str, number: int
) -> NoReturn:
    """Be ``python ARGUMENTS`` from now on."""
    code: object = 1
    try:
        files = [os.devnull, *(f"{name}-{number}" for name in STREAMS)]
        for stream, name in enumerate(files):
            opened = os.open(pathlib.Path(folder, name), os.O_RDWR | os.O_CREAT)
            os.dup2(opened, stream)
            os.close(opened)
        os.environ.clear()
        os.environ.update(environment)
        run(arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def run(arguments: Sequence[str]) -> None:
    """Run a module, by ``-m``, or a program, by ``-c``."""
    how, what, *words = arguments
    if how == "-m":
        sys.argv = [what, *words]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        assert how == "-c"
        sys.argv = [how, *words]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    serve(sys.argv[1:])
