"""How far the records of a rank are apart, and which iterations are in no record.

Which distance is the usual one shows while the records come: what seemed a gap before it was known
may be none.
"""

from __future__ import annotations

from k8sbench.measure.run.occurrences import MANY, Occurrence, Occurrences
from k8sbench.measure.run.tally import CountedSteps
from k8sbench.model.sample import Shape

DISTINCT = 256
"""Different distances between records that are distinguished; a log has two or three."""


class Distances:
    """Counts the distances between the records of one rank, in iterations."""

    def __init__(self, shape: Shape, window: CountedSteps) -> None:
        self._shape, self._window = shape, window
        self._counts: dict[int, int] = {}
        self._gaps: dict[int, Occurrences] = {}
        self.usual = 0
        """Iterations from one record to the next, most often."""

    def same(self, times: int = 1) -> None:
        """Count the usual distance."""
        self._counts[self.usual] += times

    def add(self, distance: int, line: Occurrence, *, turns: bool, events: bool) -> bool:
        """Count a distance; True where iterations are in no record, which is kept.

        ``turns``: the record is the first of an epoch. ``events``: an evaluation or a checkpoint
        lay before it.
        """
        if (steps := line.record.steps) is not None:
            if distance > steps:
                self.gap(distance, line, steps)
            return distance > steps
        if not turns:
            counts = self._counts
            if len(counts) < DISTINCT or distance in counts:
                counts[distance] = count = counts.get(distance, 0) + 1
                most = counts.get(self.usual, 0)
                if count > most or (count == most and distance < self.usual):
                    self.usual = distance
        elif self._shape.averaged == "running":
            # The first mean of an epoch covers all of it so far.
            return False
        if not self.usual or distance <= self.usual:
            return False
        # mmcv prints the evaluation in place of that iteration's record.
        explained = events and self._shape.holds_events and distance <= 2 * self.usual
        if not explained:
            self.gap(distance, line, self.usual)
        return not explained

    def gap(self, distance: int, line: Occurrence, usual: int) -> None:
        """Keep a record before which iterations are in no record, if they are of the window."""
        if line.position > self._window.warmup and line.position - distance < self._window.end:
            key = distance if len(self._gaps) < DISTINCT else -1
            self._gaps.setdefault(key, Occurrences()).add(line, distance - usual)

    def missing(self, opening: Occurrence | None) -> Occurrences:
        """Records before which iterations of the window are in no record.

        ``opening`` is the log's first record, where that comes too late.
        """
        missing = Occurrences()
        for distance, occurrences in self._gaps.items():
            # What seemed far before the usual distance was known may be usual.
            if distance > self.usual or distance < 0:
                missing.count += occurrences.count
                missing.amount += occurrences.amount
                missing.first += occurrences.first
        if opening is not None:
            missing.count += 1
            missing.amount += max(opening.position - self._window.warmup, 1)
            missing.first.append(opening)
        missing.first = sorted(missing.first, key=lambda occurrence: occurrence.position)[:MANY]
        return missing
