"""Groups: repeats of one case in one set, and their spread.

Repeats are the runs whose plans give the same group key; those of others with several GPU models
are a group for each. Reported properties (GPU model, precision in effect, image digest, driver,
framework version) must be equal, too: a run that differs from the majority does not count, and
without a majority none does. It stays a member, with its reasons. No run is dropped silently, and
the result does not depend on the order of the runs.

The reasons that can arise here are in :mod:`k8sbench.results.groups.rejections`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model import verdict
from k8sbench.model.errors import Finding
from k8sbench.model.group import (
    Group,
    Member,
    Spread,
)
from k8sbench.model.identity import NOT_STATED, GroupKey
from k8sbench.model.profile import Progress
from k8sbench.model.run import Run
from k8sbench.results.groups import group_figures, rejections, speedup
from k8sbench.results.groups.group_figures import joined
from k8sbench.results.groups.rejections import Candidate, reported, unique

EFFICIENCY_LIMIT = 1.05
"""Speedup ÷ GPUs above this means an error on one of the two sides."""
WIDE_INTERVAL = 0.10
"""Interval width ÷ median that causes a warning.

The reports that we reproduce stay below 2 % with five runs.
"""


def groups(
    runs: Iterable[Run],
    *,
    accept: Collection[str] = (),
    singles: Callable[[Sequence[Group]], Sequence[Group]] = lambda _: (),
) -> list[Group]:
    """Group the repeats of each case, check them, and sort the groups by key.

    ``accept`` overrules reasons by id: such a run counts, and the reason stays, marked. ``singles``
    returns the 1x1 cases of other runs that the efficiencies of groups may refer to. Runs with
    equal logs belong in one call, because a log counts once.
    """
    candidates = [Candidate(run, frozenset(accept)) for run in unique(runs)]
    rejections.logs_counted_twice(candidates)
    buckets: dict[GroupKey, list[Candidate]] = {}
    measured = {each.planned for each in candidates if each.run.measurement is not None}
    for candidate in candidates:
        buckets.setdefault(_bucket(candidate, measured), []).append(candidate)
    dates = {c.run.run_id: at for c in candidates if (at := _began(c.run)) is not None}
    of_sets: dict[str, float] = {}
    for candidate in candidates:
        name, at = candidate.planned.set_name, dates.get(candidate.run.run_id, math.inf)
        of_sets[name] = min(at, of_sets.get(name, math.inf))
    made = [
        _group(planned, members, dates, of_sets[planned.set_name])
        for planned, candidates in buckets.items()
        for members in _by_gpu_model(candidates)
    ]
    checked = _check_efficiency(made, frozenset(accept), singles(made))
    return sorted(checked, key=lambda group: group.key)


def rejected(groups: Iterable[Group]) -> dict[str, tuple[str, ...]]:
    """Return the rejected runs of groups, with the ids of their reasons."""
    return {
        member.run_id: tuple(reason.id for reason in member.reasons)
        for group in groups
        for member in group.members
        if member.verdict == "rejected"
    }


def _bucket(candidate: Candidate, measured: Collection[GroupKey]) -> GroupKey:
    """Return the key of a run's group: of one that is not measured, that of its only repeats.

    Nothing says who would have measured it.
    """
    key = candidate.planned
    if candidate.run.measurement is not None or key in measured:
        return key
    no_maker = {"measured_by": NOT_STATED}
    alike = [other for other in measured if msgspec.structs.replace(other, **no_maker) == key]
    return alike[0] if len(alike) == 1 else key


def _by_gpu_model(candidates: list[Candidate]) -> list[list[Candidate]]:
    """Divide the runs of a case by GPU model, if they are of others.

    A run of k8sbench has the GPU model of its pool. Runs that report none are divided from the
    others only if these have several.
    """
    by_model: dict[str | None, list[Candidate]] = {}
    for candidate in candidates:
        by_model.setdefault(candidate.gpu_model, []).append(candidate)
    is_divided = candidates[0].run.planned is None and len(by_model.keys() - {None}) > 1
    return [*by_model.values()] if is_divided else [candidates]


def _group(
    planned: GroupKey, candidates: list[Candidate], dates: Mapping[str, float], of_set: float
) -> Group:
    """Check the repeats of one case, given oldest first.

    ``dates`` are the known starts of runs by id; ``of_set`` is the first of the set, else infinite.
    """
    rejections.other_plans(candidates)
    rejections.mixed(candidates)
    estimator = rejections.common_estimator(candidates)
    # A smoke run checks the path: how fast a shared CPU happened to be is no claim to refute.
    is_unsteady = planned.preset != "smoke" and rejections.outliers(candidates, estimator)
    counted = [c for c in candidates if c.counts]
    rates = [candidate.rates[estimator] for candidate in counted]
    figures, reasons = _figures(rates, planned, is_unsteady=is_unsteady)
    missing: dict[str, Note] = {}
    measured = counted or [c for c in candidates if c.run.measurement is not None]
    first = (counted or candidates)[0]
    parameters, gmac = group_figures.model_size(first.run.facts, measured, missing)
    effective = joined(c.measurement.precision_effective for c in measured)
    seconds, reached = group_figures.time_to_train(counted, measured, missing)
    own = [dates[c.run.run_id] for c in candidates if c.run.run_id in dates]
    lengths = [c.measurement.iterations for c in measured if c.measurement.iterations]
    # A run without a date, such as one that broke off, ran with those of its set.
    of_others = [of_set] if math.isfinite(of_set) else [c.run.created_at for c in candidates]
    began = own or of_others
    return Group(
        key=_key(planned, measured, effective),
        planned=first.run.planned,
        known=first.run.known,
        unit=group_figures.unit(first),
        estimator=estimator,
        members=tuple(_member(c, estimator) for c in candidates),
        began=(min(began), max(began)),
        dates=(min(own), max(own)) if own else None,
        spread=figures,
        reasons=reasons,
        windows=tuple(sorted({c.run.facts.window.text for c in candidates if _is_open(c)})),
        iterations=(min(lengths), max(lengths)) if lengths else None,
        parameters=parameters,
        gmac=gmac,
        precision_effective=effective,
        driver=joined(reported(c.measurement.environment, "driver") for c in measured),
        nodes=group_figures.nodes(measured),
        arithmetic=group_figures.arithmetic(measured, missing),
        device=joined(c.measurement.device for c in measured),
        by_rule={
            name: value
            for name in speedup.BY_RULE
            if (value := joined(reported(c.measurement.environment, name) for c in measured))
            is not None
        },
        data_md5=group_figures.stated_fact(measured, "data_md5"),
        data_name=group_figures.stated_fact(measured, "dataset"),
        program_version=group_figures.stated_fact(measured, "program_version"),
        layout=group_figures.layout(measured),
        tokens_per_sample=group_figures.tokens_per_sample(counted, missing),
        by_estimator=group_figures.by_estimator(counted),
        accuracy=group_figures.accuracy(counted, measured, missing),
        time_to_train_s=seconds,
        runs_at_target=reached,
        ended_by=joined(c.measurement.ended_by for c in counted),
        training=group_figures.training(counted),
        gpu_hours=group_figures.gpu_hours(candidates, missing),
        queued_s=group_figures.median_of(
            "queued_s", (c.run.queued_s() for c in candidates), missing
        ),
        data_fraction=group_figures.median_of(
            "data_fraction", (c.measurement.data_fraction for c in counted), missing
        ),
        gpu=group_figures.gpu_metrics(counted, missing),
        judgements=group_figures.judgements(counted),
        missing=missing,
    )


def _figures(
    rates: Sequence[float], planned: GroupKey, *, is_unsteady: bool
) -> tuple[Spread | None, tuple[Finding, ...]]:
    """Return the spread of the counted runs, and warnings about it."""
    if not rates:
        return None, ()
    more = group_figures.MORE.get(planned.backend, group_figures.USE_REPEATS)
    figures = group_figures.spread(rates, more=more)
    if is_unsteady:
        said = note(
            "unsteady-runs",
            runs=len(rates),
            low=f"{figures.minimum:.2f}",
            high=f"{figures.maximum:.2f}",
        )
        unknown = {"low": None, "high": None, "interval_reason": note("runs-unsteady")}
        figures = msgspec.structs.replace(figures, **unknown)
        return figures, (rejections.UNSTEADY_RUNS.finding(said),)
    if figures.low is not None and figures.high is not None and planned.preset != "smoke":
        width = (figures.high - figures.low) / figures.median
        if width > WIDE_INTERVAL:
            said = note("wide-interval", width=f"{100 * width:.0f} %")
            return figures, (rejections.WIDE_INTERVAL.finding(said),)
    return figures, ()


def _key(planned: GroupKey, measured: Sequence[Candidate], effective: str | None) -> GroupKey:
    """Complete a planned key by the runs' reports; unequal values are joined."""
    found = [c.measurement for c in measured]
    return msgspec.structs.replace(
        planned,
        precision_effective=effective or planned.precision_effective,
        gpu_model=joined(each.gpu_model for each in found) or planned.gpu_model,
        image=joined(c.run.image_digest for c in measured) or planned.image,
        data_digest=joined(each.data_digest for each in found) or planned.data_digest,
        weights_digest=joined(each.weights_digest for each in found) or planned.weights_digest,
    )


def _check_efficiency(
    made: list[Group], accept: frozenset[str], others: Sequence[Group]
) -> list[Group]:
    checked = []
    alone = [group for group in (*made, *others) if group.facts.world_size == 1]
    for group in made:
        ratio, base = speedup.scaling(group, alone)
        value = speedup.efficiency(group, ratio).value
        new = []
        if value is not None and base is not None and value > EFFICIENCY_LIMIT:
            efficiency = f"{value:.2f}"
            said = note("efficiency-above-limit", efficiency=efficiency, group=base.key.id)
            new.append(rejections.EFFICIENCY_ABOVE_LIMIT.finding(said))
        checked.append(_with_reasons(group, verdict.mark_accepted(new, accept)))
    return checked


def _with_reasons(group: Group, new: Sequence[Finding]) -> Group:
    """Add reasons to a group; its figures go unless the reasons are accepted."""
    group = msgspec.structs.replace(group, reasons=(*group.reasons, *new))
    if verdict.figure_counts(new):
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


def _began(run: Run) -> float | None:
    """Return a run's start.

    A job that was observed began with its log: it may have waited in a queue for days. Of an
    imported run it is the first known of its window's start, the time at which the first line was
    received, and the log's own words; None without dates.
    """
    if run.facts.job is not None:
        return run.started_at or run.created_at
    if run.planned is not None:
        return run.created_at
    if (measured := run.measurement) is None:
        return None
    parts = (part for part in (measured.window, measured.steady) if part is not None)
    dates = (at for part in parts if (at := part.started_at) is not None)
    return next(dates, measured.begun_at)


def _member(candidate: Candidate, estimator: str) -> Member:
    run = candidate.run
    metrics = run.measurement and run.measurement.gpu_metrics
    member = Member(
        run_id=run.run_id,
        object_name=run.object_name,
        repeat=run.repeat,
        created_at=run.created_at,
        queued_s=run.queued_s(),
        rate=candidate.rates.get(estimator),
        phase=str(run.phase),
        verdict=None if run.measurement is None else run.measurement.verdict,
        reasons=tuple(candidate.reasons),
        gpu=metrics.figures if metrics else {},
        progress=_progress(candidate) if candidate.counts else None,
        source=run.shown_source,
    )
    return verdict.member_with_reasons(member, candidate.reasons)


def _is_open(candidate: Candidate) -> bool:
    """True if the run ended where its log does: no benchmark names its window."""
    run = candidate.run
    return run.planned is None and run.facts.window.is_open


def _progress(candidate: Candidate) -> Progress | None:
    """Return the progress of a run that counts; None if a benchmark names its window."""
    if not _is_open(candidate):
        return None
    measured = candidate.measurement
    profile, warmup = measured.profile, measured.warmup_iterations
    if profile is None:
        end = warmup + measured.iterations
        return Progress(warmup=warmup, end=end, planned=measured.planned_length)
    amounts = (
        profile.tokens if group_figures.unit(candidate).startswith("tokens") else profile.samples
    )
    return Progress(
        warmup=warmup,
        end=profile.points[-1],
        planned=measured.planned_length,
        points=() if amounts is None else profile.points,
        seconds=() if amounts is None else profile.seconds,
        amounts=amounts or (),
    )
