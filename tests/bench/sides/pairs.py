"""Interleaved pairs: a few steps of one side, then as many of the other, again and again.

Each side is a process that is idle while the other works. Of a GPU's memory it then holds only its
model, its optimizer's state and a batch (see `gate`), so that both sides fit into a small GPU.
Which side begins changes from pair to pair, so that a machine that slows down, or a neighbour that
comes and goes, favours neither.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.sides.cases import Case

ROOT = Path(__file__).resolve().parents[3]
WARM_UP = 2  # blocks of each side before the first pair
ENDLESS = ("--warmup", "0", "--iterations", "1000000000")


class SideFailed(Exception):
    """A side ended by itself; its last lines."""


@dataclass(frozen=True)
class Compared:
    """What the pairs gave: seconds per step, and MiB that building and training took."""

    steps: int  # per block
    plain: tuple[float, ...]
    ours: tuple[float, ...]
    plain_cpu: tuple[float, ...]
    ours_cpu: tuple[float, ...]
    plain_memory: float
    ours_memory: float

    @property
    def ratios(self) -> list[float]:
        """Ours to plain, per pair."""
        return [mine / other for mine, other in zip(self.ours, self.plain, strict=True)]

    @property
    def cpu_ratio(self) -> float:
        """The same of the processes' CPU time, which neighbours on the cores disturb less."""
        pairs = zip(self.ours_cpu, self.plain_cpu, strict=True)
        return statistics.median(mine / other for mine, other in pairs)

    @property
    def more_cpu(self) -> list[float]:
        """Seconds of CPU time that ours takes more per step, per pair."""
        return [mine - other for mine, other in zip(self.ours_cpu, self.plain_cpu, strict=True)]


def compare(
    case: Case, device: str, options: Sequence[str], *, pairs: int, block_seconds: float
) -> Compared:
    """Run `pairs` pairs of blocks that take about `block_seconds` each."""
    threads = ("--threads", "1") if device == "cpu" else ()
    words = (*ENDLESS, "--device", device, *threads, *options)
    with _side("plain", case, words) as plain, _side("ours", case, words) as ours:
        first = _Blocks(plain), _Blocks(ours)
        for blocks in first:  # which have been started together
            blocks.side.answer()
        # The first steps allocate; then one block tells how many steps fill the time.
        slowest = [math.inf, math.inf]
        for number in range(WARM_UP):
            for index, blocks in enumerate(first):
                slowest[index] = min(slowest[index], blocks.run(1 + number))
        steps = max(1, round(block_seconds / max(slowest)))
        for blocks in first:
            blocks.run(steps)
            blocks.forget()
        for number in range(pairs):
            for blocks in first if number % 2 else first[::-1]:
                blocks.run(steps)
        return Compared(
            steps=steps,
            plain=tuple(first[0].seconds),
            ours=tuple(first[1].seconds),
            plain_cpu=tuple(first[0].cpu_seconds),
            ours_cpu=tuple(first[1].cpu_seconds),
            plain_memory=first[0].memory,
            ours_memory=first[1].memory,
        )


class _Blocks:
    """One side's blocks, in seconds per step."""

    def __init__(self, side: _Side) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []
        self.memory = 0.0
        self.side = side

    def run(self, steps: int) -> float:
        """Run `steps` steps; seconds per step."""
        told = self.side.run(steps)
        self.seconds.append(told["seconds"] / steps)
        self.cpu_seconds.append(told["cpu_seconds"] / steps)
        self.memory = told["memory_mib"]
        return self.seconds[-1]

    def forget(self) -> None:
        """Begin anew; what memory was taken stays taken."""
        self.seconds.clear()
        self.cpu_seconds.clear()


class _Side:
    def __init__(self, process: subprocess.Popen[str], errors: Any) -> None:
        self._process, self._errors = process, errors

    def run(self, steps: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line of the other end: that it is built, or a block's times."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise SideFailed("\n".join(said[-5:]) or f"exit code {self._process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def _side(side: str, case: Case, options: Sequence[str]) -> Iterator[_Side]:
    words = [sys.executable, "-m", "tests.bench.sides.worker", side, case.framework, case.trainer]
    env = {**os.environ, "OMP_NUM_THREADS": "1"} if "cpu" in options else dict(os.environ)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [*words, *options],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield _Side(process, errors)
        finally:
            process.kill()
