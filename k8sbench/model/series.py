"""Values of the series of a case: marks, open changes, and what the next set should be."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

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
    """Set that it begins with."""

    def includes(self, mark: Mark, *, is_later: bool) -> bool:
        """True for its own mark, and for that of each further drop in a later set."""
        return mark.since == self.since or (is_later and mark.is_change and mark.change < 0)


class Closed(NamedTuple):
    """The end of an open change."""

    since: str
    """Set that the change began with."""
    by: Literal["recovery", "person"]
    """Whether the case recovered, or a person accepted its level."""
    at: float
    """Begin of the set that showed the recovery, or the time of the acceptance; Unix seconds."""


class Alternation(NamedTuple):
    """Two levels between which a case alternates, logarithms of throughputs."""

    low: float
    high: float


class Expected(NamedTuple):
    """The level of a case and the spread between its sets, before a set."""

    level: float
    """Logarithm of the throughput."""
    weight: float
    """Number of independent sets that the level counts as."""
    variance: float
    """Variance of one set's median, of logarithms."""
    freedom: float
    """Degrees of freedom of the variance."""
    sets: int
    """Number of earlier sets."""
    run_variance: float
    """Variance of one run within a set; 0 if no set has two."""
    run_share: float
    """Mean of 1 ÷ the number of runs of a set."""

    def fewer_runs(self, runs: float) -> float:
        """Return the variance that a set with fewer runs than usual has in addition."""
        return max(0.0, self.run_variance * (1 / runs - self.run_share))


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


class SeriesState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of judging the series of a store."""

    version: int = 0
    """Number of changes of groups."""
    changed: int | None = None
    """Earliest night with a changed group; None if all groups are judged."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The series of all cases of a store after a night."""

    night: int | None = None
    """None before the first night."""
    cases: bytes = b"[]"
    """As the judge writes them."""


UNJUDGED = Judged(None, None, None)
"""A set without a figure, or one that claims no speed."""
