"""Two sides compared case by case, for ``compare`` and ``history``.

A side is a name of runs, of a group, a set or a baseline. Each case of a side has one or several
groups of equal runs (:class:`Figures`). The two sides of a case, its ratio and its verdict are a
:class:`Compared`; what may explain its change is a :class:`Cause`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from k8sbench.messages import Note
from k8sbench.model.group import Changed, Group, MissingIn, Spread
from k8sbench.model.profile import IterationRange
from k8sbench.model.series import Alternation, Closed, Mark, Open

RateChange = Literal[
    "faster", "slower", "back", "no-difference", "undecided", "not-comparable", "one-side"
]
"""Verdict of a case.

``faster``, ``slower``: shown for all cases together. ``no-difference``: none is shown.
``back``: the older side is a set that differed once, and the newer one is of the level before it.
``undecided``: one run on a side, and too few earlier sets.
"""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One case of one side."""

    groups: tuple[Group, ...]
    """Equal groups except for differences between sets; oldest first."""
    values: tuple[float, ...]
    """Throughputs of the counted runs, samples/s."""
    unit: str
    estimator: str
    spread: Spread | None
    """Spread of the values; None if no run counts."""
    runs: int
    """Runs of this side in these groups, valid or not."""

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets, oldest first."""
        return tuple(group.key.set_name for group in self.groups)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of runs that differs between two sets of a case."""

    kind: Literal["plan", "image", "environment", "gpu"]
    name: str
    a: str | None
    """Value of the earlier set; None where the plan has none."""
    b: str | None
    change: float | None = None
    """b ÷ a − 1 of a GPU metric; None without numbers."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that differ in the same cases, and so cannot be told apart."""

    explains: Literal["slower", "faster"] | None
    """Cases that it may explain; None if no case changed."""
    facts: tuple[Difference, ...]
    """Each fact once with each of its values."""
    sets: tuple[str, str]
    """Names of what is held against each other.

    The last set before the change and the first after it, or the sides.
    """
    cases: tuple[int, ...]
    """Places of the cases with these facts that it explains, or all without a change."""
    others: tuple[int, ...] = ()
    """Places of cases with these facts that show no change."""


class FieldChange(NamedTuple):
    """A field of the case list in which a new case differs from the one in whose place it is."""

    name: str
    a: str
    """Value of the case before."""
    b: str


class NewCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case in the place of another, which ended: a renamed pool, another GPU model or default."""

    since: str
    """Its first set."""
    fields: tuple[FieldChange, ...]
    """Fields in which it differs."""
    a: float
    """Median of the last sets of the case before, samples/s."""
    b: float
    """Median of its own sets, samples/s."""
    ratio: float | None
    """b ÷ a; None if the two cannot be compared."""
    not_comparable: tuple[str, ...] = ()
    """Ids of what forbids the ratio."""


class SinceBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """The second side of a case against the newest baseline of the case."""

    name: str
    """Name of the baseline."""
    ratio: float
    """Second side ÷ baseline of the medians."""
    low: float | None
    """Lower end of the change's interval, as in :class:`Compared`."""
    high: float | None
    finding: RateChange


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One case on both sides: figures, change, finding."""

    a: Figures | None
    b: Figures | None
    ratio: float | None = None
    """b ÷ a of the medians; None if they cannot be compared."""
    low: float | None = None
    """Lower end of the change's interval, b ÷ a − 1.

    At 95 % over all cases. None without a ratio, or if undecided; so are the figures below.
    """
    high: float | None = None
    """Upper end of the same interval."""
    least: float | None = None
    """Smallest loss that these runs can show, as a share."""
    p: float | None = None
    """Two-sided p of this case alone."""
    p_adjusted: float | None = None
    """p corrected for all cases, which decides."""
    earlier_sets: int | None = None
    """Number of earlier sets whose spread decides; None: too few, the runs' own spread decides."""
    open: Open | None = None
    """Change from which the case has not recovered with the newer side; None without one."""
    odd: Mark | None = None
    """Mark of the older side if the finding is ``back``, else None."""
    changed: Changed | None = None
    """Change that is open with the newer side's newest set, or that it shows; None without one."""
    alternating: Alternation | None = None
    """Two levels between which the case alternates as of that set; None if it does not."""
    new: NewCase | None = None
    """Place of another case that the newer side's case has taken; None if it is not new."""
    since_baseline: SinceBaseline | None = None
    """None without a baseline of the case, and if the newest one has runs of a side."""
    finding: RateChange
    regression: bool = False
    """True if found slower, and by more than the limit."""
    not_comparable: tuple[str, ...] = ()
    over: IterationRange | None = None
    """Iterations that are compared; None if a benchmark names the window of a run."""
    notes: tuple[Note, ...] = ()
    """Allowed differences."""
    left_out: tuple[str, ...] = ()
    """Sets of a side without a figure, beside one with a figure."""

    @property
    def group(self) -> Group:
        """Newest group of the second side, else of the first; names the case."""
        return next(side.groups[-1] for side in (self.b, self.a) if side is not None)


class MissingCase(NamedTuple):
    """A case that newer sets lack."""

    group: Group
    """Its newest group with a figure, or else its newest."""
    missing_in: MissingIn


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides, case by case."""

    a: str
    """Name of the first side, as given; of a night, that of its set; empty without a night."""
    b: str
    nights: tuple[str, ...] = ()
    """Days (UTC) of the newest night and of the one before it, that one first.

    One alone if the store has no other night; empty where the sides were named.
    """
    limit: float | None
    """Share by which the second side may be slower; None without a limit."""
    floor: float
    """Smallest change of a case without enough earlier sets, as a share."""
    a_is_newer: bool = False
    """True if no set of the second side is newer than the first side's newest."""
    cases: tuple[Compared, ...]
    causes: tuple[Cause, ...] = ()
    """Likely causes of the changes, likeliest first."""
    missing: tuple[MissingCase, ...] = ()
    """Missing cases that neither night has; empty where the sides were named."""

    @property
    def sets(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the sets of each side."""
        first = [case.a.sets for case in self.cases if case.a is not None]
        second = [case.b.sets for case in self.cases if case.b is not None]
        return frozenset().union(*first), frozenset().union(*second)

    @property
    def regressions(self) -> tuple[Compared, ...]:
        """Cases with a regression."""
        return tuple(case for case in self.cases if case.regression)


class OpenBegin(msgspec.Struct, frozen=True, kw_only=True):
    """A set in which open changes began, held against the last one before."""

    compared: Comparison
    """Its cases with an open change, ``slower``, those that show no change, and the causes."""
    left_out: int
    """Cases without a change that were not looked at."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One set of a series."""

    group: Group
    at: float
    """Creation of the first run, or its start by an imported log, Unix seconds."""
    mark: Mark | None = None
    """Change that it shows; None without one."""
    closed: Closed | None = None
    """Open change that it closed; None without one."""


class CaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a case over its sets."""

    group: Group
    """The case in the set that shows the change."""
    at: float
    """Start of that set, Unix seconds."""
    mark: Mark
    is_open: bool
    """True if the case has not recovered from it, or from an earlier one."""
    closed: Closed | None = None
    """The end of the open change that it was part of; None without one."""
    of_several_models: bool = False
    """True if the cases that were looked at have several GPU models."""


class AlternatingCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case that alternates between two levels."""

    group: Group
    """The case in its newest set."""
    levels: Alternation
    of_several_models: bool = False
    """True if the cases that were looked at have several GPU models."""


class UnjudgedSets(msgspec.Struct, frozen=True, kw_only=True):
    """The newest sets of a case with a figure, none of which has one over the range of the case."""

    groups: tuple[Group, ...]
    """Oldest first; one or more."""
    has_other_range: bool
    """True if the newest four sets fix another range, over which the newest has a figure."""


class CaseHistory(msgspec.Struct, frozen=True, kw_only=True):
    """One case over its sets."""

    points: tuple[Point, ...]
    """Oldest first."""
    open: Open | None = None
    """Change from which the case has not recovered; None without one."""
    alternating: Alternation | None = None
    """Two levels between which the case alternates; None if it does not."""
    unmarked: Note | None = None
    """Reason why no set could be judged."""
    unjudged: UnjudgedSets | None = None
    """Newest sets that cannot be judged over its range; None if the newest one can."""
    new: NewCase | None = None
    """Place of another case that it has taken; None if it is not new."""

    @property
    def group(self) -> Group:
        """The newest."""
        return self.points[-1].group
