"""Explanations: what a figure was made of, and why it counts or does not. Values only.

``explain`` prints them; ``docs/schema.md`` describes them as JSON.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.finding import Finding
from k8sbench.model.group import Deviation, Member
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.sample import Place


class Formula(msgspec.Struct, frozen=True):
    """One estimator with its numbers put in."""

    estimator: str
    """The estimator; of a group also ``mean``, ``interval``, ``speedup`` and ``efficiency``."""
    value: float | None
    """Its value, or the coverage of an interval; None if there is none."""
    text: str
    """``a ÷ b = c``; where there is no value, why."""


class Rule(msgspec.Struct, frozen=True):
    """A way to compute a figure, and what it gives."""

    name: str
    """The estimator; of a group after ``median of`` or ``mean of``."""
    value: float
    """Our figure by it."""
    deviation: float | None
    """value ÷ published − 1; None where more differs than the rule."""


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure beside every rule."""

    figure: Deviation
    """The figure, and ours by the estimator that its report names."""
    not_comparable: tuple[str, ...]
    """Ids of what differs besides the rule."""
    rules: tuple[Rule, ...]
    """The nearest first, where there are deviations."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain RUN`` and ``explain GROUP``."""

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str | None = None
    """The run; None where a group is explained."""
    group: str
    """Id of the group."""
    set_name: str
    """Its set."""
    title: str
    """What was planned, in one line."""
    job_kinds: tuple[str, ...] = ()
    """Kinds of the jobs on Kubernetes (``PyTorchJob``), which make no other case."""
    state: str
    """Of a group ``valid``, ``running``, ``rejected``, ``cancelled`` or ``failed``; of a run its
    verdict within its group, or its phase where it is not measured."""
    unit: str
    """``images/s``, …."""
    estimator: str
    """The estimator of each run's figure."""
    throughput: float | None
    """The run's figure, or the median of the group; None where nothing counts."""
    unverified: float | None = None
    """The headline figure of a run that does not count; None for one that does, and of a group."""
    formulas: tuple[Formula, ...]
    """Of a run each estimator with its numbers; of a group median, mean, interval, speedup and
    efficiency."""
    members: tuple[Member, ...]
    """The runs of the group; of a run itself."""
    reasons: tuple[Finding, ...]
    """Reasons against the run and warnings, including those of its group; or those of the group."""
    published: tuple[Reproduction, ...]
    """For each source the published figure that is nearest."""
    measurement: Measurement | None = None
    """The figures on record of a run, and the lines that they came from; None if it is not
    measured, and of a group."""


class MatchedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that an expression matches, and what its groups are."""

    place: Place
    """The line."""
    groups: dict[str, str]
    """What its named groups match."""
    unread: tuple[str, ...]
    """Groups whose text is no number, or no precision."""


class ExpressionExplained(msgspec.Struct, kw_only=True):
    """One expression of a declared format on a log."""

    variant: str
    """``framework/name`` of the variants that declare it."""
    name: str
    """``record``, ``summary`` or ``facts[0]``."""
    pattern: str
    """The expression."""
    matched: int = 0
    """Lines."""
    lines: list[MatchedLine] = msgspec.field(default_factory=list)
    """The first few of those."""
    unread: int = 0
    """Matched lines of which a group is no number."""


class FormatExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain FILE.yaml LOG``."""

    schema: int = SCHEMA
    """Version of the document."""
    benchmark: str
    """Name in the file."""
    log: str
    """The log."""
    read: int
    """Lines."""
    expressions: tuple[ExpressionExplained, ...]
    """Every expression of the file's formats."""
