"""Lines that state totals: the time, or the samples, since the program began."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from k8sbench.model.notation import Match
from k8sbench.model.sample import Item, Record
from k8sbench.parse.family import (
    Family,
    LineReader,
    LineRule,
    RecordRule,
    number_in,
    positive,
)
from k8sbench.parse.lines import CleanLine


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

    times_process = False
    """True if the timer begins with the process: where it began anew, the run was resumed."""

    def __init__(self, family: Family) -> None:
        self._before: dict[str, Total] = {}
        """By rank."""
        self._each: dict[str, float] = {}
        """Samples of a step by the latest totals, by rank; a line may lack a total."""
        self._distance: dict[str, float] = {}
        """Steps from the line before to the latest one, by rank."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        """Return the readers by line kind."""
        records = self._family.records
        others = super().rules()[len(records) :]
        own = [LineRule(rule.needle, functools.partial(self._totals, rule)) for rule in records]
        return [*own, *others]

    def _totals(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        for match in rule.matches(line.text):
            before = self._before.get(line.source)
            record = self.record(rule, line, match)
            if record is not None and before is not None and self._is_resumed(line.source, before):
                yield line.mark("restart")
            if record is not None:
                yield record

    def _is_resumed(self, source: str, before: Total) -> bool:
        """True if the timer began anew since the line before, and the run did not."""
        now = self._before[source]
        if not self.times_process or now.elapsed is None or before.elapsed is None:
            return False
        if now.elapsed >= before.elapsed:
            return False
        return now.iteration > 2 * self._distance.get(source, math.inf)

    def record(self, rule: RecordRule, line: CleanLine, match: Match) -> Record | None:
        """Build the record of a match; None if it is the first of its totals, or invalid."""
        texts = rule.groups(match)
        iteration = number_in(texts.get("iteration"))
        if iteration is None:
            return None
        now = Total(iteration, positive(texts.get("elapsed")), positive(texts.get("all_samples")))
        return self._record(rule, line, match[0], texts, now)

    def _record(
        self, rule: RecordRule, line: CleanLine, printed: str, texts: dict[str, Any], now: Total
    ) -> Record | None:
        before = self._before.get(line.source)
        has_time = now.elapsed is not None
        if before is None or before.iteration >= now.iteration:
            self._before[line.source] = now
            if before is None and has_time:
                return None
            iterations = max(now.iteration + 1 - rule.first_iteration, 1)
            # A copy, or a program that began anew: what it took does not count.
            if has_time:
                texts["step_seconds"] = (now.elapsed or 0.0) / iterations
            if now.samples is not None and texts.get("step_samples") is None:
                texts["step_samples"] = now.samples / iterations
            return rule.built(line, printed, texts)
        added = now.iteration - before.iteration
        steps = None
        if has_time:
            time = (now.elapsed or 0.0) - (before.elapsed or 0.0)
            if time == 0:
                return None  # within the resolution: the next line has this one's steps, too
            if time > 0:
                self._distance[line.source] = added
            if time > 0 or self.times_process:
                texts["step_seconds"] = (time if time > 0 else now.elapsed or 0.0) / added
                steps = round(added)
        self._before[line.source] = now._replace(samples=now.samples or before.samples)
        if now.samples is not None and before.samples is not None and now.samples > before.samples:
            self._each[line.source] = texts["step_samples"] = (now.samples - before.samples) / added
        elif not texts.get("step_samples"):
            texts["step_samples"] = self._each.get(line.source)
        return rule.built(line, printed, texts, steps)
