"""Runs programs of a framework as forks of a process that has imported it.

An import takes seconds of processor time, which every rank of every job would spend again. The
forks are processes like others: ranks of one job, with environments, outputs and ends of their own.
What a test asks of an interpreter's start, or of a launcher, needs a real one.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tests.trainers import runs

# PyTorch's optimizers import the last one at their first step.
IMPORTED = {
    "pytorch": ("k8sbench.trainers.parts.torch_session", "torch._dynamo"),
    "paddle": ("k8sbench.trainers.parts.paddle_session",),
}


class Server:
    """A process that forks; its group is that of the forks."""

    def __init__(self, framework: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, framework],
            env=runs.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, folder: str, request: object, timeout: float) -> list[int]:
        """Have the forks of a request run; returns their exit codes."""
        given, told = self.process.stdin, self.process.stdout
        assert given is not None
        assert told is not None
        given.write(json.dumps([folder, request]) + "\n")
        given.flush()
        assert select.select([told], [], [], timeout)[0], f"still running after {timeout:g} s"
        codes: list[int] = json.loads(told.readline())
        return codes

    def end(self) -> None:
        """Kill it with all its forks."""
        with self.process, contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@functools.cache
def server(framework: str) -> Server:
    """The server of these tests."""
    made = Server(framework)
    atexit.register(made.end)
    return made


def start(
    framework: str,
    arguments: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    timeout: float,
) -> list[runs.Ended]:
    """Run `python ARGUMENTS` in each environment, at once."""
    held = server(framework)
    with tempfile.TemporaryDirectory() as folder:
        try:
            codes = held.run(folder, [arguments, environments], timeout)
        except BaseException:  # also pytest's own limit
            held.end()
            server.cache_clear()
            raise
        texts = [
            [pathlib.Path(folder, f"{name}-{each}").read_text() for name in ("out", "err")]
            for each in range(len(codes))
        ]
    return [runs.Ended(code, *text) for code, text in zip(codes, texts, strict=True)]


def serve(framework: str) -> None:
    """Fork for each line of the input until it ends."""
    for module in IMPORTED[framework]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection would write into every page that forks share
    for line in iter(sys.stdin.readline, ""):
        folder, (arguments, environments) = json.loads(line)
        forks = []
        for number, environment in enumerate(environments):
            if (fork := os.fork()) == 0:
                become(arguments, environment, folder, number)
            forks.append(fork)
        codes = [os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) for fork in forks]
        print(json.dumps(codes), flush=True)


def become(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str, number: int
) -> NoReturn:
    """Be `python ARGUMENTS` from now on."""
    code: object = 1
    try:
        for name, stream in ((os.devnull, 0), (f"out-{number}", 1), (f"err-{number}", 2)):
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
    """Run a module, by `-m`, or a program, by `-c`."""
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
    serve(sys.argv[1])
