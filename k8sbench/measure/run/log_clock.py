"""The clock of a log, its time stamps, beside the times that its lines print.

Between two lines between which nothing else happened, both say how much time passed. A log in
which they say different things was edited, or measured by a wrong number of GPUs. But clocks are
also set: one jump of a known size is that, and what the stamps say is corrected for it.
"""

from __future__ import annotations

import collections
import math
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from k8sbench.measure.run import rules, tally
from k8sbench.measure.run.evidence import MANY, Occurrence
from k8sbench.measure.run.tally import Entry, Stamped, Tally
from k8sbench.model.counts import counted
from k8sbench.model.finding import Finding
from k8sbench.model.sample import Place, Shape


class Tolerance(NamedTuple):
    """How far printed times and stamps of a log may be apart, beyond the stamps' resolution."""

    share: float
    """Of the time of all compared lines."""
    digit: float = 0.0
    """Last digit of the printed seconds; half of it may be lost in every iteration."""
    median: float | None = None
    """The same of the median line's ratio; None: not compared."""


TOLERANCES = {
    # Public logs of each program, and how far they are apart: printed time ÷ time by the stamps.
    "mmseg": Tolerance(0.005, 0.001),  # 37 logs: 0.9996–1.0004
    "mmseg by epoch": Tolerance(0.005, 0.001),
    "plsc v2": Tolerance(0.005),  # 6 logs: 0.9999
    "tsm": Tolerance(0.01, 0.001),  # 3 logs: 1.0000–1.0009
    # Up to 1.6 s in 554 s, which is their stamps; 0.998–1.001 in logs of more than 200 s.
    "paddleclas": Tolerance(0.01),  # 34 logs
    "paddleclas dygraph": Tolerance(0.01),
    # Within one second each; 0.997–1.004 in logs of more than 100 s. It prints no checkpoints.
    "paddleseg": Tolerance(0.02),  # 32 logs
    # Its rate is the mean of the ranks' rates, which one that stalls raises: 0.990–1.068 in sum.
    # The median line is of a time without stalls: 0.9878–0.9999. On one GPU, whose steps are all
    # printed, no line is a mean: 0.9992–0.9998 in sum.
    "dle-resnet50": Tolerance(0.15, median=0.025),  # 48 logs
}
"""By the name of the shape."""
OTHERS = Tolerance(0.05)
"""Of formats of which no logs were compared."""
LAG = 0.05
"""Seconds by which a line may be written later after its time was taken than another one."""
APART = 0.05
"""Relative difference of the headline and the figure by the stamps that is remarked."""
EXACT = 0.02
"""Relative difference of a factor from the whole number that it is taken for."""
LONG = 3000.0
"""Seconds from one line to the next that are looked at one by one."""
ELSEWHERE = 86400.0
"""Seconds by which a run that goes on elsewhere may begin before it ended: by another time zone."""
ROUGH = 0.25
"""Share of its printed time by which one line's stamp may be off …"""
ROUGH_JUMP = 0.01
"""… and of the jump itself."""
FEWEST = 5
"""Lines of which a median is taken."""


JUMPS = ((-3600.0, 1800.0), (3600.0, 0.0))
"""Sizes by which right clocks jump, in seconds: daylight saving time ends, and begins. With each
the time between two lines of which nothing is known but that it is shorter; 0: must be known."""


class ClockGap(NamedTuple):
    """A line, the time since the one before it by the stamps, and its own printed time."""

    line: Occurrence
    passed: float
    time: float
    """In the unit of the shape's deciding number."""
    alone: bool
    """Whether nothing else happened in between."""
    counts: bool
    """Whether it lies in the window."""


class Jump(NamedTuple):
    """A jump of the log's clock."""

    seconds: float
    line: Occurrence


class ClockReading(NamedTuple):
    """What the clock of a log is worth."""

    jumps: tuple[Jump, ...] = ()
    """Known ones, for which figures by the stamps are corrected."""
    contradiction: str | None = None
    """Why printed times and stamps contradict each other."""
    places: tuple[Place, ...] = ()

    def seconds(self, first: Stamped, last: Stamped) -> float:
        """Time between two lines by their stamps, without stated pauses."""
        passed = last.stamp - first.stamp - (last.paused - first.paused)
        return self.between(first.position, last.position, passed)

    def between(self, first: int, last: int, passed: float) -> float:
        """Correct the time from one iteration to another."""
        jumps = (jump.seconds for jump in self.jumps if first < jump.line.position <= last)
        return passed - math.fsum(jumps)


class LogClock:
    """Compares the printed times of one rank's records with their stamps, in one pass."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._tolerance = TOLERANCES.get(shape.name, OTHERS)
        self._resolution = shape.resolution or 0.0
        self.earliest = -self._resolution
        """The least time from one line to the next that is no gap between clocks."""
        self.latest: float | None = None
        self._unstamped = False
        """Whether the record before has no stamp, so that the latest is of an earlier one."""
        self._gaps: list[ClockGap] = []
        self._records = 0
        self._iterations = 0
        self._time = 0.0
        self._clock = 0.0
        self._stretches = 0
        """Runs of lines that were compared one after the other: each begins and ends once."""
        self._end = -1
        self._paces = array("d")

    def advance(self, stamp: float | None, paused: float = 0.0) -> float | None:
        """Take the stamp of the next line; return the time since that of the line before.

        ``paused``: seconds of it that the line says its own time leaves out.
        """
        before = None if self._unstamped else self.latest
        self._unstamped = stamp is None
        if stamp is None:
            return None
        self.latest = stamp
        return None if before is None else stamp - before - paused

    def compare(self, entry: Entry) -> None:
        """Compare a line with the one before, between which nothing happened."""
        time = entry.time * (entry.distance if self._shape.averaged == "step" else 1)
        if entry.line.position - entry.distance != self._end:
            self._stretches += 1
        self._end = entry.line.position
        self._records += 1
        self._iterations += entry.distance
        self._time += time
        self._clock += entry.passed
        if time > 0 and self._tolerance.median is not None:
            self._paces.append(entry.passed / time)

    def add_gap(self, gap: ClockGap) -> None:
        """Take a line whose stamp is before that of the line before, or long after it."""
        # Stamps without a date begin anew each day, for months.
        if len(self._gaps) < MANY * MANY:
            self._gaps.append(gap)

    def read(self, unit: float | None, gpus: int) -> ClockReading:
        """Say what the clock is worth; ``unit``: seconds in one unit of the printed times."""
        if gpus == 1 and self._records == self._iterations and self._tolerance.median is not None:
            # No line is a mean over ranks or steps.
            self._tolerance = self._tolerance._replace(share=self._tolerance.median)
        jumps, back, ahead = self._sorted(unit)
        if back:
            count = "once" if len(back) == 1 else f"{len(back)} times"
            text = f"The log's time stamps go back {count}."
            return ClockReading(contradiction=text, places=tuple(gap.line.place for gap in back))
        if unit is None or not self._shape.complete or not (self._records or ahead):
            return ClockReading(tuple(jumps))
        time = self._time + math.fsum(gap.time for gap in ahead)
        clock = self._clock + math.fsum(gap.passed for gap in ahead)
        contradiction = self._contradiction(unit, time, clock)
        places = tuple(gap.line.place for gap in ahead)
        return ClockReading(tuple(jumps), contradiction, places if contradiction else ())

    def ratio(self, unit: float | None) -> float | None:
        """Printed time of the compared lines ÷ time by the stamps."""
        return self._time * unit / self._clock if unit is not None and self._clock > 0 else None

    def _sorted(self, unit: float | None) -> tuple[list[Jump], list[ClockGap], list[ClockGap]]:
        """Known jumps, and lines of the window before or long after the line before them."""
        jumps: list[Jump] = []
        back: list[ClockGap] = []
        ahead: list[ClockGap] = []
        others = 0
        for gap in self._gaps:
            jump = self._named(gap, unit)
            # Only a clock that begins anew does so more than once.
            if jump is not None and jump.seconds != -(self._shape.wraps or 0.0):
                others += 1
                jump = jump if others == 1 else None
            if jump is not None:
                jumps.append(jump)
            elif gap.counts and (gap.alone or gap.passed < 0):
                fits = gap.passed >= 0 or self._fits(gap, unit)
                (ahead if fits else back).append(gap)
        return jumps, back, ahead

    def _named(self, gap: ClockGap, unit: float | None) -> Jump | None:
        if self._fits(gap, unit):
            return None
        wraps = self._shape.wraps
        anew = () if wraps is None else ((-wraps, wraps / 4),)
        for seconds, longest in (*anew, *JUMPS):
            if self._fits(gap, unit, seconds, longest):
                return Jump(seconds, gap.line)
        return None

    def _fits(
        self, gap: ClockGap, unit: float | None, jump: float = 0.0, longest: float = 0.0
    ) -> bool:
        """Whether a line has its printed time, if the clock jumped before it."""
        rest = gap.passed - jump
        if unit is None or not gap.alone or not self._shape.complete:
            return longest > 0 and -self._resolution <= rest <= longest
        expected = gap.time * unit
        slack = 2 * self._resolution + LAG + ROUGH * expected + ROUGH_JUMP * abs(jump)
        return abs(rest - expected) <= slack

    def _allowed(self, printed: float, clock: float) -> float:
        share, digit, _ = self._tolerance
        ends = (2 * self._resolution + LAG) * math.sqrt(max(self._stretches, 1))
        return ends + digit / 2 * self._iterations + share * max(printed, clock)

    def _contradiction(self, unit: float, time: float, clock: float) -> str | None:
        printed = time * unit
        if abs(printed - clock) > self._allowed(printed, clock):
            return (
                f"{self._records} records say that they took {printed:.2f} s; by their time stamps "
                f"it was {clock:.2f} s."
            )
        limit = self._tolerance.median
        if limit is None or len(self._paces) < FEWEST:
            return None
        pace = tally.median(self._paces)
        usual = unit / pace if pace > 0 else math.inf
        if abs(usual - 1) > limit:
            return f"The median record's own time is {100 * usual:.1f} % of that by its stamps."
        return None


def reasons(
    clock: LogClock, reading: ClockReading, unit: float | None, shape: Shape, gpus: int
) -> Iterator[Finding]:
    """What the stamps say against the printed times, or of themselves."""
    if reading.contradiction is not None:
        likely = factor(clock.ratio(unit), gpus, shape)
        yield rules.CLOCK_MISMATCH.finding(reading.contradiction + likely, reading.places)
    elif reading.jumps:
        sizes = collections.Counter(f"{jump.seconds:+.0f} s" for jump in reading.jumps)
        jumps = [f"{size} ({count} times)" if count > 1 else size for size, count in sizes.items()]
        text = f"The log's clock jumps by {' and '.join(jumps)}; times by it are corrected for it."
        yield rules.CLOCK_JUMP.finding(text, [jump.line.place for jump in reading.jumps])


def apart(
    reading: ClockReading, unit: float | None, tally: Tally, shape: Shape
) -> Iterator[Finding]:
    """The rate by the stamps and by the lines' own times, over the same lines of the window."""
    if unit is None or tally.stamped is None or reading.contradiction is not None:
        return
    first, last = tally.stamped
    seconds, steps = reading.seconds(first, last), last.position - first.position
    iterations, time = last.iterations - first.iterations, last.time - first.time
    if tally.all_steps and tally.span is not None:
        iterations, time = tally.span.iterations, tally.span.time
    if seconds <= 0 or iterations <= 0:
        return
    ratio = time * unit / iterations * steps / seconds
    coarse = 2 * (shape.resolution or 0.0) + LAG
    if abs(ratio - 1) > APART and abs(ratio - 1) * seconds > coarse:
        why = (
            "time passed that is in no training line, such as evaluations and checkpoints"
            if ratio < 1
            else "the lines claim more time than passed"
        )
        share = f"{100 * ratio:.1f} %"
        text = f"By its time stamps the log's rate is {share} of that by its lines: {why}."
        yield rules.CLOCKS_APART.finding(text)


def factor(ratio: float | None, gpus: int, shape: Shape) -> str:
    """The likely cause of two times or rates that differ by a whole factor; empty: none is known.

    ``ratio``: of the times that follow from the rates, to those that passed.
    """
    if not ratio or shape.number != "rate":
        return ""
    far = max(ratio, 1 / ratio)
    whole = round(far)
    # The rate of a whole job follows from more GPUs than were given, of some, or of one of them.
    is_likely = whole == gpus or (shape.per == "job" and (ratio < 1 or gpus % whole == 0))
    if whole < 2 or abs(far / whole - 1) > EXACT or not is_likely:
        return ""
    return (
        f" The factor is {whole}, with {counted(gpus, 'GPU')} given: check --gpus, and whether the"
        " printed rate is one card's or the job's (per)."
    )
