"""A log format that a catalog file declares: regular expressions with named groups."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from k8sbench.model.sample import Item, Mark, Record, Shape
from k8sbench.model.spec import Framework, LogFormat
from k8sbench.parse.family import Family, Reader, number, positive, share

MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; larger numbers are broken lines."""
MAX_LINE = 4096
"""Characters of a line that a declared pattern is tried on: a careless pattern must not take
minutes over a progress bar."""


class _Reader(Reader):
    def __init__(self, declared: LogFormat, unit: str) -> None:
        self._format = declared
        self._record = re.compile(declared.record) if declared.record else None
        self._summary = re.compile(declared.summary) if declared.summary else None
        groups = self._record.groupindex if self._record else {}
        self._shape = Shape(
            name=declared.name,
            number="rate" if "rate" in groups else "seconds",
            per=declared.per,
            averaged=declared.averaged,
            numbering="epoch" if "epoch" in groups else "run",
            complete=declared.averaged != "step",
            resolution=_resolution(declared.stamp_format) if "stamp" in groups else None,
        )
        self._unit = unit

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        text = text[:MAX_LINE]
        if self._record is not None:
            for match in self._record.finditer(text):
                record = self._read_record(line, source, match)
                if record is not None:
                    yield record
        if self._summary is not None:
            for match in self._summary.finditer(text):
                yield self._read_summary(line, source, match)

    def _read_record(self, line: int, source: str, match: re.Match[str]) -> Record | None:
        groups = match.groupdict()
        iteration = number(groups.get("iteration"))
        rate, seconds = positive(groups.get("rate")), positive(groups.get("step_seconds"))
        decides = rate if self._shape.number == "rate" else seconds
        if iteration is None or not 0 <= iteration < MOST_ITERATIONS or decides is None:
            return None
        epoch, total = number(groups.get("epoch")), number(groups.get("total"))
        running = self._shape.averaged == "running"
        return Record(
            line=line,
            text=match[0],
            source=source,
            shape=self._shape,
            iteration=int(iteration) + 1 - self._format.first_iteration,
            epoch=int(epoch) if epoch is not None and 0 <= epoch < MOST_EPOCHS else None,
            total=int(total) if total is not None and 0 < total < MOST_ITERATIONS else None,
            rate=rate,
            seconds=None if running else seconds,
            mean_seconds=seconds if running else None,
            loss=number(groups.get("loss")),
            waiting=share(number(groups.get("data_seconds")), seconds),
            stamp=_stamp(groups.get("stamp"), self._format.stamp_format),
        )

    def _read_summary(self, line: int, source: str, match: re.Match[str]) -> Mark:
        groups = match.groupdict()
        return Mark(
            line=line,
            text=match[0],
            kind="summary",
            source=source,
            values={
                "whole_run_rate": positive(groups.get("rate")),
                "whole_run_seconds": positive(groups.get("step_seconds")),
                "final_loss": number(groups.get("loss")),
            },
        )


def _resolution(stamp_format: str | None) -> float:
    return 0.000001 if stamp_format and "%f" in stamp_format else 1.0


def _stamp(text: str | None, stamp_format: str | None) -> float | None:
    if text is None:
        return None
    if stamp_format is None:
        return positive(text)
    try:
        at = datetime.datetime.strptime(text, stamp_format)  # noqa: DTZ007 - zone added below
        return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError, re.error):
        return None


def family(declared: LogFormat, framework: Framework | None) -> Family:
    """Compile a declared format to the form of a built-in family."""
    unit = declared.unit if "/" in declared.unit else f"{declared.unit}/s"
    return Family(
        name=declared.name,
        title=f"the declared format {declared.name}",
        framework=framework,
        unit=unit,
        # The empty text is in every line: a pattern may match anything.
        needles=("",),
        reader=lambda: _Reader(declared, unit),
    )
