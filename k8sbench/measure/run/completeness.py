"""Whether lines that the cluster no longer had matter to what was measured.

A gap is known by the time stamps on either side of it. Where it cannot be shown to lie outside the
measured window, it might hold a restart, an evaluation or training lines of it, and the figures
are rejected. Only our own trainers print the time in a form that can be compared with those
stamps; other programs print it in a zone that they do not name.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

from k8sbench.measure.run import rules
from k8sbench.model.finding import Finding, Severity
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import LogGap

OWN = "k8sbench"
BUFFERED_SECONDS = 5.0
"""At most between the time that a program prints and the one at which its line was taken."""


def gaps_reason(measurement: Measurement, gaps: Sequence[LogGap], *, first: str) -> Finding:
    """Build the reason that gaps in a run's logs are for or against its measurement.

    ``first`` is the replica of rank 0, from whose log the figures are.
    """
    worst = [gap for gap in gaps if gap.replica == first and _may_matter(gap, measurement)]
    text = _described((worst or gaps)[0])
    others = len(gaps) - 1
    if others:
        text += f" And {others} more gap{'s' if others > 1 else ''}."
    severity: Severity = "reject" if worst else "warn"
    return rules.INCOMPLETE_LOG.finding(text, severity=severity)


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
