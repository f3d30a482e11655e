"""Formulas of the figures of a run or a group, and which rule gives a published figure.

All of it follows from what is on record: no log is read again.

A report says what it publishes and seldom how. Beside each published figure stand ours by every
estimator, of a group by the median and by the mean of its runs: the rule that gives the published
figure is, very likely, the one that the report used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k8sbench.measure.group import ratios
from k8sbench.model.counts import counted
from k8sbench.model.explanation import Explanation, Formula, Reproduction, Rule
from k8sbench.model.group import Figure, Group, Result
from k8sbench.model.kinds import default_kind
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.plan import RunPlan, is_bandwidth
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec


def shown(value: float) -> str:
    """A figure with two decimals, as reports have it, or more digits where it is small."""
    return f"{value:.2f}" if value >= 10 else f"{value:.4g}"


def middle(count: int) -> str:
    """What the median of so many values is."""
    return "the middle" if count % 2 else "the mean of the middle two"


def reproductions(
    group: Group, spec: BenchmarkSpec | None, rules: Mapping[str, float]
) -> tuple[Reproduction, ...]:
    """Each source's nearest published figure beside every rule, the nearest rule first."""
    made = []
    for each in ratios.throughput_deviations(group, spec) if spec is not None else ():
        # Which rule it was is open here, so that it is not known forbids nothing.
        unlike = tuple(name for name in each.not_comparable if name != "estimator")
        beside = [
            Rule(name, value, None if unlike else value / each.published - 1)
            for name, value in rules.items()
        ]
        beside.sort(key=lambda rule: abs(rule.deviation or 0.0))
        made.append(Reproduction(figure=each, not_comparable=unlike, rules=tuple(beside)))
    return tuple(made)


def of_run(run: Run, group: Group, alone: Group, spec: BenchmarkSpec | None) -> Explanation:
    """Explain a run of a group; ``alone`` is the group that it would be by itself."""
    measurement = run.measurement
    made = formulas(measurement) if measurement is not None else ()
    rules = {formula.estimator: formula.value for formula in made if formula.value is not None}
    estimator = group.estimator if measurement is None else measurement.estimator
    (member,) = (each for each in group.members if each.run_id == run.run_id)
    # As its group sees it: that is what its row shows.
    counts = member.rate is not None
    headline = rules.get(estimator)
    return Explanation(
        run_id=run.run_id,
        group=group.key.id,
        set_name=run.plan.set_name,
        title=describe(run.plan),
        job_kinds=job_kinds([run.plan]),
        state=str(run.phase) if measurement is None else "valid" if counts else "rejected",
        unit=group.unit,
        estimator=estimator,
        throughput=headline if counts else None,
        unverified=None if counts else headline,
        formulas=made,
        members=(member,),
        reasons=member.reasons,
        published=reproductions(alone, spec, rules),
        measurement=measurement,
    )


def job_kinds(plans: Iterable[RunPlan]) -> tuple[str, ...]:
    """Name the kinds of the jobs of plans; of a run elsewhere than on Kubernetes there is none."""
    found = {
        plan.kind or default_kind(plan.framework).name
        for plan in plans
        if plan.backend == "kubernetes"
    }
    return tuple(sorted(found))


def formulas(measurement: Measurement) -> tuple[Formula, ...]:
    """Each estimator with its numbers put in, the usual headline first."""
    known = measurement.throughput or measurement.unverified
    if known is None:
        return ()
    made = []
    for name in ESTIMATORS:
        value = getattr(known, name)
        text = measurement.missing.get(f"throughput.{name}", "it is not known")
        if value is not None:
            text = f"{_numbers(name, measurement, known.unit)} = {shown(value)} {known.unit}"
        made.append(Formula(name, value, text))
    return tuple(made)


def _numbers(name: str, measurement: Measurement, unit: str) -> str:
    """The right side of a formula, up to its result."""
    records, window = counted(measurement.records, "record"), measurement.window
    if not measurement.records:
        return "the log's own figure of the whole run"
    left_out = window.left_out_count if window is not None else 0
    words = {
        "median": f"{middle(measurement.records)} of {records}' rates",
        "arithmetic": f"the mean of {records}' rates",
        "timestamps": "samples ÷ seconds, by the stamps of the first and the last counted line",
        "printed_steps": "as time_weighted, of the printed steps alone",
        "time_weighted_steady": f"as time_weighted, without {counted(left_out, 'record')}",
    }
    if name in words:
        return words[name]
    batch, gpus = measurement.batch_size_per_gpu, measurement.gpus
    if batch is None or gpus is None or window is None or window.seconds is None:
        return f"{measurement.iterations} iterations over the time of {records}"
    if is_bandwidth(unit):
        size = f"2 × {gpus - 1}/{gpus} × {batch / 1000:g} GB"
        return f"{measurement.iterations} iterations × {size} ÷ {window.seconds:.6g} s"
    singular, plural = ("process", "processes") if measurement.device == "cpu" else ("GPU", "GPUs")
    samples = f"{measurement.iterations} iterations × {batch} per {singular}"
    samples += f" × {gpus} {plural}" if gpus > 1 else ""
    return f"{samples} ÷ {window.seconds:.6g} s"


def of_group(
    result: Result, spec: BenchmarkSpec | None, plans: Iterable[RunPlan] = ()
) -> Explanation:
    """Explain a group; a published figure may be the median or the mean of runs.

    ``plans`` are those of its runs.
    """
    group = result.group
    rules = {f"median of {name}": value for name, value in group.by_estimator.items()}
    if group.spread is not None and group.counted > 1:
        rules[f"mean of {group.estimator}"] = group.spread.mean
    return Explanation(
        group=group.key.id,
        set_name=group.key.set_name,
        title=describe(group.plan),
        job_kinds=job_kinds(plans),
        state=group.state,
        unit=group.unit,
        estimator=group.estimator,
        throughput=group.spread.median if group.spread else None,
        formulas=tuple(_formulas(result)),
        members=group.members,
        reasons=group.reasons,
        published=reproductions(group, spec, rules),
    )


def _formulas(result: Result) -> list[Formula]:
    group, spread = result.group, result.group.spread
    if spread is None:
        return [Formula("median", None, "no run counts")]
    rates = sorted(m.rate for m in group.members if m.rate is not None)
    count, unit = len(rates), group.unit
    median = f"{middle(count)} of {', '.join(map(shown, rates))} = {shown(spread.median)} {unit}"
    mean = f"{shown(sum(rates))} ÷ {count} = {shown(spread.mean)} {unit}"
    interval = spread.interval_reason or "it is not known"
    if spread.low is not None and spread.high is not None and spread.coverage is not None:
        ends = f"{shown(spread.low)}–{shown(spread.high)}"
        interval = f"{ends} of {count} runs, coverage {spread.coverage:.4g}"
    alone = f"{shown(spread.median / (result.speedup.value or 1))} (1x1, group {result.baseline})"
    return [
        Formula("median", spread.median, median),
        Formula("mean", spread.mean, mean),
        Formula("interval", spread.coverage, interval),
        _of_figure("speedup", result.speedup, f"{shown(spread.median)} ÷ {alone}"),
        _of_figure("efficiency", result.efficiency, f"speedup ÷ {group.plan.world_size} GPUs"),
    ]


def _of_figure(name: str, figure: Figure, numbers: str) -> Formula:
    if figure.value is None:
        return Formula(name, None, figure.reason or "it is not known")
    notes = f" ({'; '.join(figure.notes)})" if figure.notes else ""
    return Formula(name, figure.value, f"{numbers} = {figure.value:.3f}{notes}")
