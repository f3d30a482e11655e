"""Python programs that tests start, and let begin at one moment.

A program is a function of a module below tests, so that what it uses of k8sbench is imported like
anything else.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import PurePath

from tests.tiers import ROOT
from tests.unit.presence import present

K8SBENCH = 'import runpy\nrunpy.run_module("k8sbench", run_name="__main__", alter_sys=True)\n'
"""The command itself, at the end of a program."""


def calling(function: Callable[..., object], *given: object) -> str:
    """Return a program that calls a function; of several joined each calls its own.

    The arguments are written as literals, a path as its text.
    """
    name = function.__name__
    words = ", ".join(repr(str(each) if isinstance(each, PurePath) else each) for each in given)
    return (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from {function.__module__} import {name}\n{name}({words})\n"
    )


def command(function: Callable[..., object], *given: object) -> list[str]:
    """Return the command of a Python that calls a function."""
    return [sys.executable, "-c", calling(function, *given)]


def ready(function: Callable[..., object], *given: object) -> subprocess.Popen[str]:
    """Start a program, and wait until it says that it is ready."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command(function, *given), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert present(process.stdout).readline() == "ready\n"
    return process


def begin(*processes: subprocess.Popen[str]) -> None:
    """Let programs go on that wait for a line."""
    for process in processes:
        present(process.stdin).write("\n")
        present(process.stdin).flush()


def say_ready() -> None:
    """Say in a program that it is ready, and wait until it may begin."""
    print("ready", flush=True)
    sys.stdin.readline()


def die_at(event: str, part: str, count: int) -> None:
    """Have this process killed at the ``count``-th such event, as :func:`killed_at` says."""
    left = count

    def die(happens: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if happens == event and part in str(arguments[0]):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)


def killed_at(
    event: str, part: str, function: Callable[..., object], *given: object, count: int = 1
) -> None:
    """Run a program that is killed at an audit event.

    The event is the ``count``-th of that name whose first argument contains ``part``.
    """
    code = calling(die_at, event, part, count) + calling(function, *given)
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
