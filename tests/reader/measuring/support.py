"""Measuring lines that a test writes, and the fixtures' logs."""

import operator
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from k8sbench.catalog import spec_files
from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.measurement import Measurement
from k8sbench.reader.log_files import LogFile
from k8sbench.reader.measuring import expectation
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.log_facts import OpenedLog
from k8sbench.reader.measuring.measuring import JudgedLog, judge, measure

FIXTURES = Path(__file__).parents[2] / "fixtures" / "logs"

NOT_SUPPORTED = 9223372036854775794
"""First of DCGM's values for fields that a GPU lacks."""


class Lines:
    """A log in memory."""

    def __init__(self, lines: Iterable[str], name: str = "train.log") -> None:
        self.name = name
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return (f"{line}\n" for line in self._lines)


class Block:
    """A log in memory, in few blocks."""

    name = "train.log"

    def __init__(self, *blocks: Iterable[str]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[str]:
        for lines in self._blocks:
            yield "".join(f"{line}\n" for line in lines)


def fixture(name: str) -> LogFile:
    """A log of ``tests/fixtures/logs``."""
    return LogFile(str(FIXTURES / name), name)


def lines_of(name: str) -> list[str]:
    """Its lines, without empty ones."""
    return [line for line in (FIXTURES / name).read_text().split("\n") if line]


def measured(source: Iterable[str] | LogFile | Lines, **expected: Any) -> Measurement:
    """Measure one log."""
    known: dict[str, Any] = {"format": "mmseg", "gpus": 1, "batch_size": 4, "warmup": 0}
    known |= expected
    log = source if isinstance(source, (LogFile, Lines)) else Lines(source)
    return measure([log], Expectation(**known))


def judged(logs: Iterable[OpenedLog], options: MeasureOptions) -> JudgedLog:
    """Measure one run's logs, as what they state and as the options say.

    Without a family: as any family, or as the benchmark of the catalog that the logs state.
    """
    benchmarks = spec_files.load_all() if options.family is None else []
    possible = expectation.candidates(options, benchmarks)
    return judge(logs, [replace(each.expected, **options.values) for each in possible])


def figure(found: Measurement, name: str) -> Any:
    """A field of the throughput, else of the measurement; or an entry of its environment."""
    if name in found.environment:
        return found.environment[name]
    owner = found.throughput if hasattr(found.throughput, name) else found
    return operator.attrgetter(name)(owner)


def ids(found: Measurement, severity: str | None = None) -> list[str]:
    """Ids of the reasons."""
    return [each.id for each in found.reasons if severity in {None, each.severity}]


def mmseg(
    iteration: int,
    seconds: float = 0.5,
    *,
    at: float = 0.0,
    loss: str = "2.0000",
    waiting: float = 0.01,
    total: int = 1000,
) -> str:
    """A training line of mmsegmentation, stamped ``at`` seconds after ten o'clock."""
    hours, rest = divmod(at, 3600)
    minutes, second = divmod(rest, 60)
    whole = int(second)
    stamp = f"2026-03-02 {10 + int(hours):02d}:{int(minutes):02d}:{whole:02d},"
    stamp += f"{int((second - whole) * 1000):03d}"
    return (
        f"{stamp} - mmseg - INFO - Iter [{iteration}/{total}]\tlr: 9.9e-03, eta: 0:01:00, "
        f"time: {seconds:.3f}, data_time: {waiting:.3f}, memory: 11000, loss: {loss}"
    )


def run(
    times: Iterable[float], *, interval: int = 10, first: int = 0, at: float = 0.0, total: int = 0
) -> list[str]:
    """Return a run's lines; records took ``times`` per iteration, stamped accordingly."""
    lines, iteration, clock = [], first, at
    seconds = list(times)
    last = total or first + interval * len(seconds)
    for each in seconds:
        iteration += interval
        clock += each * interval
        lines.append(mmseg(iteration, each, at=clock, total=last))
    return lines


def tsm(epoch: int, step: int, seconds: float, mean: float, *, total: int = 100) -> str:
    """A training line of temporal-shift-module."""
    return (
        f"Epoch: [{epoch}][{step}/{total}], lr: 0.00250\tTime {seconds:.3f} ({mean:.3f})\t"
        "Data 0.000 (0.000)\tLoss 4.0000 (5.0000)\tPrec@1 0.000 (0.000)\tPrec@5 0.000 (0.000)"
    )


def plsc(batch: int, rate: float, *, stamp: str | None = None) -> str:
    """A line of PLSC's first version, which counts batches from 0."""
    head = f"INFO {stamp} entry.py:1023] " if stamp else ""
    return f"{head}Pass:0 batch:{batch} lr:0.10000000 loss:42.000000 qps:{rate:.2f}"
