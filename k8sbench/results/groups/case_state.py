"""The series of a case so far, as much of it as later sets need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.series import Alternation, Line, Mark, Open
from k8sbench.results.groups import levels
from k8sbench.results.groups.levels import Correlated
from k8sbench.results.groups.t_test import Estimate

FEWEST = 4
"""Sets of a first level from which a further set is judged."""
FEWEST_LATER = 2
"""Sets of a later level from which a further set is judged."""
LEVEL = 20
"""Newest sets of a level that count: a level may age."""
MEMORY = 40
"""Nights, with tonight, that count for spread, correlation and oddness: two months of work days."""
RELEVANT = 0.005
"""Smallest drift, and smallest drop that stays open."""
KEPT = MEMORY + LEVEL
"""Sets of a case that later ones need: the level before a change, and the sets since."""


class Reference(NamedTuple):
    """The level from which a case has fallen."""

    level: float
    weight: float
    """Number of independent sets that it is worth."""
    began: float
    """Begin of the change, Unix seconds."""


class Member(msgspec.Struct):
    """A set of a case, as later sets need it."""

    group_id: str
    set_name: str
    began: float
    round: int
    """Number of the round of sets in which it was judged."""
    value: float
    counts: bool
    """True if its difference from the set before counts in the spread."""
    most: float = math.inf
    """Most that the square of this difference counts."""
    score: float | None = None
    """Normal score of its distance from its level; None if it tells nothing of odd nights."""
    mark: Mark | None = None

    @property
    def is_odd(self) -> bool:
        """True if the set differed once."""
        return self.mark is not None and self.mark.kind == "once"


class Waiting(msgspec.Struct):
    """An unconfirmed set, until later ones decide."""

    place: int
    """Its number among all sets of the case."""
    level: float
    """Level that it was held against."""
    variance: float
    """Variance of a set then."""
    nights: int = 0
    """Sets since then."""


class CaseState(msgspec.Struct):
    """The series of a case so far, as much of it as later sets need."""

    sets: int = 0
    """Number of sets."""
    members: list[Member] = []
    """Newest sets, oldest first."""
    in_level: int = 0
    """Sets of the level."""
    earlier: Correlated = Correlated(0.0, 0.0)
    """Share of earlier levels in the correlation of nights."""
    present: Correlated = Correlated(0.0, 0.0)
    """Share of the level."""
    waiting: list[Waiting] = []
    settled: tuple[float, int] | None = None
    """Newest level of :data:`SETTLED` sets or more that has ended, and the number of its sets."""
    reference: Reference | None = None
    fallen: Open | None = None
    """The open change, whether or not it is relevant."""
    drops: list[Mark] = []
    """Drops since the reference that no rise has taken back, oldest first."""
    opened: float = 0.0
    """Logarithm of the change with which it opened."""
    steps: list[tuple[int, float]] = []
    """Newest steps: number of the first set, and change."""
    alternation: Alternation | None = None

    @property
    def is_first(self) -> bool:
        """True if no level has ended."""
        return self.in_level == self.sets

    def level(self, newest: int) -> list[float]:
        """Return the newest sets of the level, oldest first."""
        count = min(newest, self.in_level)
        return [member.value for member in self.members[-count:]] if count else []

    def agreeing(self, newest: int, changed: float = math.inf) -> list[Member]:
        """Return the newest sets of the level, less those that differed once, oldest first.

        From the round ``changed`` on they are of another level, from which none differs.
        """
        members = self.members[-min(self.in_level, len(self.members)) :] if self.in_level else []
        agreeing = [member for member in members if not member.is_odd or member.round >= changed]
        return agreeing[-newest:]

    def member(self, number: int) -> Member | None:
        """Return a set by its number among all; None if it is too old."""
        place = number - self.sets
        return self.members[place] if -len(self.members) <= place < 0 else None

    def spread(self) -> Estimate | None:
        """Estimate the variance of a set from the sets before tonight; None with too few."""
        squares, count = squares_of(self.members[-(MEMORY - 1) :])
        return levels.spread(squares, count) if count >= 2 else None

    @property
    def visible(self) -> Open | None:
        """The open change if it is relevant; else a drop that is not confirmed yet."""
        if self.fallen is not None and self.fallen.change <= -RELEVANT:
            return self.fallen
        newest = self.members[-1].mark if self.members else None
        if newest is not None and newest.kind == "unconfirmed" and newest.change <= -RELEVANT:
            return Open("unconfirmed", newest.change, newest.since, self.members[-1].began)
        return None


class State(msgspec.Struct):
    """The series of all cases of a store after a night."""

    round: int = 0
    """Number of the newest round of sets."""
    cases: list[tuple[Line, CaseState]] = []


def squares_of(members: Sequence[Member]) -> tuple[float, int]:
    """Return the sum of the squared differences that count, and their number."""
    squares = [
        min((after.value - before.value) ** 2, after.most)
        for before, after in itertools.pairwise(members)
        if after.counts
    ]
    return math.fsum(squares), len(squares)
