"""Two sides beside each other, case by case: what ``compare`` finds, and what ``history`` shows.

A side is what was named: runs, a group, a set or a baseline. Each case of a
side is one or several groups of equal runs (:class:`Figures`); the two sides of a case, its ratio
and what can be said of it are a :class:`Compared`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from k8sbench.model.group import Group, Spread

Unit = Literal["runs", "sets"]
"""What one observation is: a run's throughput, or a set's median."""
Finding = Literal["faster", "slower", "no-difference", "undecided", "not-comparable", "one-side"]
"""``faster``, ``slower``: shown for all cases together. ``no-difference``: none is shown.
``undecided``: so few runs cannot show one."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One case of one side."""

    groups: tuple[Group, ...]
    """Equal in all but what may differ between sets; oldest first."""
    values: tuple[float, ...]
    """Of the observations, samples/s."""
    unit: str
    estimator: str
    spread: Spread | None
    """Of the observations; None where no run counts."""
    runs: int
    """Runs of this side in these groups, valid or not."""
    of: Unit = "runs"

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets, oldest first."""
        return tuple(group.key.set_name for group in self.groups)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not the same on both sides."""

    kind: Literal["plan", "image", "environment", "gpu"]
    name: str
    a: str | None
    """None: not known."""
    b: str | None
    change: float | None = None
    """b ÷ a − 1 of a GPU metric; None for what is no number."""
    cases: tuple[int, ...] = ()
    """Places of the cases in the comparison."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """The medians of a case in earlier sets."""

    sets: int
    """How many have a figure."""
    least: float
    """Samples/s."""
    most: float
    """Samples/s."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One case, and what can be said of it."""

    a: Figures | None
    b: Figures | None
    ratio: float | None = None
    """b ÷ a, of the medians; None where there is none to give."""
    p: float | None = None
    """Of this case alone, two-sided; None without a ratio."""
    p_adjusted: float | None = None
    """The p for all cases of the comparison together, which decides; None without a ratio."""
    p_least: float | None = None
    """The smallest p that so many observations can have; None without a ratio."""
    finding: Finding
    regression: bool = False
    """Slower by more than the limit, and p ≤ 5 % of this case; False where no limit was given."""
    not_comparable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What differs and is allowed to."""
    earlier: Earlier | None = None
    """How an undecided case was in earlier sets; None where those are too few."""

    @property
    def group(self) -> Group:
        """What names the case: the newest group of the second side, else of the first."""
        return next(side.groups[-1] for side in (self.b, self.a) if side is not None)

    @property
    def name(self) -> str:
        """Benchmark, framework, precision and case: ``deeplabv3p pytorch amp 1x8``."""
        key = self.group.key
        return f"{key.benchmark} {key.framework} {key.precision} {key.case}"

    @property
    def outside(self) -> bool:
        """Whether the second side is further from all earlier sets than they are apart."""
        if self.earlier is None or self.b is None or self.b.spread is None:
            return False
        least, most, median = self.earlier.least, self.earlier.most, self.b.spread.median
        return not 2 * least - most <= median <= 2 * most - least

    def __repr__(self) -> str:
        change = "" if self.ratio is None else f", {100 * (self.ratio - 1):+.1f} %"
        return f"<Compared {self.name}: {self.finding}{change}>"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides, case by case."""

    a: str
    """As it was named."""
    b: str
    limit: float | None
    """Share by which the second side may be slower; None where none was given."""
    cases: tuple[Compared, ...]
    differences: tuple[Difference, ...]

    @property
    def regressions(self) -> tuple[Compared, ...]:
        """The cases that are slower beyond the limit, and shown to be slower."""
        return tuple(case for case in self.cases if case.regression)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One set of a series."""

    group: Group
    at: float
    """When its first run was created, or began by its imported log, Unix seconds."""
    change: float | None = None
    """From here on the figure is another: the median from here on ÷ that before − 1."""
    p: float | None = None
    """Of that change."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One case over its sets."""

    points: tuple[Point, ...]
    """Oldest first."""
    unmarked: str | None = None
    """Why no change could be marked, whatever the figures."""

    @property
    def group(self) -> Group:
        """The newest."""
        return self.points[-1].group
