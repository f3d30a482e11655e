"""Comparison of printed times with the log's time stamps.

If only training lies between two lines, both give the elapsed time. If they differ, the number of
GPUs, the batch or a unit is wrong, the clock was set, or a rate does not average over time. The log
is rejected in each case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from k8sbench.messages import Arg, Note, note
from k8sbench.model import rules
from k8sbench.model.errors import Finding
from k8sbench.model.sample import DISPROVED, STAMP_LAG, TOLERANCE, Shape
from k8sbench.reader.measuring.evidence import Occurrence, Occurrences
from k8sbench.reader.measuring.rank_sums import Entry, Tally

HOUR = 3600.0
HOURS = 24
"""Most hours by which a clock is taken to be set, rather than broken."""
MINUTE = 60.0
"""Difference to whole hours of a clock that was set by them, seconds."""
CLOCK_SET = (
    "Cut the log at this line; measure the first part, or the second one with --warmup set to the "
    "iterations before it."
)
CLOCK_IGNORED = "Nothing, if nobody else needs the stamps: no figure that counts is of them."
MEASURE_AGAIN = "Measure another run, while nobody sets the machine's clock and it does not sleep."
LONGEST_SECOND = 2.0
"""Longest step forward, in seconds, that is no wait."""
FEWEST_BESIDE = 5
"""Fewest records whose stamps and times agree beside a step."""
JUMP = 1.0
"""Difference of wall and monotonic clock, between two records, of a clock that was set, s."""
UNITS = {
    3: note("clock-stamps-milliseconds"),
    6: note("clock-stamps-microseconds"),
    -3: note("clock-times-milliseconds"),
    -6: note("clock-times-microseconds"),
}
"""Power of ten of clock ÷ printed times → its cause."""
ABOUT = 0.1
"""Greatest difference to a power of ten, as a power of ten."""
OTHER_UNIT = "Declare that unit in the format's file, or leave that number out of it."
APART = 0.05
"""Relative difference of the headline and the figure by the stamps that is remarked."""
MULTIPLIED = 0.1
"""Relative difference of that share and 1 ÷ GPUs, within which `per: card` is the cause."""
ROOT = 2**0.25
FAR_APART = 6.0
"""The same as a factor, from which one of the two is wrong."""

FEWEST_FAR = 5
"""Fewest records that show it: a clock may be set once."""

NEGATIVE = 0.25
"""Lines of running means that took less than no time ÷ the others, from which they are no means.

Rounding makes few such lines.
"""
FASTEST = 1e9
"""Samples or tokens per second of the job that no training has, and a Unix time is."""
QUICKEST, SLOWEST = 1e-6, 86400.0
"""Seconds of a step that no training has."""
FEWEST_RISING = 10
RISES = 1.5
"""The last ÷ the first of as many numbers that rise from line to line, of a clock."""
ELAPSED = (
    "Name the time since the start `elapsed` in the format, and the speed `rate` or `step_seconds`."
)
OTHER_SCOPE = (
    "Correct `per` of the format, or --gpus; if the rate is of one GPU and the program waits for"
    " the rest of the time, give --accept clock-mismatch."
)
OTHER_STEPS = "Correct `averaged` of the format: interval, step or last."


class Step(NamedTuple):
    """The time from one line to the next."""

    line: Occurrence
    passed: float
    """By the stamps, seconds."""
    printed: float
    """By the printed numbers, in their unit."""
    counts: bool
    """True if the figure has the time by the stamps."""
    compared: float | None
    """Printed time in the compared sum; None if it is not compared."""


class LogClock:
    """Compares the printed times of one rank's records with their stamps, in one pass."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.latest: float | None = None
        """The stamp of the last line that has one, as :meth:`at` gives it."""
        self._began_anew = 0.0
        """Seconds that stamps without a year or a date lack by now."""
        self._unstamped = False
        """True if the previous record has no stamp; ``latest`` is then older."""
        self._back = Occurrences()
        """Lines of the window that are stamped before the line before them."""
        self._largest: Step | None = None
        """The largest step that only training explains."""
        self._size = (False, 0.0)
        """True if it is back, and its seconds; any step back is larger."""
        self._began = False
        """True once a record of the window was compared."""
        self._tells = False
        """True if the stamps tell the time since the record before."""
        self.training_steps = 0
        """Iterations of the window between stamps, where the log states nothing but training."""
        self.training_seconds = 0.0
        """The time of ``training_steps`` by the stamps."""
        self.training_stretches = 0
        """Runs of consecutive records in ``training_steps``."""
        self._trained_to = -1
        self._ratios: Counter[int] = Counter()
        """Number of records by time by the stamps ÷ printed time, as a power of :data:`ROOT`."""
        self._off = 0.0
        """Seconds by which the latest compared record's stamps and times differ."""
        self._off_line: Occurrence | None = None
        self._jump: tuple[float, Occurrence | None] | None = None
        """First step of the wall clock beside the monotonic clock, and its line."""
        self._records = 0
        self._iterations = 0
        self._time = 0.0
        self._clock = 0.0
        self._leaves_out = False
        """True if lines time fewer iterations than lie between them."""
        self._stretches = 0
        """Runs of consecutive compared lines; each adds two stamp errors."""
        self._end = -1

    def at(self, stamp: float) -> float:
        """A stamp on a clock that does not begin anew."""
        return stamp + self._began_anew

    def advance(self, stamp: float | None, paused: float) -> float | None:
        """Advance to a line's stamp; return seconds since the previous line.

        ``paused``: seconds that the line's own time leaves out.
        """
        before = None if self._unstamped else self.latest
        self._unstamped = stamp is None
        self._tells = False
        if stamp is None:
            return None
        wraps = self._shape.wraps
        if wraps and self.latest is not None and self.at(stamp) < self.latest - wraps / 2:
            self._began_anew += wraps
        self.latest = self.at(stamp)
        self._tells = before is not None
        return None if before is None else self.latest - before - paused

    def compare(self, entry: Entry) -> None:
        """Compare a line of the window with the one before."""
        if not entry.counts:
            return
        self._add_training(entry)
        steps, time = entry.printed
        back = entry.passed < -self._shape.resolution - STAMP_LAG
        timed = entry.time == entry.passed
        size = (back, abs(entry.passed))
        if size > self._size and steps > 0 and (back or entry.compares or timed):
            printed = time / steps * max(entry.distance, entry.covered)
            compared = time * entry.distance / steps if entry.compares and not back else None
            self._largest = Step(entry.line, entry.passed, printed, timed, compared)
            self._size = size
        if back:
            self._back.add(entry.line)
            return
        if self._shape.has_two_clocks:
            self._look_for_jump(entry)
        if not entry.compares:
            return
        self._leaves_out |= entry.distance > steps
        time *= entry.distance / steps
        if entry.line.position - entry.distance != self._end:
            self._stretches += 1
        self._end = entry.line.position
        self._records += 1
        self._iterations += entry.distance
        self._time += time
        self._clock += entry.passed

    def _add_training(self, entry: Entry) -> None:
        """Add up what lies between the first and the last stamp, without explained times."""
        end = entry.line.position
        if self._began and self._tells and not entry.explained:
            self.training_stretches += end - entry.distance != self._trained_to
            self.training_steps += entry.distance
            self.training_seconds += entry.passed
            self._trained_to = end
            steps, time = entry.printed
            if entry.passed > 0 and steps > 0 and time > 0:
                ratio = entry.passed / (time / steps * entry.distance)
                self._ratios[round(math.log(ratio, ROOT))] += 1
        self._began |= self._tells or entry.at is not None

    def _look_for_jump(self, entry: Entry) -> None:
        """Note a step of the wall clock.

        A late stamp is none: the next record makes up for it.
        """
        off = entry.passed - entry.time if entry.compares else 0.0
        if abs(self._off) > JUMP:
            if abs(self._off + off) <= JUMP:
                off = 0.0
            elif self._jump is None:
                self._jump = (self._off, self._off_line)
        self._off = off
        self._off_line = entry.line

    def contradictions(self, unit: float | None, noted: Sequence[float] = ()) -> Iterator[Finding]:
        """Yield what the stamps say against the printed times, or against themselves.

        ``unit``: seconds in one unit of the printed times. ``noted``: seconds by which notes in
        the log say that the clock was set.
        """
        step = self._step_beside_times(unit, noted)
        if step is not None and self._largest is not None:
            way = "back" if step < 0 else "further"
            hours = self._sets_hours(step, unit or 1.0)
            went = note(f"clock-went-{way}", seconds=f"{abs(step):.1f}")
            said = note("clock-mismatch-beside", how=_set_by(hours) if hours else went)
            place = self._largest.line.place
            yield rules.CLOCK_MISMATCH.finding(said, [place], "warn", action=CLOCK_IGNORED)
            return
        cause = self._cause(unit)
        action = None if not cause else OTHER_UNIT if cause in UNITS.values() else CLOCK_SET
        if self._back:
            said = _because("clock-mismatch-back", cause, times=self._back.count)
            yield rules.CLOCK_MISMATCH.finding(said, self._back.places, action=action)
            return
        line = [self._largest.line.place] if self._largest and action is CLOCK_SET else []
        if self.misleads(unit):
            said = _because("clock-mismatch-wrong", cause)
            yield rules.CLOCK_MISMATCH.finding(said, line, action=action)
            return
        if unit is None or not self._shape.complete or not self._records:
            return
        printed = self._time * unit
        clock = self._clock
        allowed = self._allowed(printed, clock)
        problem = overclaim(printed, clock, allowed)
        # Those that are left out may have been slower: they hold what loaders and logging take.
        if problem is None and not self._leaves_out and clock > printed + allowed:
            problem = note("clock-lines-have", claimed=f"{printed:.2f}", passed=f"{clock:.2f}")
        if problem is not None:
            said = _because("clock-mismatch-records", cause, said=problem, records=self._records)
            yield rules.CLOCK_MISMATCH.finding(said, line, action=action)
        elif self._jump is not None:
            seconds, at = self._jump
            way = "further" if seconds > 0 else "less"
            said = note(f"clock-mismatch-jump-{way}", seconds=f"{abs(seconds):.1f}")
            places = [at.place] if at else []
            yield rules.CLOCK_MISMATCH.finding(said, places, "warn", action=CLOCK_IGNORED)

    def _allowed(self, printed: float, clock: float) -> float:
        """Return by how many seconds the two sums may differ."""
        return self._shape.allowed_seconds(
            printed, clock, iterations=self._iterations, stretches=self._stretches
        )

    def _step_beside_times(self, unit: float | None, noted: Sequence[float]) -> float | None:
        """Return by how many seconds the stamps step where the printed times do not; else None.

        All others must agree, and the figure must not have the time by the stamps. A step forward
        may be a wait that no line prints, unless it is noted, one of whole hours, or of a second
        or two.
        """
        step = self._largest
        if unit is None or step is None or step.counts or not self._shape.complete:
            return None
        seconds = step.passed - step.printed * unit
        is_back = self._back.count == 1 and step.passed < 0
        printed = self._time * unit
        clock = self._clock
        records = self._records
        if step.compared is not None:
            printed -= step.compared * unit
            clock -= step.passed
            records -= 1
        allowed = self._allowed(printed, clock)
        is_shown = is_back or seconds > allowed
        is_short = seconds <= LONGEST_SECOND and seconds <= TOLERANCE * clock
        is_noted = any(abs(seconds - each) <= JUMP + self._shape.resolution for each in noted)
        is_forward = is_noted or is_short or bool(self._sets_hours(seconds, unit))
        is_step = is_back or (is_forward and not self._back)
        agrees = records >= FEWEST_BESIDE and abs(printed - clock) <= allowed
        return seconds if is_shown and is_step and agrees else None

    def is_far_apart(self, unit: float) -> bool:
        """True if most lines took longer by a factor that no other work explains."""
        least = math.log(FAR_APART * unit, ROOT)
        slow = sum(n for power, n in self._ratios.items() if power >= least)
        return slow >= FEWEST_FAR and 2 * slow > self._ratios.total()

    def misleads(self, unit: float | None) -> bool:
        """True if the figure has the time of wrong stamps."""
        return self._largest is not None and self._largest.counts and bool(self._cause(unit))

    def _cause(self, unit: float | None) -> Note | None:
        """Say what is wrong with the unit or the clock; None if nothing."""
        if self._largest is None or unit is None:
            return None
        if self._time > 0 and self._clock > 0:
            power = math.log10(self._clock / (self._time * unit))
            if round(power) in UNITS and abs(power - round(power)) < ABOUT:
                return UNITS[round(power)]
        hours = self._sets_hours(self._largest.passed - self._largest.printed * unit, unit)
        return _set_by(hours) if hours else None

    def _sets_hours(self, seconds: float, unit: float) -> int:
        """Return the hours by which the clock was set at the largest step; 0 if by others."""
        assert self._largest is not None
        hours = round(seconds / HOUR)
        # An evaluation may lie before a step back.
        printed = self._largest.printed * unit
        near = HOUR / 4 if self._largest.passed < 0 else MINUTE + TOLERANCE * printed
        is_set = 1 <= abs(hours) <= HOURS and abs(seconds - hours * HOUR) <= near
        return hours if is_set else 0


def _because(name: str, cause: Note | None, **args: Arg) -> Note:
    """Make a message, with its cause if that is known."""
    return note(name, **args) if cause is None else note(f"{name}-cause", cause=cause, **args)


def _set_by(hours: int) -> Note:
    return note("clock-set-forward" if hours > 0 else "clock-set-back", hours=abs(hours))


def overclaim(claimed: float, passed: float, allowed: float) -> Note | None:
    """Say that lines claim more time than passed by a clock; None if no more than is allowed.

    A line may leave time out, and never has more than there was. All in seconds.
    """
    if claimed <= passed + allowed:
        return None
    return note("clock-lines-claim", claimed=f"{claimed:.2f}", passed=f"{passed:.2f}")


def overclaimed(unit: float | None, tally: Tally, shape: Shape) -> Iterator[Finding]:
    """Yield that the lines claim more time than passed between the first and the last stamp."""
    if unit is None or tally.stamped is None:
        return
    first, last = tally.stamped
    passed = first.seconds_to(last)
    claimed = (last.time - first.time) * unit
    iterations = last.iterations - first.iterations
    allowed = shape.allowed_seconds(claimed, passed, iterations=iterations, stretches=1)
    problem = overclaim(claimed, passed, allowed)
    if passed > 0 and problem is not None:
        said = note("clock-mismatch-iterations", said=problem, iterations=iterations)
        yield rules.CLOCK_MISMATCH.finding(said, [tally.last.place] if tally.last else [])


def misread(tally: Tally, shape: Shape) -> Iterator[Finding]:
    """Yield that a declared number cannot be what its format says: a speed, or a running mean."""
    negative = tally.negative
    if negative.count >= FEWEST_FAR and negative.count > NEGATIVE * tally.records:
        lines = negative.count + tally.records
        said = note("clock-mismatch-running", negative=negative.count, lines=lines)
        yield rules.CLOCK_MISMATCH.finding(said, negative.places, action=OTHER_STEPS)
    trend = tally.trend
    if shape.begins_late or shape.averaged == "running" or tally.last is None or not trend.count:
        return
    problem = None
    is_possible = trend.last < FASTEST if shape.is_rate else QUICKEST < trend.last < SLOWEST
    if not is_possible:
        name = "clock-mismatch-impossible" + ("-rate" if shape.is_rate else "-time")
        problem = note(name, number=f"{trend.last:.6g}")
    elif trend.count >= FEWEST_RISING and trend.always_rises and trend.last > RISES * trend.first:
        ends = {"first": f"{trend.first:.6g}", "last": f"{trend.last:.6g}"}
        problem = note("clock-mismatch-rises", lines=trend.count, **ends)
    if problem is not None:
        yield rules.CLOCK_MISMATCH.finding(problem, [tally.last.place], action=ELAPSED)


def apart(
    unit: float | None, tally: Tally, shape: Shape, clock: LogClock, *, multiplied: int = 1
) -> Iterator[Finding]:
    """Yield how far stamps and printed times differ without a stated reason.

    A warning; a contradiction from a factor on that no work beside the training explains, or that
    no choice of the printed steps does. The lines stand for the steps that they leave out.
    ``multiplied``: GPUs by which an answer of the user, ``per: card``, multiplies the printed rate.
    """
    if unit is None or tally.stamped is None:
        return
    first, last = tally.stamped
    passed = first.seconds_to(last)
    steps = last.position - first.position
    iterations = last.iterations - first.iterations
    time = last.time - first.time
    if tally.all_steps and tally.span is not None:
        iterations, time = tally.span.iterations, tally.span.time
    if passed <= 0 or iterations <= 0:
        return
    claimed = time * unit / iterations * steps
    coarse = shape.stamp_error
    if (problem := overclaim(claimed, passed, DISPROVED * passed + coarse)) is not None:
        said = note("clock-mismatch-iterations", said=problem, iterations=steps)
        yield rules.CLOCK_MISMATCH.finding(said, [tally.last.place] if tally.last else [])
        return
    ratio = claimed / passed
    if abs(claimed - passed) <= max(APART * passed, coarse):
        return
    why = note("clocks-apart-claim")
    if claimed < passed:
        ratio = _compare_training(unit, tally, clock)
        lost = clock.training_seconds * (1 - ratio)
        if ratio >= 1 - APART or lost <= coarse * math.sqrt(clock.training_stretches):
            return
        why = note("clocks-apart-unexplained")
    share = f"{100 * ratio:.1f} %"
    if multiplied > 1 and abs(ratio * multiplied - 1) <= MULTIPLIED:
        said = note("clock-mismatch-per-card", share=share, gpus=multiplied)
        yield rules.CLOCK_MISMATCH.finding(said, action=OTHER_SCOPE)
        return
    is_far = clock.is_far_apart(unit)
    rule = rules.CLOCK_MISMATCH if is_far else rules.CLOCKS_APART
    yield rule.finding(note("clocks-apart", share=share, why=why))


def _compare_training(unit: float, tally: Tally, clock: LogClock) -> float:
    """Return the rate by stamps ÷ that by lines, of training alone.

    1 where it is unknown.
    """
    iterations, time = tally.steady_iterations, tally.steady_time
    if tally.all_steps and tally.span is not None:
        iterations, time = tally.span.iterations, tally.span.time
    if iterations <= 0 or clock.training_seconds <= 0:
        return 1.0
    return time * unit / iterations * clock.training_steps / clock.training_seconds
