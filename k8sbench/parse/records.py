"""From a match of a training line's pattern to its record."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable

import msgspec

from k8sbench.model.expressions import Match, Pattern
from k8sbench.model.sample import Record, Shape
from k8sbench.parse.lines import CleanLine

# Logs print no zone, so stamps are read as UTC: only their differences matter.

DAY = 86400.0
UNDATED_YEAR = 2000
"""Year of stamps without one; a leap year, so every date exists."""
UNDATED_SPAN = 366 * DAY


def stamp_seconds(text: str) -> float | None:
    """Read ``2021-05-31 00:01:11,032``, ``2023/07/28 06:42:45`` or ``06/04 09:34:21``.

    None for what is no such time. The fraction may follow a comma or a point.
    """
    date = text.replace("/", "-")
    try:
        if date[2:3] == "-":
            date = f"{UNDATED_YEAR}-{date}"
        if date[16:17] != ":":
            return None
        return datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None


def received_at(text: str) -> float | None:
    """Return when the node received a line; None without such a stamp."""
    if text[10:11] != "T":
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; a larger number is a broken line."""
LOSS_NUMBER = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
_LOSS = re.compile(r"\bloss:\s+" + LOSS_NUMBER)


class RecordRule(msgspec.Struct, frozen=True):
    """A training line.

    Groups: ``iteration``, ``epoch``, ``epochs`` (planned), ``total``, ``rate``, ``step_seconds``,
    ``mean_seconds``, ``data_seconds``, ``compute_rate`` (without the wait for data), ``loss``,
    ``middle`` (the text that holds the loss), ``stamp``, ``memory``.
    """

    needle: str
    """Literal text that every matching line holds."""
    pattern: Pattern
    shape: Shape
    first_iteration: int = 1
    """The number that the program gives to the first iteration."""
    stamp: Callable[[str], float | None] = stamp_seconds
    """Reads a stamp; None for what is none."""
    counts_steps: bool = False
    """True if ``rate`` counts steps; the record has seconds per step in its place."""

    def record(self, line: CleanLine, match: Match) -> Record | None:
        """Build a record from a match; None if its numbers are invalid."""
        texts = match.groupdict()
        text = texts.get
        iteration = _whole(text("iteration"), MOST_ITERATIONS)
        rate, seconds = positive(text("rate")), positive(text("step_seconds"))
        mean = positive(text("mean_seconds"))
        if self.counts_steps and rate is not None:
            seconds, rate = 1.0 / rate, None
        if self.shape.averaged == "running" and "mean_seconds" not in texts:
            seconds, mean = None, seconds
        time = mean if self.shape.averaged == "running" else seconds
        if iteration is None or (rate if self.shape.number == "rate" else time) is None:
            return None
        loss, stamp = number_in(text("loss")), text("stamp")
        if loss is None and (middle := text("middle")) and (found := _LOSS.search(middle)):
            loss = number_in(found["loss"])
        return Record(
            line=line.number,
            text=match[0],
            source=line.source,
            shape=self.shape,
            iteration=iteration + 1 - self.first_iteration,
            epoch=_whole(text("epoch"), MOST_EPOCHS),
            epochs=_whole(text("epochs"), MOST_EPOCHS) or None,
            total=_whole(text("total"), MOST_ITERATIONS) or None,
            rate=rate,
            seconds=seconds,
            mean_seconds=mean,
            loss=loss,
            waiting=_waiting(rate, text("compute_rate"), text("data_seconds"), time),
            stamp=None if stamp is None else self.stamp(stamp),
            taken=received_at(line.received) if line.received else None,
            memory_mib=number_in(text("memory")),
        )


def number_in(text: str | None) -> float | None:
    """A printed number, NaN and infinities included; None for no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def positive(text: str | None) -> float | None:
    """Read a finite positive number; None for any other text."""
    number = number_in(text)
    return number if number is not None and 0 < number < math.inf else None


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not part >= 0 or not whole > 0:
        return None
    return part / whole if part < whole else 1.0


def _whole(text: str | None, most: float) -> int | None:
    """Read a count of iterations or epochs."""
    number = number_in(text)
    return int(number) if number is not None and 0 <= number < most else None


def _waiting(
    rate: float | None, computing: str | None, data: str | None, time: float | None
) -> float | None:
    """Return the share of the time that was spent waiting for data."""
    if rate is not None and (most := positive(computing)) is not None:
        return max(1 - rate / most, 0.0)
    return share(number_in(data), time)
