"""Sums over the records of one rank, and their distances."""

from __future__ import annotations

import heapq
import math
import statistics
from array import array
from typing import NamedTuple

import msgspec

from k8sbench.model.sample import Place, Record, Shape
from k8sbench.reader.measuring.evidence import MANY, Occurrence, Occurrences
from k8sbench.reader.measuring.record_digest import RecordDigest

FEWEST_RECORDS = 5
"""In a window that is measured, and for a check of many lines."""

HALF = 0.5
"""Share of a line's time from which it is one that waited for data."""
MOST_QUOTED = 5
"""Slowest lines that are evidence."""
_WAITING = 1
_EVENT = 2


class CountedSteps(NamedTuple):
    """The iterations that count: those after the first ``warmup``, up to and with ``end``."""

    warmup: int
    end: float
    """``math.inf``: all."""
    begin: int = 0
    """Iterations before the log, of a run that it resumes; ``warmup`` includes them."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record that leads further, and what it covers."""

    line: Occurrence
    distance: int
    """Iterations since the record before."""
    covered: int
    time: float
    """Time of all covered iterations, in the deciding number's unit."""
    printed: tuple[int, float]
    """Iterations that the number on its line is of, and their time."""
    at: float | None
    """Its stamp, on the log's clock."""
    passed: float
    """Seconds since the record before by the stamps; 0 where they do not tell."""
    counts: bool
    """True if all covered iterations lie in the window."""
    steady: bool
    """True if its time holds only training."""
    compares: bool
    """True if only this record lies between the last two stamps."""
    explained: bool
    """True if the log states more than training since the record before.

    An epoch's end, an evaluation, a checkpoint or a restart.
    """


class Span(NamedTuple):
    """Iterations of a figure, and their time in the deciding number's unit."""

    first: int
    last: int
    iterations: int
    time: float


class Stamped(msgspec.Struct, frozen=True, gc=False):
    """Counted record with a stamp, and the sums up to it."""

    position: int
    stamp: float
    iterations: int
    time: float
    paused: float
    """Seconds that the records say their times leave out."""

    def seconds_to(self, last: Stamped) -> float:
        """Time up to a later record, without stated pauses."""
        return last.stamp - self.stamp - (last.paused - self.paused)


class StatedSteps:
    """Samples of the job's steps, where the counted lines state them."""

    def __init__(self) -> None:
        self._samples = 0.0
        self._iterations = 0
        self._all = True
        self.least, self.most = math.inf, 0.0

    def add(self, samples: float | None, iterations: int) -> None:
        """Add a line: samples of a step, and the iterations that it covers."""
        if samples is None:
            self._all = False
            return
        self._samples += samples * iterations
        self._iterations += iterations
        self.least = min(self.least, samples)
        self.most = max(self.most, samples)

    @property
    def mean(self) -> float | None:
        """Samples per step over the window; None unless every line states them."""
        return self._samples / self._iterations if self._all and self._iterations else None

    @property
    def vary(self) -> bool:
        """True if the batch changes in the window."""
        return self.mean is not None and self.most > self.least * (1 + SAME_STEP)


class ProgramWords:
    """Means of what the program itself says of its arithmetic, over the counted iterations."""

    def __init__(self) -> None:
        self._sums = {"mfu": 0.0, "tflops": 0.0}
        self._counts = {"mfu": 0, "tflops": 0}

    def add(self, record: Record, iterations: int) -> None:
        """Add a line, and the iterations that it covers."""
        for name, said in (("mfu", record.mfu), ("tflops", record.tflops)):
            if said is not None:
                self._sums[name] += said * iterations
                self._counts[name] += iterations

    def mean(self, name: str) -> float | None:
        """Return the mean of ``mfu`` (percent) or ``tflops`` (per GPU); None if not printed."""
        return self._sums[name] / self._counts[name] if self._counts[name] else None


class Trend:
    """The way of the printed numbers from line to line."""

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = 0.0
        self.always_rises = True
        """True until a number is not above the one before."""

    def add(self, number: float | None) -> None:
        """Add the number of the next line; a line without one changes nothing."""
        if number is None:
            return
        self.first = number if self.count == 0 else self.first
        self.always_rises &= self.count == 0 or number > self.last
        self.last = number
        self.count += 1


class SlowLines(NamedTuple):
    """Lines that took over twice the median, and what they hold."""

    number: int
    of: int
    """Lines of the window."""
    waiting: int
    """Those that waited for data for over half of their time."""
    events: int
    """Those that hold an evaluation, a checkpoint or a restart."""


class Lines:
    """Rates of the counted lines, and what each held beside training."""

    def __init__(self) -> None:
        self.rates = array("d")
        self._held = bytearray()
        self._slowest: list[tuple[float, int, Occurrence]] = []

    def add(self, rate: float, line: Occurrence, *, steady: bool) -> None:
        """Add a line."""
        waiting = line.record.waiting or 0.0
        self._held.append(_EVENT if not steady else _WAITING if waiting > HALF else 0)
        if steady:
            heapq.heappush(self._slowest, (-rate, len(self.rates), line))
        self.rates.append(rate)
        if len(self._slowest) > MOST_QUOTED:
            heapq.heappop(self._slowest)

    def slow(self) -> SlowLines:
        """Count the lines that took over twice the median."""
        limit = statistics.median(self.rates) / 2
        found = [number for number, rate in enumerate(self.rates) if rate < limit]
        held = [self._held[number] for number in found]
        return SlowLines(
            number=len(found),
            of=len(self.rates),
            waiting=held.count(_WAITING),
            events=held.count(_EVENT),
        )

    @property
    def slowest(self) -> list[Place]:
        """The slowest lines of training alone, in the order of the log, as evidence.

        Empty if none took over twice the median.
        """
        limit = statistics.median(self.rates) / 2
        lines = sorted(self._slowest, key=lambda each: each[1])
        return [line.place for rate, _, line in lines if -rate < limit]


class Tally:
    """Sums over the counted records, in the unit of the shape's deciding number."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.records = 0
        self.iterations = 0
        self.time = 0.0
        self.printed_iterations = 0
        self.printed_time = 0.0
        self.steady_iterations = 0
        self.steady_time = 0.0
        self.lines = Lines()
        self._waiting = 0.0
        self._waiting_time = 0.0
        self.first_iteration: int | None = None
        self.last_iteration: int | None = None
        self._paused = 0.0
        self.steps = StatedSteps()
        self.words = ProgramWords()
        self.trend = Trend()
        self.negative = Occurrences()
        """Lines of running means that would have taken less than no time."""
        self.stamped: tuple[Stamped, Stamped] | None = None
        """The first and the last record that carry a stamp.

        Of records that say which steps they cover, the first is the last one before the window.
        """
        self.first: Occurrence | None = None
        self.last: Occurrence | None = None
        self.began: float | None = None
        """Stamp of the last record before the window."""
        self.left_out = Occurrences()
        """Records that hold more than training."""
        self._epochs: Span | None = None
        """The epochs of which the log states a total, where it prints single steps."""

    def open(self, line: Occurrence, at: float | None) -> None:
        """Begin the window with the end of a record before it."""
        self.began = at
        if at is not None and line.record.steps is not None:
            before = Stamped(line.position, at, 0, 0.0, 0.0)
            self.stamped = (before, before)

    def count(self, entry: Entry) -> None:
        """Count a record of the window."""
        line, covered, time = entry.line, entry.covered, entry.time
        record, position = line.record, line.position
        if self._shape.spoils_steps and not entry.steady:
            self.left_out.add(line)
            return
        self.extend(position, covered, time, steady=entry.steady)
        self.steps.add(record.step_samples, covered)
        self.words.add(record, covered)
        self.trend.add(record.rate if self._shape.is_rate else record.seconds)
        printed, own_time = entry.printed
        self.printed_iterations += printed
        self.printed_time += own_time
        self._paused += record.paused
        if not entry.steady:
            self.left_out.add(line)
        if entry.at is not None:
            last = Stamped(position, entry.at, self.iterations, self.time, self._paused)
            self.stamped = (self.stamped[0] if self.stamped else last, last)
        if own_time <= 0 and self._shape.averaged != "last":
            # The last digit of a running mean is more than the record's time. What it lacks the
            # next one has: the sums need both, and it has no rate of its own.
            if own_time < 0:
                self.negative.add(line)
            return
        self.records += 1
        rate = self._shape.own_rate(record)
        if rate is None:
            rate = printed / own_time
        self.lines.add(rate, line, steady=entry.steady)
        if entry.steady and record.waiting is not None:
            # An evaluation counts as a wait for the data of the iteration after it.
            self._waiting += record.waiting * time
            self._waiting_time += time
        self.last = line
        self.first = self.first or line

    def extend(self, position: int, covered: int, time: float, *, steady: bool = True) -> None:
        """Count iterations up to ``position``, of a record or an epoch's total."""
        self.iterations += covered
        self.time += time
        if steady:
            self.steady_iterations += covered
            self.steady_time += time
        if self.first_iteration is None:
            self.first_iteration = position - covered + 1
        self.last_iteration = position

    def add_epoch(self, first: int, last: int, time: float) -> None:
        """Count all steps of an epoch, printed or not."""
        known = self._epochs or Span(first, last, 0, 0.0)
        iterations = known.iterations + last - first + 1
        self._epochs = Span(known.first, last, iterations, known.time + time)

    @property
    def printed_alone(self) -> bool:
        """True if the figure covers no more iterations than the printed numbers."""
        return not self.all_steps and self.iterations <= self.printed_iterations

    @property
    def all_steps(self) -> bool:
        """True if epoch totals cover steps that are not printed."""
        return self._epochs is not None

    @property
    def span(self) -> Span | None:
        """Iterations and time of the time-weighted figure; None without any."""
        if self._epochs is not None:
            return self._epochs
        if self.first_iteration is None or self.last_iteration is None:
            return None
        return Span(self.first_iteration, self.last_iteration, self.iterations, self.time)

    @property
    def waiting(self) -> float | None:
        """Share of the steady time that was spent waiting for data."""
        return self._waiting / self._waiting_time if self._waiting_time else None

    @property
    def stamps(self) -> tuple[float | None, float | None]:
        """Begin and end of the window; None if no stamp shows them."""
        if self.stamped is None:
            return self.began, None
        first, last = self.stamped
        return first.stamp if self.began is None else self.began, last.stamp


class Distances:
    """Counts the distances between the records of one rank, in iterations.

    Which distance is the usual one shows while the records come: what seemed a gap before it was
    known may be none.
    """

    def __init__(self, shape: Shape, window: CountedSteps, every: int | None) -> None:
        self._shape, self._window = shape, window
        self._counts: dict[int, int] = {}
        self._gaps: dict[int, Occurrences] = {}
        self.stated = shape.iterations_per_line(every)
        """Iterations between two lines by the log's configuration; None: it does not tell."""
        self.usual = self.stated or 0
        """Most frequent distance of records, at most the stated one; 0 if unknown."""
        self._once: Occurrence | None = None
        """First record after the usual distance, which is no gap so far."""

    def move(self, window: CountedSteps) -> None:
        """Take another window, before the second record."""
        self._window = window

    def same(self) -> None:
        """Count the usual distance."""
        self._counts[self.usual] = self._counts.get(self.usual, 0) + 1

    def add(
        self, distance: int, line: Occurrence, *, turns: bool, ends: bool, events: bool
    ) -> bool:
        """Count a distance; True where iterations are in no record, which is kept.

        ``turns``: the record is the first of an epoch. ``ends``: it is the last of several.
        ``events``: an evaluation or a checkpoint lay before it.
        """
        if (steps := line.record.steps) is not None:
            if distance > steps:
                self.gap(distance, line, steps)
            return distance > steps
        if ends and distance < (self.usual or line.record.iteration - distance):
            # What an epoch has left after its last whole interval.
            return False
        # Every N iterations of an epoch: one line per epoch is the Nth, unless it is the first.
        begins = self._shape.averaged == "last" and not self.usual and distance > 1
        if not turns or begins:
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


SAME_STEP = 0.005
"""Relative difference of two steps' samples that rounding explains."""
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


class RankSums:
    """Sums and oddities of a rank's records."""

    def __init__(self, shape: Shape, window: CountedSteps) -> None:
        self.first_stamp: float | None = None
        self.last_stamp: float | None = None
        self.last_loss: float | None = None
        self.memory_mib: float | None = None
        self.batch: float | None = None
        """Rate times seconds of the record with the longest iteration.

        Of the records that print both; rounding matters least there.
        """
        self._longest = 0.0
        self._line_of_batch: Occurrence | None = None
        self.epoch = Epoch(None)
        self.tally = Tally(shape)
        self.odd_losses = Occurrences()
        """Losses that are not finite, after the warm-up."""
        self.odd_losses_early = Occurrences()
        """The same in the warm-up."""
        self._warmup = window.warmup
        self.digest = RecordDigest()

    def add(self, entry: Entry) -> None:
        """Add a record that leads further."""
        line, record = entry.line, entry.line.record
        self.digest.add(record)
        if entry.at is not None:
            self.last_stamp = entry.at
            if self.first_stamp is None:
                self.first_stamp = entry.at
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
            seconds = record.seconds or record.mean_seconds
            if seconds is not None and seconds > self._longest:
                self._longest = seconds
                self.batch = record.rate * seconds
                self._line_of_batch = line
        if entry.counts:
            self.tally.count(entry)

    def move(self, window: CountedSteps) -> None:
        """Take another window, before the first record."""
        self._warmup = window.warmup

    @property
    def line_of_batch(self) -> list[Place]:
        """The line that states the rate and the seconds of :attr:`batch`, as evidence."""
        return [] if self._line_of_batch is None else [self._line_of_batch.place]

    def has_other_batch(self, batch: float) -> bool:
        """True if the records have another batch, beyond rounding."""
        return abs((self.batch or batch) / batch - 1) > PRODUCT + ROUNDING / (self._longest or 1)
