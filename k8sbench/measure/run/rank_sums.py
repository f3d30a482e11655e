"""Sums over the records of one rank.

Also last values, distances, missing iterations, and unrolled running means.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import msgspec

from k8sbench.measure.run.evidence import MANY, Occurrence, Occurrences
from k8sbench.measure.run.log_clock import LogClock
from k8sbench.measure.run.tally import CountedSteps, Entry, Tally
from k8sbench.model.sample import Record, Shape


class Covered(NamedTuple):
    """Iterations, and what they took."""

    iterations: int
    seconds: float
    """Total time of all iterations; per sample, for printed rates."""


NOTHING = Covered(0, 0.0)


class RunningMean:
    """The running mean of one rank, as far as the log has printed it."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.printed = NOTHING
        """Iterations and time of the previous record's mean."""
        self._carried = 0
        """Iterations of the epoch before that the mean covers, too."""
        self._untimed = 0
        """Iterations before the epoch's mean begins.

        Some programs do not time the first step, and print a first line at the second.
        """

    def turn(self, total: int, *, goes_on: bool) -> None:
        """Start an epoch of ``total`` iterations.

        ``goes_on``: it follows the previous epoch in the same run.
        """
        if goes_on and self._shape.carries and self.printed.iterations:
            self._carried = max(total - self._shape.skips, 0)
        else:
            self._carried, self.printed = 0, NOTHING

    def replace(self, record: Record) -> None:
        """Take in a record that leads no further."""
        self.printed = self._of(record)

    def unroll(self, record: Record, previous: int) -> Covered:
        """Return what a record adds; ``previous`` is the iteration of the epoch's one before."""
        if previous == 0:
            self._untimed = int(self._shape.skips > 0 and record.iteration == 2)
        before, self.printed = self.printed, self._of(record)
        if previous <= self._shape.skips < record.iteration:
            # The mean began anew in between, or here.
            return self.printed
        return Covered(
            self.printed.iterations - before.iterations, self.printed.seconds - before.seconds
        )

    def _of(self, record: Record) -> Covered:
        iterations, skips = record.iteration, self._shape.skips
        if iterations > skips:
            iterations -= skips
        else:
            iterations += self._carried or -self._untimed
        if self._shape.number == "rate":
            mean = 1 / record.rate if record.rate else 0.0
        else:
            mean = record.mean_seconds or 0.0
        return Covered(iterations, mean * iterations)


class Distances:
    """Counts the distances between the records of one rank, in iterations.

    Which distance is the usual one shows while the records come: what seemed a gap before it was
    known may be none.
    """

    def __init__(self, shape: Shape, window: CountedSteps, every: int | None) -> None:
        self._shape, self._window = shape, window
        self._counts: dict[int, int] = {}
        self._gaps: dict[int, Occurrences] = {}
        self.stated = every if shape.averaged == "interval" else None
        """Iterations that a record averages by the log's configuration; None: it does not tell."""
        self.usual = self.stated or 0
        """Most frequent distance of records, at most the stated one; 0 if unknown."""
        self._once: Occurrence | None = None
        """First record after the usual distance, which is no gap so far."""

    def same(self) -> None:
        """Count the usual distance."""
        self._counts[self.usual] = self._counts.get(self.usual, 0) + 1

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
            counts[distance] = count = counts.get(distance, 0) + 1
            most = counts.get(self.usual, 0)
            if count > most or (count == most and distance < self.usual):
                if most == 1 and self._once is not None and distance < self.usual:
                    self.gap(self.usual, self._once, distance)
                self.usual = min(distance, self.stated or distance)
                self._once = None if events and self._shape.holds_events else line
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
        """Add a gap before a record, if it lies in the window."""
        if line.position > self._window.warmup and line.position - distance < self._window.end:
            self._gaps.setdefault(distance, Occurrences()).add(line, distance - usual)

    def missing(self, opening: Occurrence | None) -> Occurrences:
        """Records before which iterations of the window are in no record.

        ``opening`` is the log's first record, where that comes too late.
        """
        missing = Occurrences()
        for distance, occurrences in self._gaps.items():
            # What seemed far before the usual distance was known may be usual.
            if distance > self.usual:
                missing.count += occurrences.count
                missing.amount += occurrences.amount
                missing.first += occurrences.first
        if opening is not None:
            missing.count += 1
            missing.amount += max(opening.position - self._window.warmup, 1)
            missing.first.append(opening)
        missing.first = sorted(missing.first, key=lambda occurrence: occurrence.position)[:MANY]
        return missing


PRODUCT = 0.02
"""Relative difference of rate × seconds within one batch …"""
ROUNDING = 0.002
"""… and what their last digits may add, in seconds."""


class Epoch(msgspec.Struct):
    """The records of the current epoch, for the log's own summary of it."""

    number: int | None
    records: int = 0
    rates: float = 0.0
    complete: bool = True
    """True if none of its records is missing."""
    ended: bool = False
    """True if its summary was read; each rank may print one."""


class Products(msgspec.Struct):
    """Rate times seconds of the records that print both: their batch."""

    batch: float | None = None
    """Batch by the record with the longest iteration, where rounding matters least."""
    _longest: float = 0.0

    def differ(self, batch: int) -> bool:
        """True if the records have another batch, beyond rounding."""
        return abs((self.batch or batch) / batch - 1) > PRODUCT + ROUNDING / (self._longest or 1)

    def add(self, record: Record) -> None:
        """Add a record."""
        seconds = record.seconds or record.mean_seconds
        if record.rate is not None and seconds is not None and seconds > self._longest:
            self._longest, self.batch = seconds, record.rate * seconds


class RankSums:
    """Sums and oddities of a rank's records."""

    def __init__(self, shape: Shape, window: CountedSteps) -> None:
        self.first_stamp: float | None = None
        self.last_stamp: float | None = None
        self.last_loss: float | None = None
        self.planned: int | None = None
        """Planned iterations by the records: of the run, or of the epoch."""
        self.memory_mib: float | None = None
        self.products = Products()
        self.epoch = Epoch(None)
        self.tally = Tally(shape)
        self.clock = LogClock(shape)
        self.odd_losses = Occurrences()
        """Losses that are not finite, after the warm-up."""
        self.odd_losses_early = Occurrences()
        """The same in the warm-up."""
        self._warmup = window.warmup
        self.digest = hashlib.sha256()
        """Over the records as printed."""

    def add(self, entry: Entry) -> None:
        """Add a record that leads further."""
        line, record = entry.line, entry.line.record
        self.digest.update(record.text.encode("utf-8", "replace"))
        if entry.at is not None:
            self.last_stamp = entry.at
            if self.first_stamp is None:
                self.first_stamp = entry.at
        if record.total is not None:
            self.planned = record.total
        if record.loss is not None:
            self.last_loss = record.loss
            if not math.isfinite(record.loss):
                early = line.position <= self._warmup
                (self.odd_losses_early if early else self.odd_losses).add(line)
        if record.memory_mib:
            self.memory_mib = max(self.memory_mib or 0.0, record.memory_mib)
        epoch = self.epoch
        epoch.records += 1
        if record.rate is not None:
            epoch.rates += record.rate
            self.products.add(record)
        if entry.counts:
            self.tally.count(entry)
            self.clock.compare(entry)
