"""Records of one rank, accumulated in one pass.

Only the rate of each counted record is kept, eight bytes each, for the median. All sums are in the
unit of the shape's deciding number (seconds per iteration, or seconds per sample for printed
rates): the job's GPUs and batch, which may become known late, are one factor at the end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Literal

import msgspec

from k8sbench.measure.run.arrival import Arrivals
from k8sbench.measure.run.evidence import Occurrence, Occurrences
from k8sbench.measure.run.log_clock import LogClock
from k8sbench.measure.run.printed_means import Covered, LastMeans, RunningMean
from k8sbench.measure.run.rank_sums import CountedSteps, Distances, Entry, Epoch, RankSums
from k8sbench.model.sample import Mark, Record

FIRST = 40
"""Entries that are kept: a log of so few records may be measured anew."""
ROUNDED = 1e-4
"""Relative error of a number of steps that follows from printed numbers."""


Replay = Literal["repeated", "redone", "back"]
"""Cause of a record that does not advance the iteration.

``repeated``: a copy, or another rank's. ``redone``: the program was restarted. ``back``: unknown.
"""


class Epochs:
    """Iterations of a run before each of its epochs."""

    def __init__(self, first: Record) -> None:
        numbering = first.shape.numbering
        self.restart = numbering != "run"
        """True if iterations restart in each epoch, as far as known."""
        self._decided = numbering is not None
        self.first = first.shape.first_epoch_of(first)
        self.bases: dict[int, int] = {}
        """Epoch → iterations before it."""
        self._total = 0
        """Iterations of the latest epoch, which may differ by one; 0 if not stated."""
        self.current: int | None = None

    def turns(self, record: Record, previous: int) -> bool:
        """True if iterations restart at a record, in another epoch.

        ``previous`` is the iteration of the record before.
        """
        before, epoch = self.current, record.epoch
        if not self._decided and before is not None and epoch is not None and epoch > before:
            self._decided, self.restart = True, record.iteration <= previous
        return self.restart and epoch != before

    def labelled(self, record: Record, previous: int, usual: int) -> Record:
        """Correct the label of an epoch's first line, where it still is that of the epoch before.

        Some programs count the epoch after they print. ``previous`` is the iteration of the record
        before, ``usual`` the iterations from one record to the next.
        """
        epoch, total = record.epoch, record.total
        if epoch is None or epoch != self.current or not (total and usual and self.restart):
            return record
        # An iteration that this epoch's lines may have had would be a line that stands again.
        is_new = record.iteration % usual != previous % usual
        if is_new and previous <= total and 0 < record.iteration == previous + usual - total:
            return msgspec.structs.replace(record, epoch=epoch + 1)
        return record

    def turn(self, record: Record, position: int) -> tuple[int, bool]:
        """Switch to a record's epoch; return its base, and True if new.

        The base is the number of iterations before it. ``position`` is the run's last iteration so
        far.
        """
        number, total = record.epoch or 0, record.total or 0
        self.current = record.epoch
        if not self.bases:
            # A log that begins in a later epoch: only the total shows where that lies.
            base = max(number - self.first, 0) * total
        elif number > (last := max(self.bases)):
            base = max(self.bases[last] + (self._total or total) * (number - last), position)
        else:
            return self.bases.get(number, 0), False
        self.bases[number] = base
        self._total = total
        return base, True


class RankRecords:
    """Accumulates one rank's records in the order of the log."""

    def __init__(
        self,
        first: Record,
        window: CountedSteps,
        source: str,
        last: int | None,
        every: int | None,
    ) -> None:
        """``last`` and ``every``: the log's stated averaging window and log interval."""
        shape = first.shape
        self.shape = shape
        self.window = window
        self.source = source
        self.warms_up = False
        """True for the family's own warm-up, of another program's log."""
        self._by_rate = shape.number == "rate"
        self._running = shape.averaged == "running"
        self._single = shape.averaged == "step"
        self.last = (last or shape.last) if shape.averaged == "last" else 0
        """Iterations per printed mean if fixed; 0 if it covers the interval."""
        self.epochs = Epochs(first)
        # Where the log stands.
        self._line, self._closest = 0, math.inf
        """Line of the previous record, and the smallest distance of two."""
        self.position = 0
        """Last iteration of the run that a record covered."""
        self._base = 0
        """Iterations of the run before this epoch."""
        self._previous = 0
        """Iteration of the record before, as numbered in the log."""
        self._mean, self._means = RunningMean(shape), LastMeans(shape)
        self._unsteady = False
        """True if a line whose time does not follow holds more than training."""
        self._furthest = (0, self._mean.printed)
        """Iteration and mean at the furthest record, during a replay."""
        self.resumed = False
        """True once the program or the file began anew between two records."""
        self.unprinted = 0
        """Iterations that ran, but whose lines a restart lost."""
        self._pending: tuple[Record, str, bool, bool] | None = None
        self.replay: Replay | None = None
        """Cause of the current replay; None if the log advances."""
        # A shorter epoch, or run, has one line, at its end.
        every = every and min(every, first.total or every)
        self.distances = Distances(shape, window, every)
        self.opening: Occurrence | None = None
        """The first record; None where the log resumes a run."""
        self._opening_position = 0

        self.total: int | None = None
        """Planned iterations of the run, or of the epoch; None if not stated."""
        self.all_records = 0
        """Those that led further."""
        self.odd: defaultdict[Replay, Occurrences] = defaultdict(Occurrences)
        self.sums = RankSums(shape, window)
        self.tally, self.clock = self.sums.tally, LogClock(shape)
        self.arrivals = Arrivals(shape)
        self._first: list[Entry] = []
        """The first entries, for :meth:`shorten`."""

    def add(self, record: Record, file: str, events: bool, restart: bool) -> None:
        """Add the next record.

        ``events``: an evaluation or a checkpoint lay between it and the record before.
        ``restart``: the program, or the file, began anew there.
        """
        self.total = record.total or self.total
        if self._pending is not None:
            first, self._pending = self._pending, None
            self._add(*first, _distance(first[0], record))
        elif self.all_records == 0 and record.steps is None and not (self._running or self._single):
            # How many iterations it covers shows in the distance to the second record.
            self._pending = (record, file, events, restart)
            return
        stamp, last = record.stamp, self.clock.latest
        earlier = stamp is not None and last is not None and self.clock.at(stamp) < last
        if not (restart or self.replay or earlier):
            record = self.epochs.labelled(record, self._previous, self.usual)
        self._add(record, file, events, restart)

    def close(self) -> None:
        """The log is over."""
        if self._pending is not None:
            first, self._pending = self._pending, None
            self._add(*first)

    def end_epoch_at(self, iteration: int) -> None:
        """Take the end of an epoch that the log states outside its records."""
        if self.all_records and self.replay is None:
            self.position = max(self.position, self._base + iteration)

    def resume_after(self, iteration: int) -> None:
        """Record a restart from a checkpoint after ``iteration``.

        The iterations since the last record ran, too.
        """
        if self.all_records and iteration > self.position:
            self.unprinted += max(iteration - max(self.position, self.window.warmup), 0)
            self.position = self._previous = iteration
            self.replay = None

    def end_epoch(self, mark: Mark) -> None:
        """Add the log's own total of an epoch, unprinted steps included."""
        if self.last:
            self._end_sampled_epoch(mark.number("mean_seconds"))
            return
        total, steps = mark.number("sum_seconds"), self.steps_of(mark)
        if self.replay is not None or steps is None or total is None or self.sums.epoch.ended:
            return
        self.sums.epoch.ended = True
        tally, window = self.tally, self.window
        begin = self._base + self.shape.skips
        end = begin + steps
        if self._running:
            whole = self._previous <= self.shape.skips
            covered = steps if whole else end - self.position
            time = total if whole else total - self._mean.printed.seconds
            if covered <= 0:
                return
            if end - covered >= window.warmup and end <= window.end:
                tally.extend(end, covered, time)
            self._previous, self._mean.printed = end - self._base, Covered(steps, total)
        elif begin >= window.warmup and end <= window.end and self.fits(steps):
            # The unit is that of printed rates: seconds per sample, times iterations.
            tally.add_epoch(begin + 1, end, total / self._batch)
        self.position = max(self.position, end)

    def _end_sampled_epoch(self, mean: float | None) -> None:
        """Add an epoch by the mean of all its steps, where the lines leave steps out."""
        end = self._base + (self.total or 0)
        if self.replay is None and self.samples_steps and mean and end > self._base:
            self.sums.epoch.ended = True
            if self._base >= self.window.warmup and end <= self.window.end:
                self.tally.add_epoch(self._base + 1, end, mean * (end - self._base))

    def steps_of(self, mark: Mark) -> int | None:
        """Return the steps of an epoch's total: sum ÷ mean, or samples ÷ batch."""
        total, mean = mark.number("sum_seconds") or 0.0, mark.number("mean_seconds") or 0.0
        rate = mark.number("all_steps_rate") or mark.number("mean_rate") or 0.0
        if not 0 < total < math.inf:
            return None
        if self._running and mean > 0:
            return round(total / mean)
        if self._single and rate > 0 and self._batch:
            return round(rate * total / self._batch)
        return None

    def fits(self, steps: int) -> bool:
        """True if an epoch of ``steps`` ends before the next record."""
        tail = steps + self.shape.skips - self._previous
        # The total is rounded, and whether it leaves out the first steps differs by generation.
        slack = 1 + ROUNDED * steps
        return -slack <= tail and (not self.usual or tail < self.usual + self.shape.skips + slack)

    @property
    def samples_steps(self) -> bool:
        """True if the printed times cover only some of the steps."""
        return self.usual > self.last if self.last else self._single and self.usual != 1

    @property
    def _batch(self) -> int:
        """Samples per step by rate × seconds; 0 if not printed."""
        return round(self.sums.batch or 0)

    def begins_with(self, record: Record) -> bool:
        """True if a record is of the log's first iterations, or earlier ones."""
        epoch = (record.epoch or 0) <= min(self.epochs.bases, default=math.inf)
        return epoch and record.iteration <= self._opening_position

    def _add(
        self, record: Record, file: str, events: bool, restart: bool, upto: int | None = None
    ) -> None:
        opens = self.all_records == 0
        epoch = self.epochs.current
        undisturbed = (self._follows(record) or self.shape.events_known) and not events
        furthest = (self._previous, self._mean.printed)
        turns = self.epochs.turns(record, self._previous) and self._turn(
            record, file, opens=opens, restart=restart
        )
        position = self._base + (iteration := record.iteration)
        if position <= self.position and not turns:
            self._furthest = self._furthest if self.replay else furthest
            self._look_back(record, file, position, restart)
            return
        if self.replay is not None:
            # Caught up with where the log had been: from here on it is new.
            restart |= self.replay != "repeated"
            self._end_replay(turns=turns)
        distance = iteration - self._previous
        printed = covered, time = self._covers(record, distance, upto)
        between = position - self.position
        line = Occurrence(file, record, position)
        if opens:
            self._open_late(position - covered)
            self._opening_position = position
            self.opening = None if restart else Occurrence(file, record, position - covered)
        else:
            self._count_distance(line, distance, turns=turns, events=events)
        self.all_records += 1
        self.position, self._previous = position, iteration
        self.epochs.current = record.epoch
        self.resumed |= restart and not opens
        # Between two epochs an evaluation lies in no record's time.
        holds = events and (self.shape.holds_events or distance <= self.last) and not turns
        steady = not (record.holds or restart or holds or self._unsteady)
        even = undisturbed and not (opens or turns)
        passed = self.clock.advance(record.stamp, record.paused)
        alone = steady and even and passed is not None
        if self.last:
            own, clock = Covered(covered, time), passed if undisturbed and not restart else None
            covered, time = self._means.unroll(
                position, own, clock, size=self._averaged(record), even=even, restart=restart
            )
            self._unsteady = not (covered or steady)
            if distance <= self.last:
                printed, alone = (covered, time), alone and self._means.exact
        if 0 < self.last < between == covered:
            alone = between == distance  # the lines leave steps out, which the stamps do not
        else:
            alone = alone and (printed[0] == distance or self._single)
        counts = 0 < covered <= position - self.window.warmup and position <= self.window.end
        at = None if record.stamp is None else self.clock.latest
        if position - covered < self.window.warmup:
            self.tally.open(line, at)
        passed = 0.0 if restart or passed is None else passed
        entry = Entry(
            line=line,
            distance=distance,
            covered=covered,
            time=time,
            printed=printed,
            at=at,
            passed=passed,
            counts=counts,
            steady=steady,
            compares=alone,
            explained=opens or events or restart or bool(record.holds) or record.epoch != epoch,
        )
        if self.all_records <= FIRST:
            self._first.append(entry)
        self._take(entry)

    def _take(self, entry: Entry) -> None:
        self.sums.add(entry)
        self.clock.compare(entry)
        self.arrivals.add(entry)

    def _count_distance(
        self, line: Occurrence, distance: int, *, turns: bool, events: bool
    ) -> None:
        """Count the iterations from one record to the next."""
        record = line.record
        if distance == self.distances.usual and not turns and record.steps is None:
            self.distances.same()
            return
        of_epoch = record.epoch == self.epochs.current or turns
        if of_epoch or record.steps or distance >= 2 * self.usual:
            # Else the last few iterations of an epoch are in no line, where they are counted on.
            ends = self.epochs.restart and record.iteration == record.total and not turns
            missed = self.distances.add(distance, line, turns=turns, ends=ends, events=events)
            self.sums.epoch.complete &= not missed

    def _open_late(self, begin: int) -> None:
        """Begin the warm-up where the log does: a program that resumes a run warms up anew."""
        window, shape = self.window, self.shape
        # Of other lines nobody knows whether there were lines before.
        tells = shape.averaged == "interval" and shape.numbering == "run"
        if self.warms_up and tells and begin > window.warmup:
            self.window = window._replace(warmup=begin + window.warmup, begin=begin)
            self.distances.move(self.window)
            self.sums.move(self.window)

    def shorten(self, warmup: int) -> bool:
        """Measure a short log anew, with a shorter warm-up; False if it is too long for that."""
        is_long = len(self._first) < self.all_records
        warmup += self.window.begin
        if is_long or self.epochs.restart or warmup >= self.window.warmup:
            return False
        self.window = self.window._replace(warmup=warmup)
        self.sums = RankSums(self.shape, self.window)
        self.tally, self.clock = self.sums.tally, LogClock(self.shape)
        self.arrivals = Arrivals(self.shape)
        for entry in self._first:
            begin = entry.line.position - entry.covered
            counts = (
                entry.covered > 0 and begin >= warmup and entry.line.position <= self.window.end
            )
            if begin < warmup:
                self.tally.open(entry.line, entry.at)
            self._take(msgspec.structs.replace(entry, counts=counts))
        return True

    def _end_replay(self, *, turns: bool) -> None:
        if self.replay == "repeated" and not turns:
            self._previous, self._mean.printed = self._furthest
        self.replay = None

    def _follows(self, record: Record) -> bool:
        """True if no other lines than usual stand between two records."""
        lines, self._line = record.line - self._line, record.line
        self._closest = min(self._closest, lines if lines > 0 else math.inf)
        return lines == self._closest

    def _turn(self, record: Record, file: str, *, opens: bool, restart: bool) -> bool:
        """Switch to a record's epoch; True if it is new."""
        number, total = record.epoch or 0, record.total or 0
        last = max(self.epochs.bases, default=number)
        self._base, new = self.epochs.turn(record, self.position)
        if new and not opens:
            tail = total - self._previous
            if self.replay is None and self.usual and (tail >= self.usual or number > last + 1):
                missing = max(tail, self.usual)
                line = Occurrence(file, record, self.position + missing)
                self.distances.gap(missing + self.usual, line, self.usual)
                self.sums.epoch.complete = False
        if new:
            self.sums.epoch = Epoch(record.epoch)
        goes_on = new and number - 1 in self.epochs.bases and not (opens or restart or self.replay)
        self._mean.turn(total, goes_on=goes_on)
        self._previous = 0
        return new

    def _look_back(self, record: Record, file: str, position: int, restart: bool) -> None:
        """Handle a record that does not advance the iteration.

        It is a copy, was redone after a restart, or the log goes back: three different findings.
        """
        line = Occurrence(file, record, position)
        if self.replay is None:
            if position == self.position and not restart:
                self.odd["repeated"].add(line)
                return
            stamp, last = record.stamp, self.clock.latest
            earlier = stamp is not None and last is not None and self.clock.at(stamp) < last
            if earlier and position == self._opening_position and self._ended_before(record):
                earlier = False
            if earlier or (restart and stamp is None and position == self._opening_position):
                self.replay = "repeated"
            else:
                self.replay = "redone" if restart else "back"
            self.odd[self.replay].add(line)
        self._previous = record.iteration
        if self._running:
            self._mean.replace(record)
        if record.stamp is not None and self.replay != "repeated":
            self.clock.latest = self.clock.at(record.stamp)

    def _ended_before(self, record: Record) -> bool:
        """True if an earlier run of about this length had ended before."""
        stamp, first, last = record.stamp, self.sums.first_stamp, self.sums.last_stamp
        if stamp is None or first is None or last is None:
            return False
        return first - stamp > max(last - first, 0.0)

    def _covers(self, record: Record, distance: int, upto: int | None) -> tuple[int, float]:
        """Iterations that a record covers, and the time of all of them together."""
        if self._running:
            return self._mean.unroll(record, self._previous)
        pace = (self._by_rate and record.rate and 1 / record.rate) or record.seconds or 0.0
        if record.steps is not None:
            # After a restart some of its steps may be in an earlier record, too.
            covered = min(record.steps, self._base + record.iteration - self.position)
            return covered, covered * pace
        if self._single:
            return 1, pace
        if self.last:
            covered = min(self._averaged(record), upto or distance)
            return covered, covered * pace
        limit = min(upto or self.distances.usual, self.distances.stated or distance)
        covered = min(distance, limit) if limit else distance
        return covered, covered * pace

    def _averaged(self, record: Record) -> int:
        """Return the iterations that a mean of the ``last`` covers."""
        return min(self.last, record.iteration) if self.shape.empties else self.last

    @property
    def usual(self) -> int:
        """Iterations from one record to the next, most often."""
        return self.distances.usual

    @property
    def missing(self) -> Occurrences:
        """Records before which iterations of the window are in no record."""
        late = self._single or self.last or self.shape.begins_late
        opening, slack = self.opening, 0
        if late and opening is not None:
            slack = self.usual or opening.record.steps or 0
        epochs = self.epochs
        is_late = epochs.restart and min(epochs.bases, default=0) > epochs.first
        if opening is not None and not self._running:
            is_late |= opening.position > self.window.warmup + slack
        return self.distances.missing(opening if is_late else None)


def _distance(first: Record, second: Record) -> int | None:
    """Return iterations between the first two records.

    None across epochs, and where the second is at the end of one.
    """
    distance = second.iteration - first.iteration
    if first.shape.numbering == "epoch":
        ends = second.iteration == second.total and distance < first.iteration
        if ends or first.epoch != second.epoch:
            return None
    return distance if distance > 0 else None
