"""Whether lines that the cluster no longer had matter to what was measured.

A gap is known by the time stamps on either side of it. Where it cannot be shown to lie outside the
measured window, it might hold a restart, an evaluation or training lines of it, and the figures
are rejected. Only our own trainers print the time in a form that can be compared with those
stamps; other programs print it in a zone that they do not name.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence

from k8sbench.measure.run import redaction, rules
from k8sbench.measure.run.log_facts import OpenedLog
from k8sbench.model.finding import Finding, Severity
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import LogGap, Place
from k8sbench.parse.lines import NumberedLine, UniqueLines

OWN = "k8sbench"
BUFFERED_SECONDS = 5.0
"""At most between the time that a program prints and the one at which its line was taken."""
_STAMP = len("2026-11-20T08:15:30.123456")


class WatchedLog:
    """An archived log that is being read; notes the lines on either side of its gaps."""

    def __init__(self, source: OpenedLog, gaps: Sequence[LogGap]) -> None:
        self.name = source.name
        self.cut_lines = 0
        self.places: list[Place] = []
        self.source = source
        self._ahead = sorted(_stamp(gap.after) for gap in gaps)

    def __iter__(self) -> Iterator[str]:
        before, number = None, 1
        for block in self.source:
            for line in UniqueLines([block], number):
                while self._ahead and line[1][:_STAMP] > self._ahead[0]:
                    del self._ahead[0]
                    self._note(before)
                    self._note(line)
                before = line
            number += block.count("\n")
            self.cut_lines = self.source.cut_lines
            yield block
        if self._ahead:
            self._note(before)

    def _note(self, line: NumberedLine | None) -> None:
        if line is not None:
            self.places.append(redaction.place(self.name, *line))


def gaps_reason(
    measurement: Measurement, gaps: Sequence[LogGap], evidence: Sequence[Place], *, first: str
) -> Finding:
    """Build the reason that gaps in a run's logs are for or against its measurement.

    ``first`` is the replica of rank 0, from whose log the figures are.
    """
    worst = [gap for gap in gaps if gap.replica == first and _may_matter(gap, measurement)]
    text = _described((worst or gaps)[0])
    others = len(gaps) - 1
    if others:
        text += f" And {others} more gap{'s' if others > 1 else ''}."
    severity: Severity = "reject" if worst else "warn"
    return rules.INCOMPLETE_LOG.finding(text, evidence, severity=severity)


def _may_matter(gap: LogGap, measurement: Measurement) -> bool:
    """Whether a gap in rank 0's log may hold lines of the window, as far as can be known."""
    window = measurement.window
    if measurement.format != OWN or window is None or window.seconds is None:
        return True
    if window.started_at is None or window.ended_at is None:
        return True
    # The first stamp may be that of the first counted line, which the time is before.
    began = min(window.started_at, window.ended_at - window.seconds)
    after = -math.inf if gap.after is None else gap.after
    before = math.inf if gap.before is None else gap.before
    return after - BUFFERED_SECONDS < window.ended_at and before > began - BUFFERED_SECONDS


def _described(gap: LogGap) -> str:
    if gap.after is not None and gap.before is not None:
        missing = f"lines between {_clock(gap.after)} and {_clock(gap.before)}"
    elif gap.before is not None:
        missing = f"the lines before {_clock(gap.before)}"
    elif gap.after is not None:
        missing = f"what came after {_clock(gap.after)}"
    else:
        missing = "everything"
    return f"The log of {gap.replica} lacks {missing}: {gap.why}"


def _clock(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%H:%M:%S} UTC"


def _stamp(at: float | None) -> str:
    """Write a time as archived lines begin with it; before all others, if there is none."""
    if at is None:
        return ""
    micros = round(at * 1_000_000)
    moment = datetime.datetime.fromtimestamp(micros // 1_000_000, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros % 1_000_000:06d}"
