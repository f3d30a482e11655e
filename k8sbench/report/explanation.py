"""Measurements and explanations as text: one thing per line, evidence below what it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k8sbench.model.counts import ABSENT, counted
from k8sbench.model.explanation import (
    Explanation,
    ExpressionExplained,
    FormatExplanation,
    Reproduction,
)
from k8sbench.model.finding import Finding
from k8sbench.model.group import Member
from k8sbench.model.measurement import ESTIMATORS, MeasuredWindow, Measurement
from k8sbench.model.plain_text import clean
from k8sbench.model.sample import Place
from k8sbench.report import formats, group_words
from k8sbench.report.text_table import wrapped

WIDTH = 100
Row = tuple[int, str]
"""Depth, and a sentence."""


def text(made: Measurement | Explanation | FormatExplanation, width: int | None = WIDTH) -> str:
    """Write what was measured in logs, what a figure was made of, or what expressions match."""
    match made:
        case Measurement():
            rows = _measured(made)
        case Explanation():
            rows = _figure(made)
        case FormatExplanation():
            rows = _format(made)
    return "".join(
        wrapped("  " * depth + clean(row), width, indent="  " * (depth + 1)) + "\n"
        for depth, row in rows
    )


def _measured(found: Measurement) -> Iterator[Row]:
    yield 0, ", ".join(found.files)
    figures = found.throughput or found.unverified
    some = any(reason.accepted for reason in found.reasons)
    verdict = f"{found.verdict}{', some reasons accepted' if some else ''}"
    if figures is None:
        yield 1, f"no figure: {found.missing.get('throughput', 'not measured')}  {verdict}"
    else:
        rates = {name: getattr(figures, name) for name in ESTIMATORS}
        texts = {k: ABSENT if rate is None else formats.rate(rate) for k, rate in rates.items()}
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


def _figure(made: Explanation) -> Iterator[Row]:
    measurement = made.measurement
    rate = group_words.run_rate(made.throughput, made.unverified, made.unit)
    by = "" if made.throughput is None else f" by {made.estimator}"
    yield 0, f"{made.run_id or made.group}: {rate}{by}, {made.state}"
    kinds = f"; {' and '.join(made.job_kinds)}" if made.job_kinds else ""
    yield 1, f"{made.title}; set {made.set_name}, group {made.group}{kinds}"
    if measurement is not None:
        yield from _lines(measurement)
        if measurement.window is not None:
            yield from _window(measurement, measurement.window)
    if made.run_id is None:
        yield from _members(made.members, made.unit)
    for formula in made.formulas:
        none = "" if formula.value is not None else "none: "
        yield 0, f"{formula.estimator} = {none}{formula.text}"
    if measurement is not None and measurement.accuracy is not None:
        yield from _training(measurement)
    yield 0, "Reasons" if made.reasons else "Reasons: none"
    yield from _reasons(made.reasons)
    yield from _published(made.published)


def _lines(measurement: Measurement) -> Iterator[Row]:
    # Measurements of earlier versions do not say how many lines there were, nor which count.
    read = measurement.training_lines
    of = "" if read is None else f" of {read}"
    yield 0, f"Lines: {counted(measurement.records, 'training line', ('counts', 'count'))}{of}"
    yield from _stated(measurement, "first", "last")


def _stated(measurement: Measurement, *names: str) -> Iterator[Row]:
    """The lines that state a figure, those of them that are known."""
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


def _members(members: Sequence[Member], unit: str) -> Iterator[Row]:
    yield 0, "Runs"
    for member in members:
        rate = group_words.run_rate(member.rate, member.unverified, unit)
        yield 1, f"{member.repeat}. {member.run_id}: {rate}"
        yield from _reasons(member.reasons, 2)


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


def _published(published: Sequence[Reproduction]) -> Iterator[Row]:
    for each in published:
        one = each.figure
        of = f"{one.case} {one.precision}, batch {one.batch_size}, {one.gpu_model}"
        rate = formats.rate(one.published)
        yield 0, f"Published {rate} by {one.source} ({of}; estimator {one.estimator})"
        if each.not_comparable:
            yield 1, f"not comparable: {', '.join(each.not_comparable)}"
        for rule in each.rules:
            # Two decimals: rules often differ by less than a tenth of a percent.
            signed = "" if rule.deviation is None else f" ({100 * rule.deviation:+.2f} %)"
            yield 1, f"{formats.rate(rule.value)} {rule.name}{signed.replace('-', '−')}"


def _format(made: FormatExplanation) -> Iterator[Row]:
    yield 0, f"{made.log}: {counted(made.read, 'line')}, {made.benchmark}"
    for expression in made.expressions:
        yield from _expression(expression)


def _expression(made: ExpressionExplained) -> Iterator[Row]:
    lines = "no line" if not made.matched else counted(made.matched, "line")
    yield 0, f"{made.name} of {made.variant} matches {lines}: {made.pattern}"
    for line in made.lines:
        yield 1, _place(line.place)
        groups = ", ".join(f"{name} {text!r}" for name, text in line.groups.items())
        yield 2, groups or "no group took part"
        if line.unread:
            yield 2, f"cannot be read: {', '.join(line.unread)}"
    if made.unread:
        yield 1, f"in {counted(made.unread, 'line')} a group is no number: correct the pattern"
    if not made.matched:
        yield 1, "compare it with a line of the log, from its beginning on"


def _place(place: Place) -> str:
    text = f": {place.text}" if place.text else ""
    return f"{place.file}:{place.line}{text}"
