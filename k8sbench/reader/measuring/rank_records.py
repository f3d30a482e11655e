"""Records of one rank, accumulated in one pass.

Only the rate of each counted record is kept, eight bytes each, for the median. All sums are in the
unit of the shape's deciding number (seconds per iteration, or seconds per sample for printed
rates): the job's GPUs and batch, which may become known late, are one factor at the end.
"""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from k8sbench.model.sample import Mark, Record
from k8sbench.reader.measuring.arrival import Arrivals
from k8sbench.reader.measuring.epochs import Epochs, Placement
from k8sbench.reader.measuring.evidence import Occurrence, Occurrences
from k8sbench.reader.measuring.log_clock import LogClock
from k8sbench.reader.measuring.printed_means import Covered, LastMeans, RunningMean
from k8sbench.reader.measuring.profile_sums import ProfileSums
from k8sbench.reader.measuring.rank_sums import CountedSteps, Distances, Entry, Epoch, RankSums
from k8sbench.reader.measuring.record_kinds import RecordKind, Situation, classify

FIRST = 40
"""Entries that are kept: a log of so few records may be measured anew."""
ROUNDED = 1e-4
"""Relative error of a number of steps that follows from printed numbers."""


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A record, and the log's statements since the record before."""

    record: Record
    file: str
    events: bool
    """True if an evaluation or a checkpoint lay before the record."""
    restart: bool
    """True if the program, or the file, began anew before the record."""


class Advance(msgspec.Struct, frozen=True, gc=False):
    """A record that advances the iteration, and the stretch since the record before."""

    line: Occurrence
    distance: int
    """Iterations since the record before, as numbered in the log."""
    gained: int
    """Iterations of the run since the furthest record."""
    own: Covered
    """Iterations that the record's number covers, and their time."""
    events: bool
    restart: bool
    """True if the program was restarted since the furthest record."""
    undisturbed: bool
    """True if the log shows nothing but training in the stretch."""
    changes_epoch: bool
    """True if the two records are of different epochs."""


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
        """True if the warm-up begins with the log, however late: of another program's log."""
        self._running = shape.averaged == "running"
        self._single = shape.averaged == "step"
        self.last = shape.iterations_per_mean(last)
        """Iterations per printed mean if fixed; 0 if it covers the interval."""
        self.epochs = Epochs(first)
        # Where the log stands.
        self._line, self._closest = 0, math.inf
        """Line of the previous record, and the smallest distance of two."""
        self.position = 0
        """Last iteration of the run that a record covered."""
        self._previous = 0
        """Iteration of the record before, as numbered in the log."""
        self._mean = RunningMean(shape)
        self._means = LastMeans(shape)
        self._unsteady = False
        """True if a line whose time does not follow holds more than training."""
        self._furthest = (0, self._mean.printed)
        """Iteration and mean at the furthest record, during a replay."""
        self.resumed = False
        """True once the program or the file began anew between two records."""
        self.unprinted = 0
        """Iterations that ran, but whose lines a restart lost."""
        self._pending: Incoming | None = None
        """The first record, until the second shows how many iterations it covers."""
        self.replay: RecordKind | None = None
        """Kind of the current replay; None if the log advances."""
        # A shorter epoch, or run, has one line, at its end.
        self.distances = Distances(shape, window, every and min(every, first.total or every))
        self.opening: Occurrence | None = None
        """The first record; None where the log resumes a run."""
        self._opening_position = 0

        self.total: int | None = None
        """Planned iterations of the run, or of the epoch; None if not stated."""
        self.all_records = 0
        """Records that advanced the iteration."""
        self.odd: defaultdict[RecordKind, Occurrences] = defaultdict(Occurrences)
        self.sums = RankSums(shape, window)
        self.tally = self.sums.tally
        self.profile = ProfileSums()
        self.clock = LogClock(shape)
        self.arrivals = Arrivals(shape)
        self._first: list[Entry] = []
        """The first entries, for :meth:`shorten`."""

    def add(self, record: Record, file: str, events: bool, restart: bool) -> None:
        """Add the next record.

        ``events``: an evaluation or a checkpoint lay between it and the record before.
        ``restart``: the program, or the file, began anew there.
        """
        self.total = record.total or self.total
        new = Incoming(record, file, events, restart)
        if self._pending is not None:
            first = self._pending
            self._pending = None
            self._add(first, _distance(first.record, record))
        elif self.all_records == 0 and record.steps is None and self._needs_second(record):
            self._pending = new
            return
        if not (restart or self.replay or self._is_older(record)):
            record = self.epochs.labelled(record, self._previous, self.usual)
            new = Incoming(record, file, events, restart)
        self._add(new)

    def _needs_second(self, first: Record) -> bool:
        """True if the distance to the second record shows what the first one covers.

        Of a single step it shows whether the log begins late, or prints few of its steps.
        """
        if self._single:
            return self.warms_up and first.iteration > self.window.warmup
        return not self._running

    def close(self) -> None:
        """The log is over."""
        if self._pending is not None:
            first = self._pending
            self._pending = None
            self._add(first)

    def end_epoch_at(self, iteration: int) -> None:
        """Take the end of an epoch that the log states outside its records."""
        if self.all_records and self.replay is None:
            self.position = max(self.position, self.epochs.base + iteration)

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
        total = mark.number("sum_seconds")
        steps = self.steps_of(mark)
        if self.replay is not None or steps is None or total is None or self.sums.epoch.ended:
            return
        self.sums.epoch.ended = True
        tally, window = self.tally, self.window
        begin = self.epochs.base + self.shape.skips
        end = begin + steps
        if self._running:
            whole = self._previous <= self.shape.skips
            covered = steps if whole else end - self.position
            time = total if whole else total - self._mean.printed.seconds
            if covered <= 0:
                return
            self.profile.add(end - window.begin, covered, time)
            if end - covered >= window.warmup and end <= window.end:
                tally.extend(end, covered, time)
            self._previous, self._mean.printed = end - self.epochs.base, Covered(steps, total)
        elif begin >= window.warmup and end <= window.end and self.fits(steps):
            # The unit is that of printed rates: seconds per sample, times iterations.
            tally.add_epoch(begin + 1, end, total / self._batch)
        self.position = max(self.position, end)

    def _end_sampled_epoch(self, mean: float | None) -> None:
        """Add an epoch by the mean of all its steps, where the lines leave steps out."""
        end = self.epochs.base + (self.total or 0)
        if self.replay is None and self.samples_steps and mean and end > self.epochs.base:
            self.sums.epoch.ended = True
            if self.epochs.base >= self.window.warmup and end <= self.window.end:
                self.tally.add_epoch(self.epochs.base + 1, end, mean * (end - self.epochs.base))

    def steps_of(self, mark: Mark) -> int | None:
        """Return the steps of an epoch's total: sum ÷ mean, or samples ÷ batch."""
        total = mark.number("sum_seconds") or 0.0
        mean = mark.number("mean_seconds") or 0.0
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

    def _add(self, new: Incoming, upto: int | None = None) -> None:
        """Add a record by its kind.

        ``upto``: the most iterations that it can cover; None if not known.
        """
        self.epochs.learn(new.record, self._previous)
        epoch = self.epochs.place(new.record, self.position)
        kind = self._classify(new, epoch)
        undisturbed = self._is_undisturbed(new)
        match kind:
            case RecordKind.NEXT:
                self._add_next(self._advance(new, epoch, undisturbed, upto))
            case RecordKind.FIRST:
                self._add_first(self._advance(new, epoch, undisturbed, upto), epoch, upto or 0)
            case RecordKind.NEW_EPOCH:
                self._add_new_epoch(self._advance(new, epoch, undisturbed, upto))
            case RecordKind.DUPLICATE:
                self._add_duplicate(new, epoch)
            case RecordKind.REPEATED | RecordKind.REDONE | RecordKind.BACK:
                self._add_replayed(new, epoch, kind)

    def _classify(self, new: Incoming, epoch: Placement) -> RecordKind:
        record = new.record
        position = epoch.base + record.iteration
        is_opening = position == self._opening_position
        is_older = self._is_older(record) and not (is_opening and self._ended_before(record))
        situation = Situation(
            position=position,
            furthest=self.position,
            is_first=self.all_records == 0,
            is_new_epoch=epoch.is_new,
            replay=self.replay,
            restart=new.restart,
            is_opening=is_opening,
            has_stamp=record.stamp is not None,
            is_older=is_older,
        )
        return classify(situation)

    def _is_older(self, record: Record) -> bool:
        """True if a record's stamp lies before the latest one."""
        stamp, latest = record.stamp, self.clock.latest
        return stamp is not None and latest is not None and self.clock.at(stamp) < latest

    def _advance(
        self, new: Incoming, epoch: Placement, undisturbed: bool, upto: int | None
    ) -> Advance:
        """Move to a record that advances the iteration; return the stretch up to it."""
        record = new.record
        changes_epoch = record.epoch != self.epochs.current
        if epoch.switches:
            self._switch_epoch(new, epoch)
        restart = new.restart
        if self.replay is not None:
            # The first new record after a replay has its cause, too.
            restart |= self.replay is not RecordKind.REPEATED
            self._end_replay(is_new_epoch=epoch.is_new)
        position = epoch.base + record.iteration
        distance = record.iteration - self._previous
        return Advance(
            line=Occurrence(new.file, record, position),
            distance=distance,
            gained=position - self.position,
            own=self._covers(record, distance, upto),
            events=new.events,
            restart=restart,
            undisturbed=undisturbed,
            changes_epoch=changes_epoch,
        )

    def _add_first(self, new: Advance, epoch: Placement, upto: int) -> None:
        """Begin the log with its first record; ``upto``: iterations to the second."""
        line = new.line
        begin = line.position - new.own.iterations
        resumed_after = line.record.mean_begin
        if resumed_after or not self._running:
            before = line.position - max(upto, self.usual)
            self._open_late(resumed_after or begin, before=before)
        self._opening_position = line.position
        self.opening = None if new.restart else Occurrence(line.file, line.record, begin)
        self._count(new, even=False, in_epoch=not epoch.is_new, explained=True)

    def _add_next(self, new: Advance) -> None:
        self.resumed |= new.restart
        self._count_distance(new, is_new_epoch=False)
        explained = new.events or new.restart or new.changes_epoch or bool(new.line.record.holds)
        self._count(new, even=new.undisturbed, in_epoch=True, explained=explained)

    def _add_new_epoch(self, new: Advance) -> None:
        self.resumed |= new.restart
        self._count_distance(new, is_new_epoch=True)
        self._count(new, even=False, in_epoch=False, explained=True)

    def _add_duplicate(self, new: Incoming, epoch: Placement) -> None:
        """Note a copy of the record before, which changes nothing else."""
        if epoch.switches:
            self._switch_epoch(new, epoch)
        self.odd[RecordKind.REPEATED].add(Occurrence(new.file, new.record, self.position))

    def _add_replayed(self, new: Incoming, epoch: Placement, kind: RecordKind) -> None:
        """Note the first record of a replay, and follow the log through it."""
        record = new.record
        furthest = (self._previous, self._mean.printed)
        if epoch.switches:
            self._switch_epoch(new, epoch)
        if self.replay is None:
            self.replay = kind
            self._furthest = furthest
            self.odd[kind].add(Occurrence(new.file, record, epoch.base + record.iteration))
        self._previous = record.iteration
        if self._running:
            self._mean.replace(record)
        if record.stamp is not None and kind is not RecordKind.REPEATED:
            self.clock.latest = self.clock.at(record.stamp)

    def _count(self, new: Advance, *, even: bool, in_epoch: bool, explained: bool) -> None:
        """Count a record that advances the iteration.

        ``even``: steps take about the same time since the record before. ``in_epoch``: no epoch
        ends there. ``explained``: the log states more than training there.
        """
        line = new.line
        record, position = line.record, line.position
        self.all_records += 1
        self.position = position
        self._previous = record.iteration
        self.epochs.current = record.epoch
        passed = self.clock.advance(record.stamp, record.paused)
        # Between two epochs an evaluation lies in no record's time.
        in_its_time = self.shape.holds_events or new.distance <= self.last
        holds = new.events and in_its_time and in_epoch
        steady = not (record.holds or new.restart or holds or self._unsteady)
        time = self._unrolled(new, passed, even=even)
        if self.last:
            self._unsteady = not (time.iterations or steady)
        printed = time if self.last and new.distance <= self.last else new.own
        at = None if record.stamp is None else self.clock.latest
        begin = position - time.iterations
        if begin < self.window.warmup:
            self.tally.open(line, at)
        is_alone = steady and even and passed is not None
        is_inside = self.window.warmup <= begin and position <= self.window.end
        entry = Entry(
            line=line,
            distance=new.distance,
            covered=time.iterations,
            time=time.seconds,
            printed=printed,
            at=at,
            passed=0.0 if new.restart or passed is None else passed,
            counts=time.iterations > 0 and is_inside,
            steady=steady,
            compares=self._compares(new, time, printed, is_alone=is_alone),
            explained=explained,
        )
        if self.all_records <= FIRST:
            self._first.append(entry)
        self._take(entry)

    def _unrolled(self, new: Advance, passed: float | None, *, even: bool) -> Covered:
        """Return what a record adds, where the printed means overlap.

        ``passed`` is the time since the record before by the clock.
        """
        if not self.last or new.own.iterations <= 0:
            # A damaged line, such as one of iteration 0, covers nothing.
            return new.own
        return self._means.unroll(
            new.line.position,
            new.own,
            passed if new.undisturbed and not new.restart else None,
            size=self.shape.iterations_in_mean(new.line.record.iteration, self.last),
            even=even,
            restart=new.restart,
        )

    def _compares(self, new: Advance, time: Covered, printed: Covered, *, is_alone: bool) -> bool:
        """True if only the record lies between the last two stamps.

        ``is_alone``: the log shows nothing else there.
        """
        if 0 < self.last < new.gained == time.iterations:
            # The lines leave steps out, which the stamps do not.
            return new.gained == new.distance
        if self.last and new.distance <= self.last and not self._means.exact:
            return False
        return is_alone and (printed.iterations == new.distance or self._single)

    def _take(self, entry: Entry) -> None:
        record = entry.line.record
        if entry.steady or not self.shape.spoils_steps:
            self.profile.add(
                entry.line.position - self.window.begin,
                entry.covered,
                entry.time,
                record.step_samples,
                record.loss,
            )
        self.sums.add(entry)
        self.clock.compare(entry)
        self.arrivals.add(entry)

    def _count_distance(self, new: Advance, *, is_new_epoch: bool) -> None:
        """Count the iterations from one record to the next."""
        record, distance = new.line.record, new.distance
        if distance == self.distances.usual and not is_new_epoch and record.steps is None:
            self.distances.same()
            return
        of_epoch = record.epoch == self.epochs.current or is_new_epoch
        if of_epoch or record.steps or distance >= 2 * self.usual:
            # Else the last few iterations of an epoch are in no line, where they are counted on.
            ends = self.epochs.restart and record.iteration == record.total and not is_new_epoch
            missed = self.distances.add(
                distance, new.line, turns=is_new_epoch, ends=ends, events=new.events
            )
            self.sums.epoch.complete &= not missed

    def _open_late(self, begin: int, *, before: int) -> None:
        """Begin the warm-up where the log does: a program that resumes a run warms up anew.

        ``before``: where the line before the first one would stand.
        """
        window, tells = self.window, self.shape.numbering == "run"
        if self.warms_up and tells and min(begin, before) > window.warmup:
            self.window = CountedSteps(begin + window.warmup, begin + window.end, begin)
            self.distances.move(self.window)
            self.sums.move(self.window)

    def shorten(self, warmup: int) -> bool:
        """Measure a short log anew, with a shorter warm-up; False if it is too long for that.

        ``warmup`` is a share of the log's iterations: it begins where they do.
        """
        is_long = len(self._first) < self.all_records
        warmup += self.begin
        if is_long or self.epochs.restart or warmup >= self.window.warmup:
            return False
        self.window = self.window._replace(warmup=warmup, begin=self.begin)
        self.sums, self.profile = RankSums(self.shape, self.window), ProfileSums()
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

    @property
    def begin(self) -> int:
        """Iterations of the run before the log, of one that begins late and lacks nothing since."""
        opening = self.opening
        if self.window.begin or not self.warms_up or opening is None or self.epochs.restart:
            return self.window.begin
        return opening.position if opening.position > self._unprinted_at_begin else 0

    @property
    def _unprinted_at_begin(self) -> int:
        """Iterations at the begin of a run that are in no line of its program."""
        late = self._single or self.last or self.shape.begins_late
        if not late or self.opening is None:
            return 0
        return self.usual or self.opening.record.steps or 0

    def _end_replay(self, *, is_new_epoch: bool) -> None:
        """Note that the log has caught up: from here on its iterations are new."""
        if self.replay is RecordKind.REPEATED and not is_new_epoch:
            self._previous, self._mean.printed = self._furthest
        self.replay = None

    def _is_undisturbed(self, new: Incoming) -> bool:
        """True if the log shows nothing but training between two records."""
        follows = self._follows(new.record)
        return (follows or self.shape.events_known) and not new.events

    def _follows(self, record: Record) -> bool:
        """True if no other lines than usual stand between two records."""
        lines = record.line - self._line
        self._line = record.line
        self._closest = min(self._closest, lines if lines > 0 else math.inf)
        return lines == self._closest

    def _switch_epoch(self, new: Incoming, epoch: Placement) -> None:
        """Go to a record's epoch, in which iterations restart."""
        record = new.record
        number = record.epoch or 0
        total = record.total or 0
        opens = self.all_records == 0
        last = max(self.epochs.bases, default=number)
        # Epochs of one run may differ by an iteration.
        end = self.epochs.total or total
        self.epochs.switch(record, epoch)
        if epoch.is_new:
            if not opens and self.replay is None:
                self._count_lost_end(new, end, skips_epoch=number > last + 1)
            self.sums.epoch = Epoch(record.epoch)
        is_next = epoch.is_new and number - 1 in self.epochs.bases
        self._mean.turn(total, goes_on=is_next and not (opens or new.restart or self.replay))
        self._previous = 0

    def _count_lost_end(self, new: Incoming, end: int, *, skips_epoch: bool) -> None:
        """Note a gap if the last records of an epoch are missing; it had ``end`` iterations."""
        tail = end - self._previous
        if self.usual and (tail >= self.usual or skips_epoch):
            missing = max(tail, self.usual)
            line = Occurrence(new.file, new.record, self.position + missing)
            self.distances.gap(missing + self.usual, line, self.usual)
            self.sums.epoch.complete = False

    def _ended_before(self, record: Record) -> bool:
        """True if an earlier run of about this length had ended before."""
        stamp, first, last = record.stamp, self.sums.first_stamp, self.sums.last_stamp
        if stamp is None or first is None or last is None:
            return False
        return first - stamp > max(last - first, 0.0)

    def _covers(self, record: Record, distance: int, upto: int | None) -> Covered:
        """Iterations that a record covers, and the time of all of them together."""
        if self._running:
            return self._mean.unroll(record, self._previous)
        pace = self.shape.time_of_one(record)
        if record.steps is not None:
            # After a restart some of its steps may be in an earlier record, too.
            covered = min(record.steps, self.epochs.base + record.iteration - self.position)
        elif self._single:
            return Covered(1, pace)
        elif self.last:
            covered = self.shape.iterations_in_mean(record.iteration, self.last)
            covered = min(covered, upto or distance)
        else:
            covered = min(distance, upto or distance, self.distances.stated or distance)
            usual = self.distances.usual
            # A first line at iteration 1 makes the interval look shorter than it is.
            if upto is None and usual and distance >= 2 * usual:
                covered = min(covered, usual)
        return Covered(covered, covered * pace)

    @property
    def usual(self) -> int:
        """Iterations from one record to the next, most often."""
        return self.distances.usual

    @property
    def missing(self) -> Occurrences:
        """Records before which iterations of the window are in no record."""
        opening = self.opening
        epochs = self.epochs
        is_late = epochs.restart and min(epochs.bases, default=0) > epochs.first
        if opening is not None and not self._running:
            is_late |= opening.position > self.window.warmup + self._unprinted_at_begin
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
