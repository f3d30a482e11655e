"""Measuring in another process: low priority, a memory limit, one at a time.

A long log then delays no other run, and one that needs too much memory ends this process alone. The
module is the child's program, too: ``python -m k8sbench.adapters.measuring``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from k8sbench.json_decoders import decoder
from k8sbench.model.errors import InputError, StoreError
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.reader import log_files
from k8sbench.reader.measuring import recorded

NICENESS = 10
"""Added to the niceness of the child: followed runs come first."""
SHARE = 0.5
"""Memory of the child ÷ memory limit of the container.

With cgroup v2 the kernel ends the whole container where its limit is passed, the child's own limit
ends the child alone.
"""
UNLIMITED = 2**30
"""Bytes for the child where the container has no limit."""
PASSED_LIMIT = 3
"""Exit code of a child that passed its limit."""
OUT_OF_MEMORY = {PASSED_LIMIT, -signal.SIGABRT, -signal.SIGSEGV}
"""Ends of a child that passed its limit; C code ends by a signal."""
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The container's limit in bytes, in cgroup v2 and v1."""
PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: the child ends with its parent."""
_TURN = threading.Lock()
"""Held while a run is measured: one at a time in this process."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A run to measure, and what its measurement needs."""

    run: Run
    logs: Mapping[str, str]
    """Path → name of its log files, rank 0 first."""
    accept: Sequence[str] = ()
    """Ids of reasons that do not reject."""
    gaps: Sequence[LogGap] = ()
    nodes: Sequence[Mapping[str, str]] = ()
    """Facts that nodes report."""


def measured(task: Task) -> Measurement:
    """Measure a run in this process."""
    logs = log_files.opened(task.logs)
    return recorded.measure_run(
        task.run, logs, accept=task.accept, gaps=task.gaps, nodes=task.nodes
    )


def measured_apart(task: Task, limit: int | None = None) -> Measurement:
    """Measure a run in a child process; blocks until it has ended.

    ``limit`` are the bytes that it may use; None: what :func:`memory_limit` gives. A run that needs
    more is rejected. Raises :class:`~k8sbench.model.errors.StoreError` if the child fails
    otherwise.
    """
    try:
        answer = in_child(
            "k8sbench.adapters.measuring", msgspec.json.encode(task), task.run.run_id, limit
        )
    except InputError as error:
        return recorded.unmeasured(task.run, list(task.logs.values()), error)
    return decoder(Measurement).decode(answer)


def in_child(module: str, task: bytes, what: str, limit: int | None = None) -> bytes:
    """Have a program of k8sbench measure in a child process; returns what it prints.

    ``limit`` are the bytes that it may use; None: what :func:`memory_limit` gives. Raises
    :class:`~k8sbench.model.errors.InputError` if it needs more, and
    :class:`~k8sbench.model.errors.StoreError`, which names ``what``, if it fails otherwise.
    """
    limit = limit or memory_limit()
    with _TURN:
        child = subprocess.run(
            [sys.executable, "-m", module, str(limit)],
            input=task,
            capture_output=True,
            start_new_session=True,
            check=False,
        )
    if child.returncode == 0:
        return child.stdout
    if child.returncode in OUT_OF_MEMORY:
        raise InputError(
            f"Measuring its logs takes more than {limit >> 20} MiB of memory."
            " Where there is more, k8sbench measure LOG... measures them."
        )
    why = child.stderr.decode(errors="replace").strip()
    last = why.splitlines()[-1] if why else f"its process ended with exit code {child.returncode}."
    raise StoreError(f"{what} cannot be measured: {last}")


def memory_limit(files: Sequence[str] = CGROUP_LIMITS) -> int:
    """Return the bytes that a child may use, from the container's limit."""
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            return min(UNLIMITED, int(int(Path(file).read_text()) * SHARE))
    return UNLIMITED


def main(measure: Callable[[bytes], bytes], limit: int) -> int:
    """Measure the task of stdin; print what ``measure`` returns."""
    os.nice(NICENESS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    task = sys.stdin.buffer.read()
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        answer = measure(task)
    except MemoryError:
        return PASSED_LIMIT
    sys.stdout.buffer.write(answer)
    return 0


def _measured(task: bytes) -> bytes:
    return msgspec.json.encode(measured(decoder(Task).decode(task)))


if __name__ == "__main__":
    sys.exit(main(_measured, int(sys.argv[1])))
