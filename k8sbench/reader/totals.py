"""Lines that state totals: the time, or the samples, since the program began."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from k8sbench.model.notation import Match
from k8sbench.model.sample import Item, Record
from k8sbench.reader.family import Family, LineReader, LineRule, RecordRule, number_in, positive
from k8sbench.reader.lines import CleanLine


class Total(NamedTuple):
    """Totals of a line."""

    iteration: float
    elapsed: float | None
    """Seconds since the program's timer began; None if the line has none."""
    samples: float | None
    """Samples (or tokens) of the job so far; None if the line has none."""


class TotalsReader(LineReader):
    """Reads lines that state totals.

    A record has what its line adds to the line before: the first line of a rank is no record, and
    neither is one before which the program's timer began anew.
    """

    def __init__(self, family: Family) -> None:
        self.before: dict[str, Total] = {}
        """Totals of the latest line, by rank."""
        self._each: dict[str, float] = {}
        """Samples of a step by the latest totals, by rank; a line may lack a total."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        """Return the readers by line kind."""
        records = self._family.records
        others = super().rules()[len(records) :]
        own = [LineRule(rule.needle, functools.partial(self.totals, rule)) for rule in records]
        return [*own, *others]

    def totals(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        """Read the totals of a line."""
        for match in rule.matches(line.text):
            record = self.record(rule, line, match)
            if record is not None:
                yield record

    def groups(self, rule: RecordRule, match: Match) -> dict[str, Any]:
        """Return the groups of a match, converted."""
        return rule.groups(match)

    def seconds_between(self, before: float, now: float) -> float | None:
        """Return the seconds from one elapsed time to a later one; None if the timer began anew."""
        return now - before if now >= before else None

    def record(self, rule: RecordRule, line: CleanLine, match: Match) -> Record | None:
        """Build the record of a match; None if it is the first of its totals, or invalid."""
        texts = self.groups(rule, match)
        iteration = number_in(texts.get("iteration"))
        if iteration is None or not math.isfinite(iteration):
            return None
        now = Total(iteration, positive(texts.get("elapsed")), positive(texts.get("all_samples")))
        return self._record(rule, line, match[0], texts, now)

    def _record(
        self, rule: RecordRule, line: CleanLine, printed: str, texts: dict[str, Any], now: Total
    ) -> Record | None:
        before = self.before.get(line.source)
        has_time = now.elapsed is not None
        if before is None or before.iteration >= now.iteration:
            self.before[line.source] = now
            if before is None and has_time:
                return None
            iterations = max(now.iteration + 1 - rule.first_iteration, 1)
            # A copy, or a program that began anew: what it took does not count.
            if has_time:
                texts["step_seconds"] = (now.elapsed or 0.0) / iterations
            if now.samples is not None and texts.get("step_samples") is None:
                texts["step_samples"] = now.samples / iterations
            return rule.build(line, printed, texts)
        added = now.iteration - before.iteration
        steps = None
        if has_time:
            time = self.seconds_between(before.elapsed or 0.0, now.elapsed or 0.0)
            if time == 0:
                return None  # within the resolution: the next line has this one's steps, too
            if time is not None:
                texts["step_seconds"] = time / added
                steps = round(added)
        self.before[line.source] = now._replace(samples=now.samples or before.samples)
        if now.samples is not None and before.samples is not None and now.samples > before.samples:
            self._each[line.source] = texts["step_samples"] = (now.samples - before.samples) / added
        elif not texts.get("step_samples"):
            texts["step_samples"] = self._each.get(line.source)
        return rule.build(line, printed, texts, steps)
