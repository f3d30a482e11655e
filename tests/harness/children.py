"""Python programs that tests start, and let begin at one moment."""

import signal
import subprocess
import sys

from tests.unit.presence import present


def ready(code: str, *words: object) -> subprocess.Popen[str]:
    """Start a program, and wait until it says that it is ready."""
    command = [sys.executable, "-c", code, *map(str, words)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert present(process.stdout).readline() == "ready\n"
    return process


def begin(*processes: subprocess.Popen[str]) -> None:
    """Let programs go on that wait for a line."""
    for process in processes:
        present(process.stdin).write("\n")
        present(process.stdin).flush()


DIES = """
import os, pathlib, signal, sys
from k8sbench.adapters.store import exchange
from k8sbench.adapters.store.opening import open_store
from k8sbench.app import stores
event, part, left, *words = sys.argv[1:]
def die(happens, arguments):
    global left
    if happens == event and part in str(arguments[0]):
        left = int(left) - 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
"""


def killed_at(event: str, part: str, code: str, *words: object, count: int = 1) -> None:
    """Run a program on a store in ``words``, killed at an audit event.

    The event is the ``count``-th of that name whose first argument contains ``part``.
    """
    command = [sys.executable, "-c", DIES + code, event, part, str(count), *map(str, words)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
