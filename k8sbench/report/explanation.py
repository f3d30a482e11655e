"""Explanations as text for people: one thing per line, evidence below what it is evidence for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from k8sbench.model.counts import counted
from k8sbench.model.explanation import (
    ExpressionExplained,
    FormatExplanation,
    Formula,
    GroupExplanation,
    Reproduction,
    RunExplanation,
)
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import MeasuredWindow, Measurement
from k8sbench.model.plain_text import clean
from k8sbench.model.sample import Place
from k8sbench.report import numbers

WIDTH = 100
FEW_RULES = 12
FEW_PLACES = 3


def text(found: RunExplanation | GroupExplanation | FormatExplanation, width: int = WIDTH) -> str:
    """Write what a figure was made of, or which lines the expressions of a file match."""
    if isinstance(found, RunExplanation):
        return _wrapped(_run(found), width)
    if isinstance(found, GroupExplanation):
        return _wrapped(_group(found), width)
    return _wrapped(_format(found), width)


Row = tuple[int, str]
"""Depth, and a sentence."""


def _wrapped(rows: Iterable[Row], width: int) -> str:
    return "".join(
        textwrap.fill(
            clean(text),
            width,
            initial_indent="  " * depth,
            subsequent_indent="  " * (depth + 1),
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for depth, text in rows
    )


def _run(found: RunExplanation) -> Iterator[Row]:
    measurement = found.measurement
    yield 0, f"{found.run_id}: {_headline(found)}"
    yield 1, f"{found.title}; set {found.set_name}, group {found.group}"
    if measurement is not None:
        yield from _lines(measurement)
        if measurement.window is not None:
            yield from _window(measurement, measurement.window)
        yield from _formulas(found.formulas, measurement.estimator)
        if measurement.accuracy is not None:
            yield from _training(measurement)
    yield from _reasons(found.reasons)
    yield from _published(found.published)


def _headline(found: RunExplanation) -> str:
    measurement = found.measurement
    if measurement is None:
        return f"no figure: the run is {found.phase}"
    figures = measurement.throughput or measurement.unverified
    unit = figures.unit if figures is not None else ""
    if found.throughput is not None:
        rate = numbers.rate(found.throughput)
        return f"{rate} {unit} {measurement.estimator}, {found.verdict}"
    if found.unverified is not None:
        return f"{found.verdict}; {numbers.rate(found.unverified)} {unit} does not count"
    return f"no figure: {measurement.missing.get('throughput', f'the run is {found.phase}')}"


def _lines(measurement: Measurement) -> Iterator[Row]:
    yield 0, "Lines"
    each = counted(measurement.records, "training line", ("counts", "count"))
    read = measurement.training_lines
    if read is None:
        yield 1, f"{each}; an earlier version measured it and did not record which"
        return
    outside = read - measurement.records
    unused = counted(outside, "line", ("lies", "lie"))
    yield 1, f"{each} of {read}" + (f"; {unused} outside the window" if outside > 0 else "")
    yield from _stated(measurement, "first", "last")


def _stated(measurement: Measurement, *names: str) -> Iterator[Row]:
    """The lines that state a figure, those of them that are known."""
    for name in names:
        if name in measurement.lines:
            yield 2, f"{name}: {_place(measurement.lines[name])}"


def _window(measurement: Measurement, window: MeasuredWindow) -> Iterator[Row]:
    first, last = window.first_iteration, window.last_iteration
    took = f", {window.seconds:.6g} s" if window.seconds is not None else ""
    yield 0, "Window"
    yield 1, f"iterations {first} to {last}: {measurement.iterations} measured{took}"
    unprinted = last - first + 1 - measurement.iterations
    if unprinted > 0:
        yield 1, f"not measured: {unprinted} of these, which no line that counts covers"
    warmup = measurement.warmup_iterations
    if warmup:
        more = first - 1 - warmup
        rest = f", and {more} more, before the first line that counts" if more > 0 else ""
        yield 1, f"left out: the first {counted(warmup, 'iteration')}, warm-up{rest}"
    elif first > 1:
        before = counted(first - 1, "iteration")
        yield 1, f"left out: the first {before}, before the first line that counts"
    if window.left_out_count:
        records = counted(window.left_out_count, "record")
        what = f"{records} with an evaluation, a checkpoint or a restart"
        some = f", the first {FEW_PLACES} of them" if window.left_out_count > FEW_PLACES else ""
        yield 1, f"left out of time_weighted_steady alone: {what}{some}"
        yield from _places(2, window.left_out[:FEW_PLACES])


def _formulas(formulas: Sequence[Formula], headline: str | None) -> Iterator[Row]:
    if not formulas:
        return
    yield 0, "Formulas"
    for each in formulas:
        mark = " (the headline)" if each.estimator == headline else ""
        none = "" if each.value is not None else "none: "
        yield 1, f"{each.estimator}{mark} = {none}{each.text}"


def _training(measurement: Measurement) -> Iterator[Row]:
    yield 0, "Training"
    aim = "" if measurement.target is None else f" to {measurement.target:g} %"
    time = measurement.time_to_train_s
    how = f"none: {measurement.missing.get('time_to_train_s', 'it is not known')}"
    if time is not None:
        how = f"{time:.3f} s from test_begin to the evaluation that reached it"
    yield 1, f"time to train{aim} = {how}"
    yield from _stated(measurement, "began", "reached", "best")
    if measurement.restarts:
        restarts = counted(measurement.restarts, "time")
        yield 1, f"restarted {restarts}; the time holds what that took"


def _reasons(reasons: Sequence[Finding], depth: int = 0) -> Iterator[Row]:
    if not reasons and depth == 0:
        yield 0, "Reasons: none"
    if reasons and depth == 0:
        yield 0, "Reasons"
    for each in reasons:
        accepted = ", accepted" if each.accepted else ""
        yield depth + 1, f"{each.severity}{accepted} {each.id}: {each.sentence}"
        yield from _places(depth + 2, each.evidence)
        if each.action is not None:
            yield depth + 2, f"what to do: {each.action}"


def _published(published: Sequence[Reproduction]) -> Iterator[Row]:
    for each in published:
        one = each.figure
        of = f"{one.case} {one.precision}, batch {one.batch_size}, {one.gpu_model}"
        rate = numbers.rate(one.published)
        yield 0, f"Published {rate} by {one.source} ({of}; estimator {one.estimator})"
        if each.not_comparable:
            yield 1, f"not comparable: {', '.join(each.not_comparable)}"
        for rule in each.rules[:FEW_RULES]:
            deviation = "" if rule.deviation is None else f" ({_signed(rule.deviation)})"
            yield 1, f"{numbers.rate(rule.value)} {rule.name}{deviation}"
        nearest = each.rules[0] if each.rules else None
        if each.reproduced_by:
            yield 1, f"reproduced by: {', '.join(each.reproduced_by)} (within 0.1 %)"
        elif nearest is not None and nearest.deviation is not None:
            by = _signed(nearest.deviation)
            yield 1, f"no rule reproduces it; {nearest.name} is nearest, {by}"


def _group(found: GroupExplanation) -> Iterator[Row]:
    figure = (
        "no figure"
        if found.throughput is None
        else f"{numbers.rate(found.throughput)} {found.unit}"
    )
    yield 0, f"{found.group}: {figure}, {found.state}"
    yield 1, f"{found.title}; set {found.set_name}, each run by {found.estimator}"
    yield 0, "Runs"
    for member in found.members:
        rate = "no figure"
        if member.rate is not None:
            rate = f"{numbers.rate(member.rate)} {found.unit} counts"
        elif member.unverified is not None:
            rate = f"{numbers.rate(member.unverified)} {found.unit} does not count"
        yield 1, f"{member.repeat}. {member.run_id}: {rate}"
        yield from _reasons(member.reasons, 1)
    yield from _formulas(found.formulas, None)
    if found.by_estimator:
        yield 0, "Median of the counted runs by each estimator"
        yield from (
            (1, f"{name} = {numbers.rate(v)} {found.unit}")
            for name, v in found.by_estimator.items()
        )
    yield from _reasons(found.reasons)
    yield from _published(found.published)


def _format(found: FormatExplanation) -> Iterator[Row]:
    yield 0, f"{found.log}: {counted(found.read, 'line')}, {found.benchmark}"
    for each in found.expressions:
        yield from _expression(each)


def _expression(each: ExpressionExplained) -> Iterator[Row]:
    lines = "no line" if not each.matched else counted(each.matched, "line")
    yield 0, f"{each.name} of {each.variant} matches {lines}: {each.pattern}"
    for line in each.lines:
        yield 1, _place(line.place)
        groups = ", ".join(f"{name} {text!r}" for name, text in line.groups.items())
        yield 2, groups or "no group took part"
        if line.unread:
            yield 2, f"cannot be read: {', '.join(line.unread)}"
    if each.unread:
        yield 1, f"in {counted(each.unread, 'line')} a group is no number: correct the pattern"
    if not each.matched:
        yield 1, "compare it with a line of the log, from its beginning on"


def _signed(deviation: float) -> str:
    """A deviation with two decimals: rules often differ by less than a tenth of a percent."""
    return f"{100 * deviation:+.2f} %".replace("-", "−")


def _places(depth: int, places: Iterable[Place]) -> Iterator[Row]:
    return ((depth, _place(place)) for place in places)


def _place(place: Place) -> str:
    text = f": {place.text}" if place.text else ""
    return f"{place.file}:{place.line}{text}"
