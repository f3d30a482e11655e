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
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from k8sbench import messages
from k8sbench.messages import Arg, Note, note
from k8sbench.model import verdict
from k8sbench.model.arithmetic import SAME_MODEL
from k8sbench.model.errors import Finding
from k8sbench.model.facts import Facts
from k8sbench.model.gpu_metrics import ROW_FIGURES
from k8sbench.model.group import (
    IMPORTED,
    MOST_NODES,
    NOTHING_STATES_GPUS,
    SCRATCH,
    Group,
    Member,
    Spread,
    TrainingOfGroup,
    gpu_figure,
)
from k8sbench.model.identity import NOT_STATED, GroupKey
from k8sbench.model.measurement import (
    ESTIMATORS,
    OWN_TIME_TO_TRAIN,
    AccuracyResult,
    Arithmetic,
)
from k8sbench.model.phase import Phase
from k8sbench.model.profile import Progress
from k8sbench.model.run import Run
from k8sbench.results.groups import rejections, speedup, t_test
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
    parameters, gmac = _model(first.run.facts, measured, missing)
    effective = joined(c.measurement.precision_effective for c in measured)
    seconds, reached = _time_to_train(counted, measured, missing)
    own = [dates[c.run.run_id] for c in candidates if c.run.run_id in dates]
    lengths = [c.measurement.iterations for c in measured if c.measurement.iterations]
    # A run without a date, such as one that broke off, ran with those of its set.
    of_others = [of_set] if math.isfinite(of_set) else [c.run.created_at for c in candidates]
    began = own or of_others
    return Group(
        key=_key(planned, measured, effective),
        planned=first.run.planned,
        known=first.run.known,
        unit=_unit(first),
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
        nodes=_nodes(measured),
        arithmetic=_arithmetic(measured, missing),
        device=joined(c.measurement.device for c in measured),
        by_rule={
            name: value
            for name in speedup.BY_RULE
            if (value := joined(reported(c.measurement.environment, name) for c in measured))
            is not None
        },
        data_md5=_stated(measured, "data_md5"),
        data_name=_stated(measured, "dataset"),
        program_version=_stated(measured, "program_version"),
        layout=_layout(measured),
        tokens_per_sample=_tokens_per_sample(counted, missing),
        by_estimator=_by_estimator(counted),
        accuracy=_accuracy(counted, measured, missing),
        time_to_train_s=seconds,
        runs_at_target=reached,
        ended_by=joined(c.measurement.ended_by for c in counted),
        training=_training(counted),
        gpu_hours=_gpu_hours(candidates, missing),
        queued_s=_median("queued_s", (c.run.queued_s() for c in candidates), missing),
        data_fraction=_median(
            "data_fraction", (c.measurement.data_fraction for c in counted), missing
        ),
        gpu=_gpu(counted, missing),
        judgements=_judgements(counted),
        missing=missing,
    )


def _figures(
    rates: Sequence[float], planned: GroupKey, *, is_unsteady: bool
) -> tuple[Spread | None, tuple[Finding, ...]]:
    """Return the spread of the counted runs, and warnings about it."""
    if not rates:
        return None, ()
    more = MORE.get(planned.backend, USE_REPEATS)
    figures = spread(rates, more=more)
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
    amounts = profile.tokens if _unit(candidate).startswith("tokens") else profile.samples
    return Progress(
        warmup=warmup,
        end=profile.points[-1],
        planned=measured.planned_length,
        points=() if amounts is None else profile.points,
        seconds=() if amounts is None else profile.seconds,
        amounts=amounts or (),
    )


# -- figures of a group ----------------------------------------------------------------------------


_GPU_HELD = frozenset({Phase.PULLING, Phase.STARTING, Phase.RUNNING})
"""A replica has its GPUs from the moment its pod is on a node."""


def _model(
    facts: Facts, measured: Sequence[Candidate], missing: dict[str, Note]
) -> tuple[int | None, float | None]:
    """Parameters and GMAC; the catalog's GMAC only for the catalog's model."""
    counts = {c.measurement.parameters for c in measured if c.measurement.parameters is not None}
    known = facts.fingerprint
    parameters = max(counts) if counts else known.parameters if known else None
    if len(counts) > 1:
        missing["parameters"] = note("parameters-differ")
        parameters = None
    elif parameters is None:
        missing["parameters"] = note("parameters-unknown")
    if known is None:
        missing["gmac"] = note("no-fingerprint" + "-observed" * (facts.job is not None))
    elif any(abs(n - known.parameters) > SAME_MODEL * known.parameters for n in counts):
        missing["gmac"] = note(
            "parameters-unlike", runs=f"{max(counts):,}", catalog=f"{known.parameters:,}"
        )
    else:
        return parameters, known.at(facts.sequence_length).gmac
    return parameters, None


def _arithmetic(measured: Sequence[Candidate], missing: dict[str, Note]) -> Arithmetic | None:
    """Return the operations' types if all runs state the same."""
    arithmetics = [c.measurement.arithmetic for c in measured]
    if arithmetics and all(other == arithmetics[0] for other in arithmetics) and arithmetics[0]:
        return arithmetics[0]
    is_stated = any(arithmetics)
    missing["arithmetic"] = note(
        "arithmetic-differs-in-runs" if is_stated else "arithmetic-not-stated"
    )
    return None


def _nodes(measured: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the nodes of the runs, unless there are too many to name."""
    names = sorted({name for c in measured for name in c.run.nodes})
    return tuple(names) if len(names) <= MOST_NODES else ()


def _stated(measured: Sequence[Candidate], name: str) -> str | None:
    """Return a value of the logs' environment if all runs state the same."""
    values = {reported(c.measurement.environment, name) for c in measured}
    return values.pop() if len(values) == 1 else None


def _layout(measured: Sequence[Candidate]) -> str | None:
    """Return the memory layout if all runs report the same."""
    layouts = {reported(c.measurement.environment, "option.channels_last") for c in measured}
    return {"True": "NHWC", "False": "NCHW"}.get(str(layouts.pop())) if len(layouts) == 1 else None


def _by_estimator(counted: Sequence[Candidate]) -> dict[str, float]:
    """Median by each estimator that all of the runs have."""
    return {
        name: statistics.median(c.rates[name] for c in counted)
        for name in ESTIMATORS
        if counted and all(name in c.rates for c in counted)
    }


def _tokens_per_sample(counted: Sequence[Candidate], missing: dict[str, Note]) -> int | None:
    """Return the tokens of a sample if all runs state the same."""
    stated = {_tokens_of_run(candidate) for candidate in counted}
    if len(stated) == 1 and (tokens := stated.pop()) is not None:
        return tokens
    missing["tokens_per_sample"] = note("tokens-differ" if stated else "tokens-not-stated")
    return None


def _tokens_of_run(candidate: Candidate) -> int | None:
    """Return the tokens of a run's sample by its two rates; None if it states no tokens."""
    if _unit(candidate).startswith("tokens"):
        return 1
    measured = candidate.measurement
    rate = candidate.rates.get(measured.estimator)
    if rate is None or measured.tokens_per_second is None:
        return None
    return round(measured.tokens_per_second / rate)


def _unit(candidate: Candidate) -> str:
    """The unit of its rates: as its log states it, else its plan."""
    measurement = candidate.run.measurement
    figures = measurement and (measurement.throughput or measurement.unverified)
    return figures.unit if figures else candidate.run.facts.rate_unit


def _accuracy(
    counted: Sequence[Candidate], measured: Sequence[Candidate], missing: dict[str, Note]
) -> AccuracyResult | None:
    """Return the middle run's best evaluation; of two, the worse."""
    accuracies = [c.measurement.accuracy for c in counted if c.measurement.accuracy is not None]
    if not accuracies:
        missing["accuracy"] = _no_accuracy(measured)
        return None
    accuracies.sort(key=lambda a: (a.best, a.final, a.metric))
    return accuracies[(len(accuracies) - 1) // 2]


def _no_accuracy(measured: Sequence[Candidate]) -> Note:
    """Return why no run that counts has an accuracy."""
    if any(c.measurement.accuracy is not None for c in measured):
        return note("no-valid-figure")
    whys = {c.measurement.missing.get("accuracy") for c in measured}
    if whys - {None, messages.text("en", verdict.NO_EVALUATION)}:
        return note("no-evaluation-read")
    return note("no-evaluation")


def _time_to_train(
    counted: Sequence[Candidate], measured: Sequence[Candidate], missing: dict[str, Note]
) -> tuple[float | None, int | None]:
    """Return the median seconds to the target, and the runs that reached it.

    None without trainings. The median is over all runs: a run that did not reach the target needs
    longer than any that did. A median over the others alone would improve as more runs fail.
    """
    times = [c.measurement.time_to_train_s for c in counted]
    timed = sum(seconds is not None for seconds in times)
    if not timed and not any(c.measurement.accuracy for c in counted):
        missing["time_to_train_s"] = missing["runs_at_target"] = _no_accuracy(measured)
        return None, None
    reached = sum(c.measurement.is_at_target for c in counted)
    if timed * 2 <= len(times):
        missing["time_to_train_s"] = _no_time(counted, timed, reached)
        return None, reached
    return statistics.median(math.inf if s is None else s for s in times), reached


def _no_time(counted: Sequence[Candidate], timed: int, reached: int) -> Note:
    """Tell why most runs have no time to train."""
    if {c.measurement.target for c in counted} == {None}:
        return note("no-target-accuracy")
    if not reached:
        return _no_target(counted)
    runs: dict[str, Arg] = {"reached": reached, "runs": len(counted)}
    if timed == reached:
        return note("reached-no-majority", **runs)
    of_runs = (c.measurement for c in counted if c.measurement.is_at_target)
    why = dict.fromkeys(measured.why("time_to_train_s") for measured in of_runs)
    runs["why"] = tuple(one for one in why if one is not None)
    if not timed:
        return note("reached-at-unknown-time", **runs)
    return note("reached-some-timed", timed=timed, **runs)


def _no_target(counted: Sequence[Candidate]) -> Note:
    """Tell the target that no run reached, and which times the logs themselves state."""
    targets = sorted({c.measurement.target for c in counted if c.measurement.target is not None})
    whose = "catalog" if counted[0].run.planned is None else "own"
    said = note(f"no-run-reached-{whose}", targets=" / ".join(f"{target:g}" for target in targets))
    stated = {reported(c.measurement.environment, OWN_TIME_TO_TRAIN): None for c in counted}
    times = [f"{time} s" for time in stated if time is not None]
    if not times:
        return said
    return note("log-reports-times", said=said, logs=len(counted), times=tuple(times))


def _training(counted: Sequence[Candidate]) -> TrainingOfGroup | None:
    """Return the common values of runs that train to an accuracy."""
    trained = [c.measurement for c in counted if c.trains]
    if not trained:
        return None
    targets = {measurement.target for measurement in trained}
    return TrainingOfGroup(
        target=targets.pop() if len(targets) == 1 else None,
        restarts=sum(measurement.restarts for measurement in trained),
        data_set=joined(
            measurement.data_set.name for measurement in trained if measurement.data_set is not None
        ),
        weights=joined(
            measurement.weights.file if measurement.weights is not None else SCRATCH
            for measurement in trained
            if measurement.mode is not None
        ),
    )


def _gpu_hours(candidates: Sequence[Candidate], missing: dict[str, Note]) -> float | None:
    """GPU-hours of all runs that ended, whether they count or not."""
    if any(c.run.facts.device == "cpu" for c in candidates):
        missing["gpu_hours"] = note("no-gpu-used")
        return None
    if any(c.run.facts.backend == "imported" for c in candidates):
        missing["gpu_hours"] = IMPORTED
        return None
    ended = [c.run for c in candidates if c.run.ended_at is not None]
    if not ended:
        missing["gpu_hours"] = note("no-run-ended")
        return None
    hours = 0.0
    for run in ended:
        gpus = run.facts.world_size
        if gpus is None:
            missing["gpu_hours"] = NOTHING_STATES_GPUS
            return None
        held = [t.at for t in run.history if t.phase in _GPU_HELD]
        if not held and run.phase is Phase.SUCCEEDED:
            missing["gpu_hours"] = note("start-unknown")
            return None
        if held and run.ended_at is not None:
            seconds = run.ended_at - min(held) - (run.queued_s(min(held)) or 0.0)
            # A clock that was set back must not make hours negative.
            hours += gpus * max(0.0, seconds) / 3600
    return hours


_UNKNOWN = {
    "queued_s": note("no-queue"),
    "data_fraction": note("data-wait-unknown"),
}
"""Field of a group → reason why no run has a value."""


def _median(name: str, values: Iterable[float | None], missing: dict[str, Note]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        missing[name] = _UNKNOWN[name]
    return statistics.median(known) if known else None


def _gpu(counted: Sequence[Candidate], missing: dict[str, Note]) -> dict[str, float]:
    """The GPU metrics of a row, of the runs that have them."""
    figures: dict[str, float] = {}
    for name, metric in ROW_FIGURES.items():
        values = [value for c in counted if (value := gpu_figure(c.measurement, name)) is not None]
        if values:
            figures[name] = (max if metric.over_time == "peak" else statistics.median)(values)
        elif counted:
            measured = counted[0].measurement
            on_cpu = counted[0].run.facts.device == "cpu"
            otherwise = note("no-gpu-used" if on_cpu else "no-gpu-source")
            why = measured.why(f"gpu_metrics.{name}") or measured.why("gpu_metrics")
            missing[name] = why or otherwise
            if counted[0].run.facts.backend == "imported" and not on_cpu:
                missing[name] = IMPORTED
    return figures


def _judgements(counted: Sequence[Candidate]) -> tuple[Note, ...]:
    """Return the limits that the runs' GPU metrics show."""
    metrics = (c.measurement.gpu_metrics for c in counted)
    found = (one.said for one in metrics if one)
    return tuple(dict.fromkeys(filter(None, found)))


def joined(values: Iterable[str | None]) -> str | None:
    """Join the distinct values that runs report; None without any."""
    return " + ".join(sorted({value for value in values if value})) or None


USE_REPEATS = note("more-repeats")
MORE = {
    "imported": note("more-imports"),
    "observed": note("more-observed"),
}
"""Backend → way to more runs of a case, of a program that k8sbench did not run."""


def spread(rates: Sequence[float], *, more: Note = USE_REPEATS) -> Spread:
    """Median, mean, extremes and interval of at least one rate.

    The interval is Student's, of the mean logarithm, and holds the median, too: of many skewed runs
    the median may be outside. ``more`` says how to get more runs.
    """
    logs = [math.log(rate) for rate in rates]
    median = statistics.median(rates)
    mean = statistics.fmean(rates)
    low = high = None
    if (estimate := t_test.pooled([logs])) is not None:
        half = estimate.times(1 / len(logs)).critical(t_test.ALPHA)
        middle = statistics.fmean(logs)
        low = min(median, math.exp(middle - half))
        high = max(median, math.exp(middle + half))
    return Spread(
        median=median,
        mean=mean,
        minimum=min(rates),
        maximum=max(rates),
        cv=statistics.stdev(rates) / mean if len(rates) > 1 else None,
        low=low,
        high=high,
        interval_reason=note("one-run-only", more=more) if low is None else None,
    )
