"""The records of one rank, taken in one pass: what they cover, their sums, and what is odd.

Everything is accumulated while the records come; only the rate of each counted record is kept,
eight bytes each, for the median. All sums are in the unit of the shape's deciding number (seconds
per iteration, or seconds per sample for printed rates): the job's GPUs and batch, which may become
known late, are one factor at the end.
"""

from __future__ import annotations

import enum
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Literal

from k8sbench.measure.run.distances import Distances
from k8sbench.measure.run.log_clock import LONG, Leap, LogClock
from k8sbench.measure.run.occurrences import Occurrence, Occurrences
from k8sbench.measure.run.record_digest import RecordDigest
from k8sbench.measure.run.redundancy import Epoch, Products
from k8sbench.measure.run.tally import Tally, Window
from k8sbench.model.sample import Record
from k8sbench.parse.together import Columns

ROUNDED = 1e-4
"""Relative error of a number of steps that follows from printed numbers."""


class Replay(enum.Enum):
    """Why a log goes through iterations that it has been through."""

    COPY = "another rank printed them too"
    AGAIN = "the program was restarted"
    BACK = "without a known reason"


Oddity = Literal[
    "coarse",
    "repeated",
    "copied",
    "redone",
    "back",
    "not-finite",
    "not-finite-early",
    "product",
]
"""What may be odd about a record, beyond its numbers."""


class RankSeries:
    """Accumulates one rank's records in the order of the log."""

    def __init__(self, first: Record, window: Window, source: str) -> None:
        shape = first.shape
        self.shape = shape
        self.window = window
        self.source = source
        self._by_rate = shape.number == "rate"
        self._running = shape.averaged == "running"
        self._single = shape.averaged == "step"
        self._by_epoch = shape.numbering == "epoch"

        # Where the log stands.
        self.position = 0
        """Last iteration of the run that a record covered."""
        self._epoch: int | None = None
        self._base = 0
        """Iterations of the run before this epoch."""
        self._bases: dict[int, int] = {}
        self._previous = 0
        """Iteration of the record before, as numbered in the log."""
        self._mean_total = 0.0
        """Running mean times the iterations it covers, at the record before."""
        self._untimed = 0
        """Iterations of the epoch before its running mean: some programs time no first step, and
        their first line is of the second."""
        self._furthest = (0, 0.0)
        """Both of these at the record that led furthest."""
        self.resumed = False
        """Whether the program or the file began anew between two records."""
        self.unprinted = 0
        """Iterations that are known to have run, and of which a restart lost the line."""
        self._pending: tuple[Record, str, bool, bool] | None = None
        self._replay: Replay | None = None
        self.distances = Distances(shape, window)
        self.opening: Occurrence | None = None
        """The first record; None where the log resumes a run."""
        self._opening_position = 0
        self._skipped_epochs = 0

        # Everything that was read.
        self.seen = 0
        self.total: int | None = None
        """Planned iterations by the last record, whether it led further or not."""
        self.all_records = 0
        self.first_stamp: float | None = None
        self.last_stamp: float | None = None
        self.last_loss: float | None = None
        self.planned: int | None = None
        """Planned iterations by the records: of the run, or of the epoch."""
        self.memory_mib: float | None = None
        self.products = Products()
        self.epoch = Epoch(None)
        self._digest = RecordDigest()

        self.tally = Tally(shape)
        self.clock = LogClock(shape)
        self.odd: defaultdict[Oddity, Occurrences] = defaultdict(Occurrences)

    def add(self, record: Record, file: str, *, events: bool, restart: bool) -> None:
        """Add the next record.

        ``events``: an evaluation or a checkpoint lay between it and the record before.
        ``restart``: the program, or the file, began anew there.
        """
        self.seen += 1
        self.total = record.total
        if self._pending is not None:
            first, self._pending = self._pending, None
            self._add(*first, upto=_distance(first[0], record))
        elif self.all_records == 0 and self._averages_intervals(record):
            # How many iterations it covers shows in the distance to the second record.
            self._pending = (record, file, events, restart)
            return
        self._add(record, file, events, restart, upto=None)

    def add_together(self, some: Columns, record: Callable[[int], Record], file: str) -> bool:
        """Add records between which nothing happened; ``record`` gives one of them.

        False, and nothing is added, where one of them is not simply the next one after the one
        before: :meth:`add` takes them one by one.
        """
        rates, seconds, stamps = some.rates, some.seconds, some.stamps
        tally, clock, window, count = self.tally, self.clock, self.window, len(some.texts)
        stride = some.steps or self.usual
        first = self._previous + stride
        ordinary = (
            some.shape is self.shape
            and (self._pending, self._replay) == (None, None)
            and (some.epoch == self._epoch or not self._by_epoch)
            and tally.begun
            and stride > 0
            and self._base + first > self.position
            and some.iterations == list(range(first, first + stride * count, stride))
        )
        begin = self._base + self._previous
        end = begin + stride * count
        within = begin >= window.warmup and end <= window.end
        if not ordinary or not (within or begin + stride > window.end) or stamps is None:
            return False
        passed = clock.passed(stamps)
        paces = [1 / rate for rate in rates or ()] if self._by_rate else seconds
        if passed is None or not paces:
            return False
        times = [stride * pace for pace in paces]
        samples = list(map(operator.mul, rates, seconds)) if rates and seconds else None
        if samples and seconds and not self.products.fit(samples, seconds):
            return False

        # All of them are ordinary: from here on they are added.
        last = record(count - 1)
        self.seen += count
        self.all_records += count
        self.total = some.total
        if some.total is not None:
            self.planned = some.total
        if some.steps is None:
            self.distances.same(count)
        self.position, self._previous = end, some.iterations[-1]
        self._furthest = (self._previous, self._mean_total)
        self._digest.extend(some.texts)
        self.last_stamp = clock.latest = stamps[-1]
        if some.losses:
            self.last_loss = some.losses[-1]
        if some.memory_mib is not None and some.memory_mib > (self.memory_mib or 0.0):
            self.memory_mib = some.memory_mib
        self.epoch.records += count
        self.epoch.last = last
        self.epoch.rates = sum(rates or (), self.epoch.rates)
        if samples and seconds:
            self.products.take(samples, seconds)
        if within:
            clock.compare_together(
                lambda at: Occurrence(file, record(at), begin + stride * (at + 1)),
                *(begin, stride, times, passed),
            )
            tally.count_together(last, end, stride, times)
            tally.files = (tally.files[0], file)
            if some.taken:
                tally.delays.extend(map(operator.sub, some.taken, stamps))
            if some.waits:
                tally.wait(some.waits, times)
        return True

    def close(self) -> None:
        """The log is over."""
        if self._pending is not None:
            first, self._pending = self._pending, None
            self._add(*first, upto=None)

    def end_epoch_at(self, iteration: int) -> None:
        """Take the end of an epoch that the log states outside its records."""
        if self.all_records and self._replay is None:
            self.position = max(self.position, self._base + iteration)

    def resume_after(self, iteration: int) -> None:
        """Take a restart that goes on after an iteration: those since the last record ran, too."""
        if self.all_records and iteration > self.position:
            self.unprinted += max(iteration - max(self.position, self.window.warmup), 0)
            self.position = self._previous = iteration
            self._furthest = (iteration, 0.0)
            self._replay = None

    def end_epoch(self, values: Mapping[str, float | str | None]) -> None:
        """Take the log's own total of an epoch: it covers all its steps, printed or not."""
        total, steps = values.get("sum_seconds"), self.steps_of(values)
        if self._replay is not None or steps is None or not isinstance(total, float):
            return
        if self.epoch.ended:
            return
        self.epoch.ended = True
        tally, window = self.tally, self.window
        begin = self._base + self.shape.skips
        end = begin + steps
        if self._running:
            whole = self._previous <= self.shape.skips
            covered = steps if whole else end - self.position
            time = total if whole else total - self._mean_total
            if covered <= 0:
                return
            if end - covered >= window.warmup and end <= window.end:
                tally.extend(end, covered, time)
            self._previous, self._mean_total = end - self._base, total
            self._furthest = (self._previous, self._mean_total)
        elif begin >= window.warmup and end <= window.end and self.fits(steps):
            # The unit is that of printed rates: seconds per sample, times iterations.
            tally.add_epoch(begin + 1, end, total / self._batch)
        self.position = max(self.position, end)

    def steps_of(self, values: Mapping[str, float | str | None]) -> int | None:
        """Steps that an epoch's total covers: its sum by its mean, or its samples by the batch."""
        total, mean = values.get("sum_seconds"), values.get("mean_seconds")
        rate = values.get("all_steps_rate") or values.get("mean_rate")
        if not isinstance(total, float) or not 0 < total < math.inf:
            return None
        if self._running and isinstance(mean, float) and mean > 0:
            return round(total / mean)
        if self._single and isinstance(rate, float) and rate > 0 and self._batch:
            return round(rate * total / self._batch)
        return None

    def fits(self, steps: int) -> bool:
        """Whether an epoch of so many steps ends between its last record and the next one."""
        tail = steps + self.shape.skips - self._previous
        # The total is rounded, and whether it leaves out the first steps differs by generation.
        slack = 1 + ROUNDED * steps
        return -slack <= tail and (not self.usual or tail < self.usual + self.shape.skips + slack)

    @property
    def samples_steps(self) -> bool:
        """Whether only some of the steps are printed, each for itself."""
        return self._single and self.usual != 1

    @property
    def _batch(self) -> int:
        """Samples of a step by its rate and seconds; 0 where they are not printed."""
        return round(self.products.batch or 0)

    def begins_with(self, record: Record) -> bool:
        """Whether a record is of iterations that the log began with, or of earlier ones."""
        epoch = (record.epoch or 0) <= min(self._bases, default=math.inf)
        return epoch and record.iteration <= self._opening_position

    @property
    def goes_back(self) -> bool:
        """Whether the log goes through iterations again, without a known reason."""
        return self._replay is Replay.BACK

    @property
    def copies(self) -> bool:
        """Whether the log repeats what another rank printed."""
        return self._replay is Replay.COPY

    def _averages_intervals(self, record: Record) -> bool:
        return record.steps is None and not self._running and not self._single

    def _add(
        self, record: Record, file: str, events: bool, restart: bool, *, upto: int | None
    ) -> None:
        opens = self.all_records == 0
        turns = self._by_epoch and record.epoch != self._epoch and self._turn(record, file, opens)
        iteration = record.iteration
        position = self._base + iteration
        if position <= self.position and not turns:
            self._look_back(record, file, position, restart)
            return
        if self._replay is not None:
            # Caught up with where the log had been: from here on it is new.
            if self._replay is not Replay.COPY:
                restart = True
            elif not turns:
                self._previous, self._mean_total = self._furthest
            self._replay = None
        distance = iteration - self._previous
        covered, time = self._covers(record, distance, upto)
        if opens:
            self._opening_position = position
            if not restart:
                self.opening = Occurrence(file, record, position - covered)
        elif distance == self.usual and not turns and record.steps is None:
            self.distances.same()
        else:
            self._miss(
                self.distances.add(distance, record, file, position, turns=turns, events=events)
            )
        self.all_records += 1
        self.position = position
        self._previous = iteration
        self._furthest = (iteration, self._mean_total)
        self._note(record, file, position)

        window, starts_at = self.window, position - covered
        counts = starts_at >= window.warmup and position <= window.end
        # Between two epochs an evaluation lies in no record's time.
        steady = not (record.holds or restart or (events and self.shape.holds_events and not turns))
        stamp, clock = record.stamp, self.clock
        passed = clock.advance(stamp, record.paused)
        self.resumed |= restart and not opens
        if passed is not None and not restart:
            alone = steady and not (opens or turns or events)
            alone = alone and (covered == distance or self._single)
            whole = time * distance if self._single else time
            if not clock.earliest <= passed < LONG:
                found = Occurrence(file, record, position)
                clock.leap(Leap(found, passed, whole, alone, counts))
            elif alone and counts:
                clock.compare(record, file, position, distance, whole, passed)
        if not counts:
            if starts_at < window.warmup:
                self.tally.began = stamp
            return
        if time <= 0:
            self.odd["coarse"].add(file, record, position)
        self.tally.count(record, position, covered, time, steady=steady, file=file)
        if not steady:
            self.tally.left_out.add(file, record, position)

    def _turn(self, record: Record, file: str, opens: bool) -> bool:
        """Go to the epoch of a record; True if it is one that the log had not reached yet."""
        epoch, total = record.epoch, record.total or 0
        number = epoch or 0
        new = number not in self._bases and (not self._bases or number > max(self._bases))
        if opens:
            # A log that begins in a later epoch: only the total shows where that lies.
            self._skipped_epochs = max(number - self.shape.first_epoch, 0)
            self._base = self._skipped_epochs * total
        elif new:
            last = max(self._bases)
            tail = total - self._previous
            if self._replay is None and self.usual and (tail >= self.usual or number > last + 1):
                missing = max(tail, self.usual)
                at = self.position + missing
                self.distances.gap(missing + self.usual, record, file, at, self.usual)
                self._miss(True)
            self._base = max(self._bases[last] + total * (number - last), self.position)
        else:
            self._base = self._bases.get(number, 0)
        if new:
            self._bases[number] = self._base
            self.epoch = Epoch(epoch)
        self._epoch = epoch
        self._previous, self._mean_total = 0, 0.0
        return new

    def _look_back(self, record: Record, file: str, position: int, restart: bool) -> None:
        """A record that leads no further than the log was already; it counts once, or not at all.

        It is another rank's copy, work that was done again after a restart, or a log that goes
        back: three different findings.
        """
        if self._replay is None:
            if position == self.position and not restart:
                self.odd["repeated"].add(file, record, position)
                return
            stamp, last = record.stamp, self.clock.latest
            earlier = stamp is not None and last is not None and stamp < last
            if earlier and position == self._opening_position and self._ended_before(record):
                earlier = False
            if earlier or (restart and stamp is None and position == self._opening_position):
                self._replay = Replay.COPY
                self.odd["copied"].add(file, record, position)
            elif restart:
                self._replay = Replay.AGAIN
                self.odd["redone"].add(file, record, position)
            else:
                self._replay = Replay.BACK
                self.odd["back"].add(file, record, position)
        self._previous = record.iteration
        if self._running:
            self._mean_total = self._mean(record) * self._behind_mean(record.iteration)
        if record.stamp is not None and self._replay is not Replay.COPY:
            self.clock.latest = record.stamp

    def _ended_before(self, record: Record) -> bool:
        """Whether a log that begins like this one, of about its length, was over as it began."""
        stamp, first, last = record.stamp, self.first_stamp, self.last_stamp
        if stamp is None or first is None or last is None:
            return False
        return first - stamp > max(last - first, 0.0)

    def _covers(self, record: Record, distance: int, upto: int | None) -> tuple[int, float]:
        """Iterations that a record covers, and the time of all of them together."""
        if self._running:
            if self._previous == 0:
                self._untimed = int(self.shape.skips > 0 and record.iteration == 2)
                distance -= self._untimed
            behind = self._behind_mean(record.iteration)
            total = self._mean(record) * behind
            if self._previous <= self.shape.skips < record.iteration:
                # The mean began anew in between, or here.
                covered, time = behind, total
            else:
                covered, time = distance, total - self._mean_total
            self._mean_total = total
            return covered, time
        pace = 1 / record.rate if self._by_rate and record.rate else record.seconds or 0.0
        if record.steps is not None:
            # After a restart some of its steps may be in an earlier record, too.
            covered = min(record.steps, self._base + record.iteration - self.position)
            return covered, covered * pace
        if self._single:
            return 1, pace
        limit = upto or self.usual
        covered = min(distance, limit) if limit else distance
        return covered, covered * pace

    def _mean(self, record: Record) -> float:
        """The running mean, seconds per iteration or per sample."""
        if self._by_rate:
            return 1 / record.rate if record.rate else 0.0
        return record.mean_seconds or 0.0

    def _behind_mean(self, iteration: int) -> int:
        """Number of iterations that the running mean covers."""
        skips = self.shape.skips
        return iteration - skips if iteration > skips else iteration - self._untimed

    def _miss(self, is_missing: bool) -> None:
        self.epoch.complete &= not is_missing

    @property
    def usual(self) -> int:
        """Iterations from one record to the next, most often."""
        return self.distances.usual

    @property
    def missing(self) -> Occurrences:
        """Records before which iterations of the window are in no record."""
        opening = self.opening
        is_late = opening is not None and self._starts_late(opening)
        return self.distances.missing(opening if is_late else None)

    def _starts_late(self, opening: Occurrence) -> bool:
        """Whether the log begins after its window does; ``position``: iterations before it."""
        if self._skipped_epochs:
            return True
        slack = self.usual if self._single else 0
        return not self._running and opening.position > self.window.warmup + slack

    def _note(self, record: Record, file: str, position: int) -> None:
        self._digest.add(record.text)
        stamp = record.stamp
        if stamp is not None:
            self.last_stamp = stamp
            if self.first_stamp is None:
                self.first_stamp = stamp
        if record.total is not None:
            self.planned = record.total
        loss = record.loss
        if loss is not None:
            self.last_loss = loss
            if not math.isfinite(loss):
                early = position <= self.window.warmup
                self.odd["not-finite-early" if early else "not-finite"].add(file, record, position)
        memory = record.memory_mib
        if memory is not None and memory > (self.memory_mib or 0.0):
            self.memory_mib = memory
        epoch, rate = self.epoch, record.rate
        epoch.records += 1
        epoch.last = record
        if rate is not None:
            epoch.rates += rate
            seconds = record.seconds or record.mean_seconds
            if seconds is not None:
                other = self.products.add(record, file, position, rate, seconds)
                if other is not None:
                    self.odd["product"].add(*other)

    @property
    def digest(self) -> str:
        """SHA-256 over the records as printed."""
        return self._digest.hex()


def _distance(first: Record, second: Record) -> int | None:
    """Iterations from the log's first record to its second, if they stand in one epoch."""
    by_epoch = first.shape.numbering == "epoch"
    if (by_epoch and first.epoch != second.epoch) or second.iteration <= first.iteration:
        return None
    return second.iteration - first.iteration
