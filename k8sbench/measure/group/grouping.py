"""Groups: repeats of one case in one set, and their spread.

Repeats are the runs whose plans give the same group key. Reported properties (GPU model, precision
in effect, image digest, driver, framework version) must be equal, too: a run that differs from the
majority does not count, and without a majority none does. It stays a member, with its reasons. No
run is dropped silently, and the result does not depend on the order of the runs.

The reasons that can arise here are in :mod:`k8sbench.measure.group.rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from k8sbench.measure import verdict
from k8sbench.measure.group import group_figures, rejections, rules, speedup
from k8sbench.measure.group.group_figures import joined, spread
from k8sbench.measure.group.rejections import Agreement, Candidate, reported, unique
from k8sbench.model.finding import Finding
from k8sbench.model.group import Group, Member
from k8sbench.model.identity import GroupKey
from k8sbench.model.run import Run

EFFICIENCY_LIMIT = 1.05
"""Speedup ÷ GPUs above this means an error on one of the two sides."""
WIDE_INTERVAL = 0.10
"""Interval width ÷ median that causes a warning.

The reports that we reproduce stay below 2 % with five runs.
"""


def groups(runs: Iterable[Run], *, accept: Collection[str] = ()) -> list[Group]:
    """Group the repeats of each case, check them, and sort the groups by key.

    ``accept`` overrules reasons by id: such a run counts, and the reason stays, marked. All runs of
    the caller should come in one call, because a log that is counted twice and the 1x1 case of an
    efficiency may be in another group.
    """
    candidates = [Candidate(run, frozenset(accept)) for run in unique(runs)]
    rejections.logs_counted_twice(candidates)
    buckets: dict[GroupKey, list[Candidate]] = {}
    for candidate in candidates:
        buckets.setdefault(candidate.planned, []).append(candidate)
    made = [_group(planned, members) for planned, members in buckets.items()]
    return sorted(_check_efficiency(made, frozenset(accept)), key=lambda group: group.key)


def _group(planned: GroupKey, candidates: list[Candidate]) -> Group:
    """Check the repeats of one case, given oldest first."""
    rejections.other_plans(candidates)
    rejections.mixed(candidates)
    estimator = rejections.common_estimator(candidates)
    # A smoke run checks the path: how fast a shared CPU happened to be is no claim to refute.
    smoke = planned.preset == "smoke"
    agreement = Agreement() if smoke else rejections.outliers(candidates, estimator)
    counted = [c for c in candidates if c.counts]
    figures = spread([c.rates[estimator] for c in counted], agreement.dropped) if counted else None
    reasons = []
    if figures is not None and agreement.is_unsteady:
        text = (
            f"The {len(counted)} runs reach from {figures.minimum:.2f} to {figures.maximum:.2f},"
            " and none is plainly apart from the others."
        )
        reasons.append(rules.UNSTEADY_RUNS.finding(text))
        figures = msgspec.structs.replace(
            figures, low=None, high=None, coverage=None, interval_reason="the runs are unsteady"
        )
    if figures is not None and figures.low is not None and figures.high is not None:
        width = (figures.high - figures.low) / figures.median
        text = f"The runs spread over {100 * width:.0f} % of the median; use more --repeats."
        if width > WIDE_INTERVAL:
            reasons.append(rules.WIDE_INTERVAL.finding(text))
    missing: dict[str, str] = {}
    measured = counted or [c for c in candidates if c.run.measurement is not None]
    first = (counted or candidates)[0]
    parameters, gmac = group_figures.model(first.run.plan, measured, missing)
    effective = joined(c.measurement.precision_effective for c in measured)
    seconds, reached = group_figures.time_to_train(counted, missing)
    began = [_began(candidate.run) for candidate in candidates]
    return Group(
        # What the runs report; unequal values stand side by side.
        key=msgspec.structs.replace(
            planned,
            precision_effective=effective or planned.precision_effective,
            gpu_model=joined(c.measurement.gpu_model for c in measured) or planned.gpu_model,
            image=joined(c.run.image_digest for c in measured) or planned.image,
            data_digest=joined(c.measurement.data_digest for c in measured) or planned.data_digest,
            weights_digest=joined(c.measurement.weights_digest for c in measured)
            or planned.weights_digest,
        ),
        plan=first.run.plan,
        unit=group_figures.unit(first),
        estimator=estimator,
        members=tuple(_member(c, estimator) for c in candidates),
        began=(min(began), max(began)),
        spread=figures,
        reasons=tuple(reasons),
        parameters=parameters,
        gmac=gmac,
        precision_effective=effective,
        arithmetic=group_figures.arithmetic(measured, missing),
        device=joined(c.measurement.device for c in measured),
        by_rule={
            name: value
            for name in speedup.BY_RULE
            if (value := joined(reported(c.measurement.environment, name) for c in measured))
            is not None
        },
        layout=group_figures.layout(measured),
        by_estimator=group_figures.by_estimator(counted),
        accuracy=group_figures.accuracy(counted, missing),
        time_to_train_s=seconds,
        runs_at_target=reached,
        training=group_figures.training(counted),
        gpu_hours=group_figures.gpu_hours(candidates, missing),
        queued_s=group_figures.queued(candidates, missing),
        data_fraction=group_figures.data_fraction(counted, missing),
        gpu=group_figures.gpu(counted, missing),
        judgements=group_figures.judgements(counted),
        missing=missing,
    )


def _check_efficiency(made: list[Group], accept: frozenset[str]) -> list[Group]:
    checked, alone = [], [group for group in made if group.plan.world_size == 1]
    for group in made:
        ratio, base = speedup.scaling(group, alone)
        value = speedup.efficiency(group, ratio).value
        if value is None or base is None or value <= EFFICIENCY_LIMIT:
            checked.append(group)
            continue
        reason = rules.EFFICIENCY_ABOVE_LIMIT.finding(
            f"{value:.2f} per GPU against {base.key.id}: GPUs together are not that much"
            " faster than alone, so one of the two is wrong."
        )
        checked.append(_with_reasons(group, verdict.accepted([reason], accept)))
    return checked


def _with_reasons(group: Group, new: Sequence[Finding]) -> Group:
    """Add reasons to a group; its figures go unless the reasons are accepted."""
    group = msgspec.structs.replace(group, reasons=(*group.reasons, *new))
    if verdict.counts(new):
        return group
    return msgspec.structs.replace(
        group,
        members=tuple(verdict.member_with_reasons(m, (*m.reasons, *new)) for m in group.members),
        spread=None,
        by_estimator={},
        accuracy=None,
        time_to_train_s=None,
        runs_at_target=None,
        training=None,
        data_fraction=None,
        gpu={},
        judgements=(),
    )


def _began(run: Run) -> float:
    """Return a run's start; for an imported run its window's, if dated."""
    window = run.measurement.window if run.measurement and run.is_imported else None
    return run.created_at if window is None or window.started_at is None else window.started_at


def _member(candidate: Candidate, estimator: str) -> Member:
    run = candidate.run
    metrics = run.measurement and run.measurement.gpu_metrics
    member = Member(
        run_id=run.run_id,
        repeat=run.plan.repeat,
        created_at=run.created_at,
        queued_s=run.queued_s(),
        rate=candidate.rates.get(estimator),
        phase=str(run.phase),
        verdict=None if run.measurement is None else run.measurement.verdict,
        reasons=tuple(candidate.reasons),
        gpu=metrics.figures if metrics else {},
        source=run.shown_source,
    )
    return verdict.member_with_reasons(member, candidate.reasons)
