"""From matches of a training line's pattern to records, of many lines at once.

Numbers are read column by column: that takes half the time of reading them record by record, and
most lines of most logs are training lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from k8sbench.model.expressions import Match, Pattern
from k8sbench.model.sample import Record, Shape
from k8sbench.parse import stamps

MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; a larger number is a broken line."""
LOSS_NUMBER = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
_LOSS = re.compile(r"\bloss:\s+" + LOSS_NUMBER)

Texts = Sequence[str | None]
Numbers = Sequence[float | None]


class RecordRule(msgspec.Struct, frozen=True):
    """A training line.

    Groups: ``iteration``, ``epoch``, ``total``, ``rate``, ``step_seconds``, ``mean_seconds``,
    ``data_seconds``, ``compute_rate`` (without the wait for data), ``loss``, ``middle`` (the text
    that holds the loss), ``stamp``, ``memory``.
    """

    needle: str
    pattern: Pattern
    shape: Shape
    first_iteration: int = 1
    """The number that the program gives to the first iteration."""
    stamps: Callable[[Texts], Numbers] = stamps.column
    """Reads stamps; None for what is none."""
    found_by: str = ""
    """Another literal text of every matching line, for which a log is searched instead of the
    needle: a longer one is found faster, and one that other rules search for costs nothing."""
    counts_steps: bool = False
    """True if ``rate`` counts steps; the record has seconds per step in its place."""

    def records(
        self, lines: Sequence[int], sources: Sequence[str], matches: Sequence[Match]
    ) -> list[Record | None]:
        """What matches say, by the numbers of their lines and the ranks that printed these.

        None where the numbers of one can be none of a record.
        """
        if not matches:
            return []
        groups = list(zip(*[match.groups() for match in matches], strict=True))
        places = self.pattern.groupindex
        nothing: tuple[None, ...] = (None,) * len(matches)

        def texts(name: str) -> Texts:
            return groups[places[name] - 1] if name in places else nothing

        def numbers(name: str) -> Numbers:
            return _numbers(groups[places[name] - 1]) if name in places else nothing

        rates, seconds = _positive(numbers("rate")), _positive(numbers("step_seconds"))
        if self.counts_steps and "rate" in places:
            rates, seconds = nothing, [rate and 1.0 / rate for rate in rates]
        means = _positive(numbers("mean_seconds"))
        if self.shape.averaged == "running":
            if "mean_seconds" not in places:
                seconds, means = nothing, seconds
            times = means
        else:
            times = seconds
        return [
            None
            if iteration is None or deciding is None
            else Record(
                line=number,
                text=match[0],
                source=source,
                shape=self.shape,
                iteration=iteration + 1 - self.first_iteration,
                epoch=epoch,
                total=total or None,
                rate=rate,
                seconds=second,
                mean_seconds=mean,
                loss=loss,
                waiting=waiting,
                stamp=stamp,
                memory_mib=memory,
            )
            for (
                number,
                source,
                match,
                iteration,
                epoch,
                total,
                rate,
                second,
                mean,
                deciding,
                loss,
                waiting,
                stamp,
                memory,
            ) in zip(
                lines,
                sources,
                matches,
                _whole(texts("iteration"), MOST_ITERATIONS),
                _whole(texts("epoch"), MOST_EPOCHS),
                _whole(texts("total"), MOST_ITERATIONS),
                rates,
                seconds,
                means,
                rates if self.shape.number == "rate" else times,
                _numbers(_losses(texts("loss"), texts("middle"))),
                _waiting(rates, numbers("compute_rate"), numbers("data_seconds"), times),
                self.stamps(texts("stamp")),
                numbers("memory"),
                strict=True,
            )
        ]


def number_in(text: str | None) -> float | None:
    """A printed number, NaN and infinities included; None for no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def positive(text: str | None) -> float | None:
    """A printed number that can be a time or a rate; None for all others."""
    return _positive((number_in(text),))[0]


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not part >= 0 or not whole > 0:
        return None
    return part / whole if part < whole else 1.0


def _numbers(texts: Texts) -> Numbers:
    try:
        # A None is a TypeError: in most columns every record has a number, or none has.
        return list(map(float, cast("Sequence[str]", texts)))
    except (TypeError, ValueError):
        return [number_in(text) for text in texts]


def _whole(texts: Texts, most: float) -> Sequence[int | None]:
    """Counts of iterations and epochs."""
    try:
        counts = list(map(int, cast("Sequence[str]", texts)))
        if min(counts) >= 0 and max(counts) < most:
            return counts
    except (TypeError, ValueError):
        pass
    numbers = (number_in(text) for text in texts)
    return [
        int(number) if number is not None and 0 <= number < most else None for number in numbers
    ]


def _positive(numbers: Numbers) -> Numbers:
    """Numbers that can be times or rates; None for all others."""
    if not any(numbers):
        return (None,) * len(numbers)
    return [number if number is not None and 0 < number < math.inf else None for number in numbers]


def _losses(texts: Texts, middles: Texts) -> Texts:
    """Texts of losses, which some programs print at no fixed place."""
    if not any(middles):
        return texts
    matches = (
        _LOSS.search(middle) if text is None and middle is not None else None
        for text, middle in zip(texts, middles, strict=True)
    )
    return [match["loss"] if match else text for text, match in zip(texts, matches, strict=True)]


def _waiting(rates: Numbers, computing: Numbers, data: Numbers, times: Numbers) -> Numbers:
    """Shares of the time that were spent waiting for data."""
    waiting: Numbers = list(map(share, data, times)) if any(data) else data
    if not any(computing):
        return waiting
    return [
        max(1 - rate / compute, 0.0)
        if rate is not None and compute is not None and 0 < compute < math.inf
        else waited
        for rate, compute, waited in zip(rates, computing, waiting, strict=True)
    ]
