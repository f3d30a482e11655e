"""Sums and last values over the records of one rank that lead further, taken batch by batch."""

from __future__ import annotations

import hashlib
import math

import msgspec

from k8sbench.measure.run.log_clock import LogClock
from k8sbench.measure.run.occurrences import Occurrence, Occurrences
from k8sbench.measure.run.tally import CountedSteps, RecordBatch, Tally
from k8sbench.model.sample import Record, Shape

PRODUCT = 0.02
"""Relative difference of the products of rate and seconds of two records of one batch …"""
MILLISECOND = 0.0011
"""The last digit of a printed time, seconds."""
ROUNDING = 0.002
"""… and what their last digits may add, in seconds."""


class Epoch(msgspec.Struct):
    """The records of the current epoch, for the log's own summary of it."""

    number: int | None
    records: int = 0
    rates: float = 0.0
    last: Record | None = None
    complete: bool = True
    """Whether no record of it is missing."""
    ended: bool = False
    """Whether the log has summed it up; each rank may print that."""


class Products(msgspec.Struct):
    """Rate times seconds of the records that print both: their batch."""

    batch: float | None = None
    """Of the record with the longest iteration, where rounding matters least."""
    _longest: float = 0.0
    _first: float = 0.0
    _other: Occurrence | None = None
    """The record before, if its product is not the first one's."""

    def add(self, line: Occurrence) -> Occurrence | None:
        """Add a record; return the one before it if that is of another batch than the first.

        The last batch of an epoch may be smaller.
        """
        record = line.record
        seconds = record.seconds or record.mean_seconds
        if record.rate is None or seconds is None:
            return None
        samples = record.rate * seconds
        if seconds > self._longest:
            self._longest, self.batch = seconds, samples
        other, self._other = self._other, None
        if not self._first:
            self._first = samples
        elif abs(samples - self._first) > (PRODUCT + ROUNDING / seconds) * self._first:
            self._other = line
        if other is None or other.record.shape.numbering == "run":
            return other
        return other if other.record.epoch == record.epoch else None


class RankSums:
    """What the records of a rank add up to, and what is odd about their numbers."""

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
        self.other_batches = Occurrences()
        """Records whose rate times seconds is another batch than the first one's."""
        self.odd_means = Occurrences()
        """First steps of an epoch whose running mean is not their own time."""
        self._is_running = shape.averaged == "running" and not shape.skips
        self._warmup = window.warmup
        self._digest = hashlib.sha256()

    def add(self, batch: RecordBatch) -> None:
        """Add records that lead further."""
        records = batch.records
        text = "".join([record.text for record in records])
        self._digest.update(text.encode("utf-8", "replace"))
        if batch.kind.stamped:
            self.last_stamp = records[-1].stamp
            if self.first_stamp is None:
                self.first_stamp = records[0].stamp
        if totals := [record.total for record in records if record.total is not None]:
            self.planned = totals[-1]
        if losses := [record.loss for record in records if record.loss is not None]:
            self.last_loss = losses[-1]
            if not math.isfinite(sum(losses)):
                self._note_losses(batch)
        if memory := [record.memory_mib for record in records if record.memory_mib is not None]:
            self.memory_mib = max(self.memory_mib or 0.0, *memory) or None
        epoch = self.epoch
        epoch.records += len(records)
        epoch.last = records[-1]
        if rates := [record.rate for record in records if record.rate is not None]:
            epoch.rates = sum(rates, epoch.rates)
            is_timed = any(record.seconds or record.mean_seconds for record in records)
            for line in batch.lines() if is_timed else ():
                other = self.products.add(line)
                if other is not None:
                    self.other_batches.add(other)
        if self._is_running:
            self._compare_means(batch)
        if batch.kind.counts:
            self.tally.count(batch)
        if batch.kind.compares:
            self.clock.compare(batch)

    def _compare_means(self, batch: RecordBatch) -> None:
        for line in batch.lines():
            step, mean = line.record.seconds, line.record.mean_seconds
            if line.record.iteration == 1 and step and mean and abs(step - mean) > MILLISECOND:
                self.odd_means.add(line)

    def _note_losses(self, batch: RecordBatch) -> None:
        for line in batch.lines():
            if line.record.loss is not None and not math.isfinite(line.record.loss):
                early = line.position <= self._warmup
                (self.odd_losses_early if early else self.odd_losses).add(line)

    @property
    def digest(self) -> str:
        """SHA-256 over the records as printed."""
        return self._digest.hexdigest()
