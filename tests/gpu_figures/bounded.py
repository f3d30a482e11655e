"""Runs programs within limits of time and of memory; nothing that they start is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024**2
POLL_SECONDS = 0.5
GRACE_SECONDS = 5.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed on stdout and stderr."""

    lines: list[str]
    code: int | None
    """Exit code, a signal's number below 0; None if the program was stopped at a limit."""
    stopped: str | None
    """The limit at which it was stopped, as a phrase; None if it ended by itself."""


def run(
    commands: Sequence[Sequence[str]],
    *,
    seconds: float,
    memory_mib: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Ended]:
    """Run commands at the same time from the top of the tree, each as a process group of its own.

    All are stopped after `seconds`, or when together they hold more than `memory_mib` of memory.
    """
    deadline = time.monotonic() + seconds
    processes: list[subprocess.Popen[bytes]] = []
    family: set[psutil.Process] = set()
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        try:
            for words, output in zip(commands, outputs, strict=True):
                process = subprocess.Popen(
                    words,
                    cwd=ROOT,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                processes.append(process)
            stopped = None
            while stopped is None and any(process.poll() is None for process in processes):
                held = _held_mib(processes, family)
                if time.monotonic() > deadline:
                    stopped = f"stopped after {seconds:.0f} s"
                elif memory_mib is not None and held > memory_mib:
                    stopped = f"stopped: held more than {memory_mib:.0f} MiB of memory"
                else:
                    _wait(processes, min(POLL_SECONDS, deadline - time.monotonic() + 0.01))
            codes = [process.poll() for process in processes]
        finally:
            _stop(processes, family)
        return [
            Ended(_lines(output), code, stopped if code is None else None)
            for output, code in zip(outputs, codes, strict=True)
        ]


def _held_mib(processes: Sequence[subprocess.Popen[bytes]], family: set[psutil.Process]) -> float:
    """MiB of memory that the processes hold with all that they have started.

    `family` gains those: a program in a session of its own belongs to no group that is killed here.
    """
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            family.update((parent, *parent.children(recursive=True)))
    held = 0
    for each in tuple(family):
        try:
            memory = each.memory_info()
            held += memory.rss - memory.shared  # programs share the frameworks' libraries
        except psutil.NoSuchProcess:
            continue
    return held / MIB


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until the first of those that still run has ended, for `seconds` at most."""
    running = next(process for process in processes if process.returncode is None)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(seconds)


def _stop(processes: Sequence[subprocess.Popen[bytes]], family: set[psutil.Process]) -> None:
    _held_mib(processes, family)
    running = [process for process in processes if process.poll() is None]
    for process in running:
        os.killpg(process.pid, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    for process in processes:
        process.wait()


def _lines(output: IO[bytes]) -> list[str]:
    output.seek(0)
    return output.read().decode(errors="replace").splitlines()
