"""Lets one side run a given number of steps at a time, and times them.

The gate stands in the stream of batches. It opens for as many steps as the other end of the pipe
asks for, and is back when the loop asks for the batch after them: what lies between is those steps
whole, with their logging, whatever loop it is that takes them. On a GPU the memory that a side does
not need while it is idle is given back, since the other side may need all that a small GPU has;
the steps that take it again are not timed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEPS_TO_ALLOCATE = 2


class Gate:
    """One side's end of the conversation with the bench; its stdin and first stdout."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        with tempfile.TemporaryFile() as sink:  # what a trainer prints is written, read by nobody
            os.dup2(sink.fileno(), 1)
        self._base = 0.0
        # Set for a GPU:
        self.sync: Callable[[], None] = lambda: None
        self.empty_cache: Callable[[], None] | None = None
        self.peak_memory: Callable[[], float] | None = None  # MiB

    def ready(self) -> None:
        """Everything is imported, nothing is built."""
        self._base = _resident()

    def stream(self, batches: Iterator[Any]) -> Iterator[Any]:
        """`batches`, as many at a time as are asked for; the process ends when no more are."""
        self._tell({"event": "built"})
        while True:
            steps = self._asked()
            for _ in range(STEPS_TO_ALLOCATE if self.empty_cache else 0):
                yield next(batches)
            self.sync()
            cpu_began, began = time.process_time(), time.perf_counter()
            for _ in range(steps):
                yield next(batches)
            self.sync()
            answer = {
                "seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - cpu_began,
                "memory_mib": self._memory(),
            }
            if self.empty_cache is not None:
                self.empty_cache()
            self._tell(answer)

    def _asked(self) -> int:
        line = sys.stdin.readline()
        if not line.strip():
            os._exit(0)
        return int(line)

    def _tell(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def _memory(self) -> float:
        if self.peak_memory is not None:
            return self.peak_memory()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - self._base


def _resident() -> float:
    """MiB of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1024 / 1024
