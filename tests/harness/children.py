"""Python programs that tests start, and let begin at one moment."""

from __future__ import annotations

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
