"""Comparison of printed times with the times at which the lines arrived.

The node, or whoever archived the log, stamps each line. The program has no part in these stamps, so
they check what it says of its own speed.

A program that buffers its output writes many lines at once. Lines that arrive together therefore
count as one *moment*, and the time from one moment to the next is compared with what the lines in
between say. A moment is known to a gap between two moments, so one such gap may differ. A gap in
which the log states an evaluation, a checkpoint, an epoch's end or a restart is left out.
"""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from k8sbench.messages import Note, note
from k8sbench.model import rules
from k8sbench.model.clock_note import LEAST_SECONDS
from k8sbench.model.errors import Finding, Severity
from k8sbench.model.sample import DISPROVED, TOLERANCE, Shape
from k8sbench.reader.measuring.evidence import Occurrence
from k8sbench.reader.measuring.log_clock import CLOCK_IGNORED, MEASURE_AGAIN, overclaim
from k8sbench.reader.measuring.rank_sums import Entry

TOGETHER = 0.05
"""Seconds within which lines arrive together."""
FEWEST_MOMENTS = 20
"""Moments without which nothing is compared."""
FIRST_COMPARED = 2
"""Number of the moment from which the whole run is compared."""
DELAY = 0.5
"""Variation of the delay from printing a line to its stamp, seconds.

Whoever reads the lines may be busy.
"""
OUTLIER = 2.0
"""Gap ÷ usual gap above which unknown lines may explain a gap."""


class _Sums(NamedTuple):
    """Iterations of the kept gaps, and their seconds by the lines and by the arrivals."""

    iterations: int
    printed: float
    passed: float
    is_apart: bool
    """True if the two contradict each other."""


class _Claims(NamedTuple):
    """Claims of the lines up to one, in the unit of the shape's deciding number."""

    lines: float = 0.0
    """Time of the lines alone."""
    steps: float = 0.0
    """Time of all steps, where lines stand for those that they leave out."""


class _WholeRun:
    """Claims of all lines, beside the time from the second moment to the last but one.

    Whoever reads a log may begin late, and what is held at its end may be written at once. In
    between the lines of a moment claim time since the moment before, whatever else happened.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        """Arrival of the first line of the latest moment."""
        self._moments = 0
        """Moments that are over."""
        self._claimed = _Claims()
        self._first = self._last = (0.0, _Claims())
        """Arrival of the second moment and of the latest that is over, and the claims by then."""
        self._longest = 0.0
        self._is_set_back = False

    def add(self, lines: float, steps: float, at: float | None) -> None:
        """Add a line: the :class:`_Claims` that it adds, and when it arrived."""
        began = self._began
        if at is not None and (began is None or at - began >= TOGETHER):
            if began is not None:
                self._moments += 1
                self._last = (began, self._claimed)
                self._longest = max(self._longest, at - began)
            if self._moments <= FIRST_COMPARED:
                self._first = self._last
            self._began = at
        elif at is not None and began is not None:
            self._is_set_back |= began - at > LEAST_SECONDS
        self._claimed = _Claims(self._claimed.lines + lines, self._claimed.steps + steps)

    def overclaim(self, unit_seconds: float, shape: Shape) -> Note | None:
        """Say that the lines claim more time than passed; None if not."""
        (began, before), (ended, claimed) = self._first, self._last
        if self._is_set_back or self._moments + 1 < FEWEST_MOMENTS:
            return None
        passed = ended - began
        late = self._longest + DELAY
        lines = (claimed.lines - before.lines) * unit_seconds
        steps = (claimed.steps - before.steps) * unit_seconds
        share = _share(shape, lines, passed) * lines
        return overclaim(lines, passed, share + late) or overclaim(
            steps, passed, DISPROVED * passed + late
        )


def _share(shape: Shape, printed: float, passed: float) -> float:
    return max(TOLERANCE, shape.allowed_share(printed, passed))


class Arrivals:
    """Compares one rank's records with their arrival, in one pass."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._began: float | None = None
        """Arrival of the first line of the latest moment; None before the first."""
        self._latest: float | None = None
        """Arrival of the latest counted line."""
        self._back: tuple[float, Occurrence | None] = (0.0, None)
        """Largest step back from one line to the next, seconds, and its line."""
        self._back_pace = 0.0
        """Printed time of an iteration of that line, in the unit of the shape's number."""
        self._position = 0
        """Last iteration that a counted line covers."""
        self._begin()
        self._iterations = array("q")
        self._printed = array("d")
        """By the lines, in the unit of the shape's deciding number."""
        self._passed = array("d")
        """By their arrival, seconds."""
        self._is_sampled = False
        """True if lines of single steps leave out steps."""
        self._buffered = False
        """True if several lines arrived in the latest moment."""
        self._follows = False
        """True if the latest gap ended at the latest moment and was kept."""
        self._first: Occurrence | None = None
        self._last: Occurrence | None = None
        self._whole = _WholeRun()

    def _begin(self) -> None:
        """Begin the gap after a moment."""
        self._steps = 0
        self._time = 0.0
        self._paused = 0.0
        self._explained = False

    def add(self, entry: Entry) -> None:
        """Add a record that leads further."""
        self._explained |= entry.explained
        if not entry.counts:
            return
        record, position = entry.line.record, entry.line.position
        steps = position - self._position
        self._position = position
        at, began = record.taken, self._began
        if at is not None or self._latest is not None:
            pace = entry.time / entry.covered
            self._whole.add(entry.time, entry.time if self._explained else pace * steps, at)
        if at is not None and self._latest is not None and not self._explained:
            back = self._latest - at
            if back > max(LEAST_SECONDS, self._back[0]):
                self._back = (back, entry.line)
                self._back_pace = entry.time / entry.covered
        self._latest = at
        if at is None or began is None or began - at > LEAST_SECONDS:
            # Nothing to compare with, or the clock of the stamps was set back.
            self._open(at)
            return
        self._is_sampled |= self._shape.averaged == "step" and steps > entry.covered
        self._steps += steps
        self._time += entry.time / entry.covered * steps
        self._paused += record.paused
        self._first = self._first or entry.line
        self._last = entry.line
        if self._explained and self._buffered and self._follows:
            # What the log states now may have begun before its lines before were written.
            self._drop()
        if at - began < TOGETHER:
            self._buffered = True
            return
        self._follows = not self._explained
        if self._follows:
            self._iterations.append(self._steps)
            self._printed.append(self._time)
            self._passed.append(at - began - self._paused)
        self._open(at)

    def _open(self, at: float | None) -> None:
        self._follows = self._follows and at is not None
        self._began = at
        self._buffered = False
        self._begin()

    def _drop(self) -> None:
        for kept in (self._iterations, self._printed, self._passed):
            kept.pop()
        self._follows = False

    def set_back(self, unit_seconds: float | None) -> Iterator[Finding]:
        """Yield that the clock of the arrival was set back.

        A warning where the printed times agree with all other arrivals, and do not step there.
        """
        seconds, line = self._back
        if line is None:
            return
        by = f"{seconds:.1f}"
        sums = None if unit_seconds is None else self._sums(unit_seconds)
        if sums is None or sums.is_apart or self._steps_there:
            said = note("clock-mismatch-arrival-back", seconds=by)
            yield rules.CLOCK_MISMATCH.finding(said, [line.place], action=MEASURE_AGAIN)
        else:
            said = note("clock-mismatch-arrival-back-beside", seconds=by)
            yield rules.CLOCK_MISMATCH.finding(said, [line.place], "warn", action=CLOCK_IGNORED)

    @property
    def _steps_there(self) -> bool:
        """True if the printed time of the line that arrived before the last one is unusual."""
        paces = [self._printed[number] / self._iterations[number] for number in self._kept()]
        usual = statistics.median(paces)
        return not usual / OUTLIER <= self._back_pace <= usual * OUTLIER

    def contradictions(self, unit_seconds: float, samples: float, unit: str) -> Iterator[Finding]:
        """Yield what the arrival of the lines says against them.

        ``unit_seconds``: seconds in one unit of the printed times. ``samples``: those of an
        iteration of the job, in the ``unit`` of the figure.
        """
        places = [line.place for line in (self._first, self._last) if line is not None]
        if (problem := self._whole.overclaim(unit_seconds, self._shape)) is not None:
            yield rules.ARRIVAL_MISMATCH.finding(
                note("arrival-mismatch-claim", said=problem), places
            )
            return
        sums = self._sums(unit_seconds)
        if sums is None or not sums.is_apart:
            return
        iterations, printed, passed, _ = sums
        said = note(
            "arrival-mismatch-rates",
            printed=f"{samples * iterations / printed:.2f}",
            arrived=f"{samples * iterations / passed:.2f}",
            unit=unit,
            iterations=iterations,
            seconds=f"{passed:.1f}",
        )
        # A buffer may write in a shorter time what it held.
        is_known = passed < printed or self._shape.lacks_time(is_sampled=self._is_sampled)
        severity: Severity = "warn" if is_known else "reject"
        yield rules.ARRIVAL_MISMATCH.finding(said, places, severity)

    def _sums(self, unit_seconds: float) -> _Sums | None:
        """Return the sums of the kept gaps; None for few."""
        kept = self._kept()
        if len(kept) + FIRST_COMPARED < FEWEST_MOMENTS:
            return None
        printed = unit_seconds * sum(self._printed[number] for number in kept)
        passed = sum(self._passed[number] for number in kept)
        share = _share(self._shape, printed, passed)
        longest = max(self._passed[number] for number in kept)
        allowed = share * max(printed, passed) + longest + DELAY
        is_apart = abs(printed - passed) > allowed and min(printed, passed) > 0
        return _Sums(sum(self._iterations[number] for number in kept), printed, passed, is_apart)

    def _kept(self) -> list[int]:
        """Return the numbers of the gaps that hold only training.

        Whoever reads a log may begin late, so that lines of the first moment were held. Where the
        format does not say how evaluations and checkpoints look, long gaps may be some.
        """
        every = range(1, len(self._passed))
        if self._shape.events_known or not every:
            return list(every)
        paces = {number: self._passed[number] / self._iterations[number] for number in every}
        limit = OUTLIER * statistics.median(paces.values())
        return [number for number in every if paces[number] <= limit]
