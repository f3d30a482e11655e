"""Explanations: what a figure was made of, and why it counts or does not. Values only.

``explain`` prints them; ``docs/schema.md`` describes them as JSON.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.finding import Finding
from k8sbench.model.group import Deviation, Member
from k8sbench.model.measurement import SCHEMA, Measurement, Verdict
from k8sbench.model.sample import Place


class Formula(msgspec.Struct, frozen=True, kw_only=True):
    """One estimator with its numbers put in."""

    estimator: str
    """The estimator; of a group also ``mean``, ``interval``, ``speedup`` and ``efficiency``."""
    value: float | None
    """Its value, or the coverage of an interval; None if there is none."""
    text: str
    """``a ÷ b = c``; where there is no value, why."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
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
    reproduced_by: tuple[str, ...]
    """Names of the rules that give the published figure up to 0.1 %."""


class RunExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain RUN``."""

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str
    """The run."""
    group: str
    """Id of the group that the run belongs to."""
    set_name: str
    """The set that it belongs to."""
    title: str
    """What was planned, in one line."""
    phase: str
    """The present state, one of the phases."""
    verdict: Verdict | None
    """The verdict within its group; None if it is not measured."""
    throughput: float | None
    """None where the run does not count."""
    unverified: float | None
    """The headline figure of a run that does not count; None for one that does."""
    formulas: tuple[Formula, ...]
    """Each estimator with its numbers."""
    reasons: tuple[Finding, ...]
    """Reasons against the run and warnings, including those of its group."""
    published: tuple[Reproduction, ...]
    """For each source the published figure that is nearest."""
    measurement: Measurement | None
    """The figures on record, and the lines that they came from; None if it is not measured."""


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain GROUP``."""

    schema: int = SCHEMA
    """Version of the document."""
    group: str
    """Id of the group."""
    set_name: str
    """Its set."""
    title: str
    """What was planned, in one line."""
    state: str
    """``valid``, ``running``, ``rejected``, ``cancelled`` or ``failed``."""
    unit: str
    """``images/s``, …."""
    estimator: str
    """The estimator of each run's figure."""
    throughput: float | None
    """The median; None if no run counts."""
    formulas: tuple[Formula, ...]
    """Median, mean, interval, speedup and efficiency, each with its numbers."""
    by_estimator: dict[str, float]
    """Median of the counted runs by each estimator that all of them have."""
    members: tuple[Member, ...]
    """Its runs."""
    reasons: tuple[Finding, ...]
    """Of the group as a whole."""
    published: tuple[Reproduction, ...]
    """For each source the published figure that is nearest."""
    missing: dict[str, str]
    """Name of each figure that is None → why."""


class MatchedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that an expression matches, and what its groups are."""

    place: Place
    """The line."""
    groups: dict[str, str]
    """What its named groups match."""
    unread: tuple[str, ...]
    """Groups whose text is no number, or no precision."""


class ExpressionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One expression of a declared format on a log."""

    variant: str
    """``framework/name`` of the variants that declare it."""
    name: str
    """``record``, ``summary`` or ``facts[0]``."""
    pattern: str
    """The expression."""
    matched: int
    """Lines."""
    lines: tuple[MatchedLine, ...]
    """The first few of those, and the last."""
    unread: int
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
