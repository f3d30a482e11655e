"""The repeats of one case in one set, taken together, and what may be said of them."""

from __future__ import annotations

import msgspec

from k8sbench.model.identity import GroupKey
from k8sbench.model.measurement import Reason
from k8sbench.model.plan import RunPlan


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of a group's valid runs, samples/s of the whole job."""

    median: float
    """The headline, as in the reports that we reproduce."""
    mean: float
    minimum: float
    maximum: float
    cv: float | None
    """Coefficient of variation (sample standard deviation ÷ mean); None for one run."""
    low: float | None
    high: float | None
    """Interval for the median; None for one run."""
    coverage: float | None
    """Exact coverage of [low, high]: 1 − 2^(1−n) for min–max."""
    interval_reason: str | None = None
    """Why there is no interval."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One run's part in its group."""

    run_id: str
    repeat: int
    created_at: float
    rate: float | None
    """samples/s by the group's estimator; None where the run does not count."""
    phase: str
    verdict: str | None
    """None where nothing was measured; the reasons say why."""
    reasons: tuple[Reason, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The repeats of one case in one set."""

    key: GroupKey
    plan: RunPlan
    """Of the first member: what they all have in common."""
    unit: str
    estimator: str
    members: tuple[Member, ...]
    spread: Spread | None
    """None where no run counts; ``reasons`` says why."""
    reasons: tuple[Reason, ...]
    """What concerns the group as a whole (mixed GPU models, an outlier, a log counted twice)."""
    parameters: int | None = None
    gmac: float | None = None
    precision_effective: str | None = None
    device: str | None = None

    @property
    def counted(self) -> int:
        """Number of runs behind the figures."""
        return sum(member.rate is not None for member in self.members)
