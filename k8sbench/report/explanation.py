"""The computation of a figure as text, one fact per line.

All of it comes from the record; no log is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from k8sbench.model.counts import ABSENT, counted
from k8sbench.model.finding import Finding
from k8sbench.model.group import Figure, Group, Result
from k8sbench.model.measurement import ESTIMATORS, MeasuredWindow, Measurement
from k8sbench.model.plain_text import clean
from k8sbench.model.plan import RunPlan, is_bandwidth
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.sample import Place
from k8sbench.parse.declared import Expression
from k8sbench.report import group_words
from k8sbench.report.formats import rate
from k8sbench.report.text_table import wrapped

WIDTH = 100
Row = tuple[int, str]
"""Depth, and a sentence."""


class Formula(NamedTuple):
    """One estimator with its numbers put in."""

    name: str
    value: float | None
    text: str
    """``a ÷ b = c``, or the reason without a value."""


def text(rows: Iterable[Row], width: int | None = WIDTH) -> str:
    """Write rows for people."""
    return "".join(
        wrapped("  " * depth + clean(row), width, indent="  " * (depth + 1)) + "\n"
        for depth, row in rows
    )


def of_measurement(found: Measurement) -> Iterator[Row]:
    """Explain the measurement of logs without a run."""
    yield 0, ", ".join(found.files)
    figures = found.throughput or found.unverified
    some = any(reason.accepted for reason in found.reasons)
    verdict = f"{found.verdict}{', some reasons accepted' if some else ''}"
    if figures is None:
        yield 1, f"no figure: {found.missing.get('throughput', 'not measured')}  {verdict}"
    else:
        rates = {name: getattr(figures, name) for name in ESTIMATORS}
        texts = {k: ABSENT if one is None else rate(one) for k, one in rates.items()}
        unsure = " (unverified)" if found.throughput is None else ""
        yield 1, f"{texts[found.estimator]} {figures.unit} {found.estimator}{unsure}  {verdict}"
        del texts[ESTIMATORS[0]]
        if figures.printed_steps is None:
            del texts["printed_steps"]
        yield 2, " · ".join(f"{name} {text}" for name, text in texts.items())
    kind = "CPU process" if found.device == "cpu" else "GPU"
    facts = (
        *(found.format, found.impl, found.framework),
        found.precision_effective or found.precision,
        counted(found.gpus, kind) if found.gpus else None,
        "smoke run" if found.environment.get("preset") == "smoke" else None,
        f"batch {found.batch_size_per_gpu} per {kind}" if found.batch_size_per_gpu else None,
        found.gpu_model,
        None if found.final_loss is None else f"final loss {found.final_loss:.4g}",
        f"trained to {group_words.trained(found)}" if found.accuracy else None,
    )
    yield 1, " · ".join(filter(None, facts))
    if found.window is not None:
        yield from _window(found, found.window, 1)
    yield from _reasons(found.reasons)


def of_run(run: Run, group: Group) -> Iterator[Row]:
    """Explain a run, with the reasons of its group against it."""
    measurement = run.measurement
    (member,) = (each for each in group.members if each.run_id == run.run_id)
    figure = group_words.run_rate(member.rate, member.unverified, group.unit)
    if measurement is None:
        state = str(run.phase)
    elif member.rate is None:
        state = "rejected"
    else:
        state = "valid"
        figure += f" by {measurement.estimator}"
    yield 0, f"{run.run_id}: {figure}, {state}"
    yield 1, _title(run.plan, group)
    if measurement is not None:
        # Measurements of earlier versions do not say how many lines there were, nor which count.
        read = measurement.training_lines
        of = "" if read is None else f" of {read}"
        yield 0, f"Lines: {counted(measurement.records, 'training line', ('counts', 'count'))}{of}"
        yield from _stated(measurement, "first", "last")
        if measurement.window is not None:
            yield from _window(measurement, measurement.window)
        yield from _formulas(formulas(measurement))
        if measurement.accuracy is not None:
            yield from _training(measurement)
    yield 0, "Reasons" if member.reasons else "Reasons: none"
    yield from _reasons(member.reasons)


def of_group(result: Result) -> Iterator[Row]:
    """Explain a group: its runs and the figures from them."""
    group = result.group
    median = None if group.spread is None else group.spread.median
    figure = group_words.run_rate(median, None, group.unit)
    by = "" if median is None else f" by {group.estimator}"
    yield 0, f"{group.key.id}: {figure}{by}, {group.state}"
    yield 1, _title(group.plan, group)
    yield 0, "Runs"
    for member in group.members:
        figure = group_words.run_rate(member.rate, member.unverified, group.unit)
        yield 1, f"{member.repeat}. {member.run_id}: {figure}"
        yield from _reasons(member.reasons, 2)
    yield from _formulas(group_formulas(result))
    yield 0, "Reasons" if group.reasons else "Reasons: none"
    yield from _reasons(group.reasons)


def of_expressions(log: str, lines: int, tried: Iterable[Expression]) -> Iterator[Row]:
    """Yield the lines that the expressions of a declared format match."""
    yield 0, f"{log}: {counted(lines, 'line')}"
    for each in tried:
        begins = "" if each.reach or each.name == "fields" else ", not even its beginning does"
        matched = counted(each.matched, "line") if each.matched else f"no line{begins}"
        yield 0, f"{each.name} of {each.variant} matches {matched}: {each.pattern}"
        for place, groups in each.lines:
            yield 1, _place(place)
            named = ", ".join(f"{name} {text!r}" for name, text in groups.items())
            yield 2, named or "no group took part"
        if each.reach:
            place, (matched, wanted, found) = each.reach
            yield 1, _place(place)
            then = f"then the expression wants `{wanted}`, the line has `{found}`"
            yield 2, f"matches up to `{matched}`; {then}"


def _title(plan: RunPlan, group: Group) -> str:
    return f"{describe(plan)}; set {group.key.set_name}, group {group.key.id}"


def _stated(measurement: Measurement, *names: str) -> Iterator[Row]:
    """Yield the known lines that state a figure."""
    for name in names:
        if name in measurement.lines:
            yield 1, f"{name}: {_place(measurement.lines[name])}"


def _window(measurement: Measurement, window: MeasuredWindow, depth: int = 0) -> Iterator[Row]:
    first, last = window.first_iteration, window.last_iteration
    took = f", {window.seconds:.6g} s" if window.seconds is not None else ""
    yield depth, f"Window: iterations {first} to {last}: {measurement.iterations} measured{took}"
    unprinted = last - first + 1 - measurement.iterations
    if unprinted > 0:
        yield depth + 1, f"not measured: {unprinted} of these, which no line that counts covers"
    if first > 1:
        warmup = f", warm-up: {measurement.warmup_iterations or 0}"
        yield depth + 1, f"left out: the first {counted(first - 1, 'iteration')}{warmup}"
    if window.left_out_count:
        records = counted(window.left_out_count, "record")
        what = f"{records} with an evaluation, a checkpoint or a restart"
        yield depth + 1, f"left out of time_weighted_steady alone: {what}"
        yield from ((depth + 2, _place(place)) for place in window.left_out[:3])


def _training(measurement: Measurement) -> Iterator[Row]:
    aim = "" if measurement.target is None else f" to {measurement.target:g} %"
    time = measurement.time_to_train_s
    how = f"none: {measurement.missing.get('time_to_train_s', 'it is not known')}"
    if time is not None:
        how = f"{time:.3f} s from test_begin to the evaluation that reached it"
    yield 0, f"time to train{aim} = {how}"
    yield from _stated(measurement, "began", "reached", "best")
    if measurement.restarts:
        restarts = counted(measurement.restarts, "time")
        yield 1, f"restarted {restarts}; the time holds what that took"


def _reasons(reasons: Sequence[Finding], depth: int = 1) -> Iterator[Row]:
    for reason in reasons:
        accepted = ", accepted" if reason.accepted else ""
        yield depth, f"{reason.severity}{accepted} {reason.id}: {reason.sentence}"
        yield from ((depth + 1, _place(place)) for place in reason.evidence)
        if reason.action is not None:
            yield depth + 1, f"what to do: {reason.action}"


def _place(place: Place) -> str:
    text = f": {place.text}" if place.text else ""
    return f"{place.file}:{place.line}{text}"


# -- formulas -------------------------------------------------------------------------------------


def _formulas(made: Iterable[Formula]) -> Iterator[Row]:
    for formula in made:
        yield 0, f"{formula.name} = {'none: ' if formula.value is None else ''}{formula.text}"


def formulas(measurement: Measurement) -> tuple[Formula, ...]:
    """Return each estimator with its numbers, the headline first."""
    known = measurement.throughput or measurement.unverified
    if known is None:
        return ()
    made = []
    for name in ESTIMATORS:
        value = getattr(known, name)
        text = measurement.missing.get(f"throughput.{name}", "it is not known")
        if value is not None:
            text = f"{_numbers(name, measurement, known.unit)} = {rate(value)} {known.unit}"
        made.append(Formula(name, value, text))
    return tuple(made)


def _numbers(name: str, measurement: Measurement, unit: str) -> str:
    """The right side of a formula, up to its result."""
    records, window = counted(measurement.records, "record"), measurement.window
    if not measurement.records:
        return "the log's own figure of the whole run"
    left_out = window.left_out_count if window is not None else 0
    words = {
        "median": f"{_middle(measurement.records)} of {records}' rates",
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


def group_formulas(result: Result) -> list[Formula]:
    """Return the figures of a group's runs, with their numbers."""
    group, spread = result.group, result.group.spread
    if spread is None:
        return [Formula("median", None, "no run counts")]
    rates = sorted(m.rate for m in group.members if m.rate is not None)
    count, unit = len(rates), group.unit
    median = f"{_middle(count)} of {', '.join(map(rate, rates))} = {rate(spread.median)} {unit}"
    mean = f"{rate(sum(rates))} ÷ {count} = {rate(spread.mean)} {unit}"
    interval = spread.interval_reason or "it is not known"
    if spread.low is not None and spread.high is not None and spread.coverage is not None:
        ends = f"{rate(spread.low)}–{rate(spread.high)}"
        interval = f"{ends} of {count} runs, coverage {spread.coverage:.4g}"
    alone = f"{rate(spread.median / (result.speedup.value or 1))} (1x1, group {result.baseline})"
    return [
        Formula("median", spread.median, median),
        Formula("mean", spread.mean, mean),
        Formula("interval", spread.coverage, interval),
        _of_figure("speedup", result.speedup, f"{rate(spread.median)} ÷ {alone}"),
        _of_figure("efficiency", result.efficiency, f"speedup ÷ {group.plan.world_size} GPUs"),
    ]


def _of_figure(name: str, figure: Figure, numbers: str) -> Formula:
    if figure.value is None:
        return Formula(name, None, figure.reason or "it is not known")
    notes = f" ({'; '.join(figure.notes)})" if figure.notes else ""
    return Formula(name, figure.value, f"{numbers} = {figure.value:.3f}{notes}")


def _middle(count: int) -> str:
    """Describe the median of ``count`` values."""
    return "the middle" if count % 2 else "the mean of the middle two"
