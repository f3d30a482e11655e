"""Measures a run whose log format a user has declared, in a process of its own.

Only a main thread can be told that an expression takes too long for a line, and what follows runs
may do so in another thread. Ctrl-C reaches the process as well: the run is measured later then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import InputError
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap

SECONDS = 3600.0
"""For all logs of a run; each of its lines has a limit of its own."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured."""

    run: Run
    files: Mapping[str, str]
    """Names by path, rank 0's first."""
    accept: Sequence[str] = ()
    gaps: Sequence[LogGap] = ()


def measure(task: Task) -> Measurement:
    """Have it measured; raises :class:`KeyboardInterrupt` where Ctrl-C has ended that."""
    tree = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (tree, os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=msgspec.json.encode(task),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        return _unmeasured(task, f"are not measured within {times.duration(SECONDS)}.")
    if done.returncode in {130, -signal.SIGINT}:
        raise KeyboardInterrupt(f"Measure it with: k8sbench collect {task.run.run_id}")
    if done.returncode != 0:
        *_, last = done.stderr.decode(errors="replace").strip().splitlines() or [""]
        return _unmeasured(task, f"cannot be measured: code {done.returncode}, {last[:300]}")
    return msgspec.json.decode(done.stdout, type=Measurement)


def _unmeasured(task: Task, why: str) -> Measurement:
    """Reject what cannot be measured: the run itself ended well."""
    from k8sbench.measure.run import expectation, measuring

    expected = expectation.from_plan(task.run.plan, accept=tuple(task.accept))
    error = InputError(f"The logs {why}", "Correct the expressions of the log format.")
    return measuring.nothing_measured(list(task.files.values()), expected, error)


def measured(task: Task) -> Measurement:
    """Measure here; each line has its limit, in the main thread."""
    from k8sbench.adapters.files import line_limit
    from k8sbench.lifecycle import measuring

    logs = line_limit.opened(task.files, declared=not isinstance(task.run.plan.log, str))
    return measuring.measure_run(task.run, logs, accept=task.accept, gaps=task.gaps)


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    sys.stdout.buffer.write(msgspec.json.encode(measured(given)))
