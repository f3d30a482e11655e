"""Explanations: what a figure was made of, and why it counts or does not. Values only.

``explain`` prints them; ``docs/schema.md`` describes them as JSON.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.measurement import SCHEMA, MeasuredWindow, Severity, Verdict
from k8sbench.model.sample import Place


class Formula(msgspec.Struct, frozen=True, kw_only=True):
    """One estimator with its numbers put in."""

    estimator: str
    value: float | None
    text: str
    """``a ÷ b = c``; where there is no value, why."""


class LinesCounted(msgspec.Struct, frozen=True, kw_only=True):
    """The training lines behind a run's figures."""

    read: int | None
    """Training lines of the rank that counts; None where the logs are not available."""
    counted: int
    """Those in the window."""
    first: Place | None
    """The first of those; None where the logs are not available."""
    last: Place | None
    unused: int | None
    """Training lines outside the window: of the warm-up, or after its end."""


class TrainingExplained(msgspec.Struct, frozen=True, kw_only=True):
    """The lines behind a time to train and an accuracy."""

    time_to_train_s: float | None
    text: str
    """The time as a difference of two moments; where there is none, why."""
    target: float | None
    """Percent."""
    began: Place | None
    """AI-Rank's test_begin; None where the log has none, or is not at hand."""
    reached: Place | None
    """The first evaluation at the target; None where none reaches it, or the log is not at hand."""
    best: Place | None
    """The best evaluation; None likewise, and of other programs than our trainers."""
    restarts: int


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """A reason, and what to do about it."""

    id: str
    severity: Severity
    accepted: bool
    message: str
    evidence: tuple[Place, ...]
    action: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A way to compute a figure, and what it gives."""

    name: str
    """The estimator; of a group after ``median of`` or ``mean of``."""
    value: float
    deviation: float | None
    """value ÷ published − 1; None where more differs than the rule."""


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure beside every rule."""

    source: str
    title: str
    case: str
    precision: str
    batch_size: int
    gpu_model: str
    published: float
    stated: str
    """The estimator that its report names, or ``unknown``."""
    not_comparable: tuple[str, ...]
    """Ids of what differs besides the rule."""
    rules: tuple[Rule, ...]
    """The nearest first, where there are deviations."""
    reproduced_by: tuple[str, ...]
    """Names of the rules that give the published figure up to 0.1 %."""


class RunExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain RUN``."""

    schema: int = SCHEMA
    run_id: str
    group: str
    set_name: str
    title: str
    """What was planned, in one line."""
    phase: str
    verdict: Verdict | None
    estimator: str | None
    """The headline's."""
    throughput: float | None
    """None where the run does not count."""
    unverified: float | None
    """The headline figure of a run that does not count."""
    unit: str | None
    lines: LinesCounted | None
    warmup_iterations: int | None
    iterations: int | None
    """Measured."""
    window: MeasuredWindow | None
    """With what time_weighted_steady leaves out."""
    formulas: tuple[Formula, ...]
    training: TrainingExplained | None = None
    """None of a run that was not evaluated."""
    reasons: tuple[Why, ...]
    published: tuple[Reproduction, ...]
    missing: dict[str, str]
    """Path of each figure that is null in the measurement → why."""
    notes: tuple[str, ...]


class MemberExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One run's part in a group."""

    run_id: str
    repeat: int
    rate: float | None
    """None where it does not count."""
    unverified: float | None
    reasons: tuple[Why, ...]


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain GROUP``."""

    schema: int = SCHEMA
    group: str
    set_name: str
    title: str
    state: str
    unit: str
    estimator: str
    throughput: float | None
    formulas: tuple[Formula, ...]
    """Median, mean, interval, speedup and efficiency, each with its numbers."""
    by_estimator: dict[str, float]
    """Median of the counted runs by each estimator that all of them have."""
    members: tuple[MemberExplained, ...]
    reasons: tuple[Why, ...]
    """Of the group as a whole."""
    published: tuple[Reproduction, ...]
    missing: dict[str, str]


class MatchedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that an expression matches, and what its groups are."""

    place: Place
    groups: dict[str, str]
    unread: tuple[str, ...]
    """Groups whose text is no number, or no precision."""


class NearMiss(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the beginning of an expression matches, and not all of it."""

    place: Place
    matches: str
    """The longest beginning of the expression that fits."""
    then: str
    """The rest of the expression, which does not."""
    found: str
    """What the line has there."""


class ExpressionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One expression of a declared format on a log."""

    variant: str
    """``framework/name`` of the variants that declare it."""
    name: str
    """``record``, ``summary`` or ``facts[0]``."""
    pattern: str
    matched: int
    """Lines."""
    lines: tuple[MatchedLine, ...]
    """The first few of those, and the last."""
    unread: int
    """Matched lines of which a group is no number."""
    misses: tuple[NearMiss, ...]
    """Only where it matches nothing: the lines that come nearest."""


class FormatExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """``explain FILE.yaml LOG``."""

    schema: int = SCHEMA
    benchmark: str
    log: str
    read: int
    """Lines."""
    expressions: tuple[ExpressionExplained, ...]
