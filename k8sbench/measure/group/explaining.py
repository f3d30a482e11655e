"""Formulas of the figures of a run or a group, and which rule gives a published figure.

All of it follows from what is on record: no log is read again.

A report says what it publishes and seldom how. Beside each published figure stand ours by every
estimator, of a group by the median and by the mean of its runs: the rule that gives the published
figure is, very likely, the one that the report used.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from k8sbench.measure.group import deviations
from k8sbench.measure.group.candidates import Candidate
from k8sbench.model.counts import counted
from k8sbench.model.explanation import (
    Formula,
    GroupExplanation,
    Reproduction,
    Rule,
    RunExplanation,
)
from k8sbench.model.group import Deviation, Figure, Group, Result
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec

REPRODUCES = 0.001
"""Relative difference up to which a rule gives a published figure: reports round, and some of them
leave out a first or a last line."""


def shown(value: float) -> str:
    """A figure with two decimals, as reports have it, or more digits where it is small."""
    return f"{value:.2f}" if value >= 10 else f"{value:.4g}"


def middle(count: int) -> str:
    """What the median of so many values is."""
    return "the middle" if count % 2 else "the mean of the middle two"


def reproductions(
    group: Group, spec: BenchmarkSpec | None, rules: Mapping[str, float]
) -> tuple[Reproduction, ...]:
    """Each source's nearest published figure beside every rule."""
    found = deviations.deviations_of(group, spec) if spec is not None else ()
    return tuple(_reproduction(each, rules) for each in found)


def _reproduction(each: Deviation, rules: Mapping[str, float]) -> Reproduction:
    # Which rule it was is open here, so that it is not known forbids nothing.
    unlike = tuple(name for name in each.not_comparable if name != "estimator")
    beside = [
        Rule(name=name, value=value, deviation=None if unlike else value / each.published - 1)
        for name, value in rules.items()
    ]
    beside.sort(key=lambda rule: abs(rule.deviation or 0.0))
    return Reproduction(
        figure=each,
        not_comparable=unlike,
        rules=tuple(beside),
        reproduced_by=tuple(
            rule.name
            for rule in beside
            if rule.deviation is not None and abs(rule.deviation) <= REPRODUCES
        ),
    )


def rules_of(group: Group, runs: Sequence[Run]) -> dict[str, float]:
    """Median and mean over the counted runs, by every estimator that all of them have."""
    counted = {member.run_id for member in group.members if member.rate is not None}
    rates = [Candidate(run, frozenset()).rates for run in runs if run.run_id in counted]
    found = {}
    for name in ESTIMATORS:
        values = [each[name] for each in rates if name in each]
        if rates and len(values) == len(rates):
            found[f"median of {name}"] = statistics.median(values)
            if len(values) > 1:
                found[f"mean of {name}"] = statistics.fmean(values)
    return found


def of_run(run: Run, group: Group, alone: Group, spec: BenchmarkSpec | None) -> RunExplanation:
    """Explain a run of a group; ``alone`` is the group that it would be by itself."""
    measurement = run.measurement
    made = formulas(measurement) if measurement is not None else ()
    rules = {formula.estimator: formula.value for formula in made if formula.value is not None}
    (member,) = (each for each in group.members if each.run_id == run.run_id)
    counts = member.rate is not None
    headline = rules.get(measurement.estimator) if measurement is not None else None
    return RunExplanation(
        run_id=run.run_id,
        group=group.key.id,
        set_name=run.plan.set_name,
        title=describe(run.plan),
        phase=str(run.phase),
        # As its group sees it: that is what its row shows.
        verdict=None if measurement is None else "valid" if counts else "rejected",
        throughput=headline if counts else None,
        unverified=None if counts else headline,
        formulas=made,
        reasons=member.reasons,
        published=reproductions(alone, spec, rules),
        measurement=measurement,
    )


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
            text = f"{_numbers(name, measurement)} = {shown(value)} {known.unit}"
        made.append(_formula(name, value, text))
    return tuple(made)


def _numbers(name: str, measurement: Measurement) -> str:
    """The right side of a formula, up to its result."""
    records, window = counted(measurement.records, "record"), measurement.window
    if not measurement.records:
        return "the log's own figure of the whole run"
    if name == "median":
        return f"{middle(measurement.records)} of {records}' rates"
    if name == "arithmetic":
        return f"the mean of {records}' rates"
    if name == "timestamps":
        return "samples ÷ seconds, by the stamps of the first and the last counted line"
    if name == "printed_steps":
        return "as time_weighted, of the printed steps alone"
    if name == "time_weighted_steady":
        count = window.left_out_count if window is not None else 0
        without = f"without the {counted(count, 'record')} that hold an evaluation, a checkpoint"
        without += " or a restart"
        return f"as time_weighted, {without if count else 'which leaves nothing out here'}"
    batch, gpus = measurement.batch_size_per_gpu, measurement.gpus
    if batch is None or gpus is None or window is None or window.seconds is None:
        return f"{measurement.iterations} iterations over the time of {records}"
    singular, plural = ("process", "processes") if measurement.device == "cpu" else ("GPU", "GPUs")
    samples = f"{measurement.iterations} iterations × {batch} per {singular}"
    samples += f" × {gpus} {plural}" if gpus > 1 else ""
    return f"{samples} ÷ {window.seconds:.6g} s"


def of_group(result: Result, runs: Sequence[Run], spec: BenchmarkSpec | None) -> GroupExplanation:
    """Explain a group; ``runs`` are those of its members."""
    group = result.group
    return GroupExplanation(
        group=group.key.id,
        set_name=group.key.set_name,
        title=describe(group.plan),
        state=group.state,
        unit=group.unit,
        estimator=group.estimator,
        throughput=group.spread.median if group.spread else None,
        formulas=tuple(_formulas(result)),
        by_estimator=group.by_estimator,
        members=group.members,
        reasons=group.reasons,
        published=reproductions(group, spec, rules_of(group, runs)),
        missing=group.missing,
    )


def _formulas(result: Result) -> list[Formula]:
    group, spread = result.group, result.group.spread
    if spread is None:
        return [Formula(estimator="median", value=None, text="no run counts")]
    rates = sorted(m.rate for m in group.members if m.rate is not None)
    listed = ", ".join(map(shown, rates))
    count, unit = len(rates), group.unit
    found = [
        _formula(
            "median", spread.median, f"{middle(count)} of {listed} = {shown(spread.median)} {unit}"
        ),
        _formula(
            "mean", spread.mean, f"{shown(sum(rates))} ÷ {count} = {shown(spread.mean)} {unit}"
        ),
    ]
    interval = spread.interval_reason or "it is not known"
    if spread.low is not None and spread.high is not None and spread.coverage is not None:
        ends = f"{shown(spread.low)}–{shown(spread.high)}"
        interval = f"{ends} of {count} runs, coverage {spread.coverage:.4g}"
    found.append(_formula("interval", spread.coverage, interval))
    found += [_against("speedup", result.speedup, result, gpus=1)]
    found += [_against("efficiency", result.efficiency, result, gpus=group.plan.world_size)]
    return found


def _against(name: str, figure: Figure, result: Result, *, gpus: int) -> Formula:
    spread = result.group.spread
    if figure.value is None or spread is None:
        return _formula(name, None, figure.reason or "it is not known")
    alone = spread.median / (figure.value * gpus)
    text = f"{shown(spread.median)} ÷ {shown(alone)} (1x1, group {result.baseline})"
    each = f" ÷ {gpus} GPUs" if gpus > 1 else ""
    notes = f" ({'; '.join(figure.notes)})" if figure.notes else ""
    return _formula(name, figure.value, f"{text}{each} = {figure.value:.3f}{notes}")


def _formula(name: str, value: float | None, text: str) -> Formula:
    return Formula(estimator=name, value=value, text=text)
