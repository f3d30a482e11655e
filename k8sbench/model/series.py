"""Values of the series of a case: marks, open changes, and what the next set should be."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from k8sbench.model.profile import IterationRange

DAY = 86400.0

Line = tuple[str, str, str]
"""Values that the sets of a case share, see :attr:`.GroupRow.line`."""
Kind = Literal["unconfirmed", "step", "once", "back", "drift"]
"""Kind of a mark.

``unconfirmed``: the newest set differs, and the next one decides. ``step``: so did the next one.
``once``: the next one did not, and is marked ``back``. ``drift``: the last sets differ from the
first ones, a little each.
"""


def night_of(at: float) -> int:
    """Return the day (UTC) of a time, counted from 1970."""
    return int(at // DAY)


class Mark(NamedTuple):
    """A difference of a set from those before."""

    kind: Kind
    change: float
    """Median ÷ level of the sets before − 1; of a drift, last ÷ first sets of its level.

    Of ``back``, that of the set before.
    """
    p: float
    """p of the change, corrected for the cases of the night."""
    since: str
    """Set that it begins with; of a drift, the first set of its level; of ``back``, the set before.
    """
    together: int = 0
    """Number of cases that share the change; 0 if the case alone shows it."""

    @property
    def is_change(self) -> bool:
        """False for a set that differed once, and for the next one."""
        return self.kind not in ("once", "back")


class Open(NamedTuple):
    """A change downwards from which a case has not recovered."""

    kind: Kind
    change: float
    """Present level ÷ the level before it − 1."""
    since: str
    """Set that it begins with; of several drops, the largest."""
    began: float
    """Begin of the first drop from which the case has not recovered, Unix seconds."""

    def includes(self, mark: Mark, began: float) -> bool:
        """True for the mark of each drop of it; ``began`` is the begin of the marked set."""
        return _is_drop(mark, began, self.began)


class Closed(NamedTuple):
    """The end of an open change."""

    since: str
    """Set that the change began with."""
    began: float
    """Begin of the first drop of it, Unix seconds."""
    by: Literal["recovery", "person"]
    """``recovery`` of the case, or a ``person`` who accepted its level."""
    at: float
    """Begin of the set that showed the recovery, or the time of the acceptance; Unix seconds."""

    def includes(self, mark: Mark, began: float) -> bool:
        """True for the mark of each drop of it; ``began`` is the begin of the marked set."""
        return _is_drop(mark, began, self.began)


def _is_drop(mark: Mark, began: float, since: float) -> bool:
    return began >= since and mark.is_change and mark.change < 0


class Alternation(NamedTuple):
    """Two levels between which a case alternates, logarithms of throughputs."""

    low: float
    high: float


class Expected(NamedTuple):
    """The level of a case and the spread between its sets, before a set."""

    level: float
    """Logarithm of the throughput."""
    level_sets: int
    """Number of sets of the level that count."""
    level_began: float
    """Begin of the first set of the level, Unix seconds."""
    level_until: float
    """Begin of the set after the level, Unix seconds: the first changed one if it has ended."""
    variance: float
    """Variance of a set's logarithm."""
    freedom: float
    """Degrees of freedom of the variance."""
    apart: float
    """Variance of a set's distance from the level, per variance of a set."""
    tail: float
    """Degrees of freedom of the tails of the store's nights."""
    sets: int
    """Number of earlier sets."""
    p_of_night: float | None = None
    """p of the night as a whole; None if the case did not move with it, or few cases were there."""


class Judged(NamedTuple):
    """A set of a case, judged."""

    mark: Mark | None
    """Mark of the set, revised by the sets after it."""
    open: Open | None
    """Open change of the case as of this set."""
    expected: Expected | None
    """None if there are too few earlier sets."""
    closed: Closed | None = None
    """The change that this set closed."""
    alternating: Alternation | None = None
    """The levels between which the case alternates as of this set."""

    @property
    def is_notable(self) -> bool:
        """True if the set is marked or closed a change, or if its case alternates as of it."""
        said = self.mark, self.closed, self.alternating
        return any(part is not None for part in said)


class Acceptance(NamedTuple):
    """The newest acceptance of a level of a case."""

    began: float
    """Begin of the set whose level is accepted, Unix seconds."""
    at: float
    """Time at which a person accepted it, Unix seconds."""


class AcceptedLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A level of a case that was accepted: what was open before is closed."""

    case: str
    """Name of the case, for people."""
    line: Line
    """Values that the sets of the case share."""
    set_name: str
    """Newest set of the case."""
    began: float
    """Begin of that set, Unix seconds."""
    accepted_at: float
    """Unix seconds."""


class SeriesRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range of iterations over which the sets of a case are compared."""

    case: str
    """Name of the case, for people."""
    line: Line
    """Values that the sets of the case share."""
    over: IterationRange
    """The range."""
    sets: tuple[str, ...]
    """Names of the sets that fixed it."""


class NightState(NamedTuple):
    """The series of a store after a night."""

    night: int
    """Day (UTC) since 1970."""
    digest: str
    """Digest of all that decided about this night and those before."""
    state: bytes | None
    """As the judge writes it; None if it is not kept."""


NEWEST_KEPT = 3
"""Newest nights whose state is kept: a set is judged when its last run has ended."""
EACH_KEPT = 32
"""Days between earlier nights whose state is kept, for logs that are imported later."""
UNJUDGED = Judged(None, None, None)
"""A set without a figure, or one that claims no speed."""
