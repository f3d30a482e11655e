"""The computation of a figure as text, one fact per line.

All of it comes from the record; no log is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from k8sbench.catalog.planning import describe_case
from k8sbench.model import arithmetic
from k8sbench.model.errors import Finding, NotFound, list_few
from k8sbench.model.facts import Facts
from k8sbench.model.group import Group, Result, rows_named
from k8sbench.model.log_format import ExpressionMatches
from k8sbench.model.measurement import ESTIMATORS, MeasuredWindow, Measurement, Throughput
from k8sbench.model.plain_text import ABSENT, clean, counted, significant
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.sample import Place
from k8sbench.results.groups import selection, speedup
from k8sbench.results.groups.known import KnownGroups, singles
from k8sbench.results.groups.selection import Find
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.tables import wrapped
from k8sbench.results.report.words import english

WIDTH = 100
Row = tuple[int, str]
"""Depth, and a sentence."""


def text(rows: Iterable[Row], width: int | None = WIDTH) -> str:
    """Write rows for people."""
    return "".join(
        wrapped("  " * depth + clean(row), width, indent="  " * (depth + 1)) + "\n"
        for depth, row in rows
    )


def explain(text: str, known: KnownGroups, find: Find) -> Iterator[Row]:
    """Explain what a text names: a run or a group."""
    if text.startswith("g-"):  # as the ids of groups do
        named = rows_named(known.rows, text)
        if len(named) != 1:
            count = f"{len(named)} groups begin with" if named else "There is no group"
            ids = list_few(sorted(row.group_id for row in named))
            way = f"Name one of: {ids}." if named else "k8sbench results -o wide shows the ids."
            raise NotFound(f"{count} {text!r}.", way)
        groups = known.groups(named)
        (result,) = speedup.results(groups, among=singles(known, groups), find=find)
        yield from of_group(result)
    else:
        run_id = selection.run_id(text, known)
        sets = known.sets_of([run_id])
        groups = known.groups(row for row in known.rows if row.set_name in sets)
        group = next(each for each in groups if any(m.run_id == run_id for m in each.members))
        yield from of_run(known.runs[run_id], group)


def of_measurement(found: Measurement) -> Iterator[Row]:
    """Explain the measurement of logs without a run."""
    yield 0, ", ".join(found.files)
    figures = found.throughput or found.unverified
    some = any(reason.accepted for reason in found.reasons)
    verdict = f"{found.verdict}{', some reasons accepted' if some else ''}"
    if figures is None:
        yield 1, f"no figure: {found.missing.get('throughput', 'not measured')}  {verdict}"
    else:
        headline = _shown(getattr(figures, found.estimator))
        unsure = " (unverified)" if found.throughput is None else ""
        yield 1, f"{headline} {figures.unit} {found.estimator}{unsure}  {verdict}"
        yield 2, _estimators(figures)
        words = list(_words(found, headline=figures.unit))
        if words:
            yield 2, " · ".join(words)
    kind = "CPU process" if found.device == "cpu" else "GPU"
    batch = found.batch_size_per_gpu
    facts = (
        *(found.format, found.impl, found.framework),
        found.precision_effective or found.precision,
        counted(found.gpus, kind) if found.gpus else None,
        "smoke run" if found.environment.get("preset") == "smoke" else None,
        f"batch {significant(batch, 10)} per {kind}" if batch else None,
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
    figure = english(group_words.run_rate(member.rate, member.unverified, group.unit))
    if measurement is None:
        state = str(run.phase)
    elif member.rate is None:
        state = "rejected"
    else:
        state = "valid"
        figure += f" by {measurement.estimator}"
    yield 0, f"{run.run_id}: {figure}, {state}"
    yield 1, _title(run.facts, run.planned, group)
    if measurement is not None:
        # Measurements of earlier versions do not say how many lines there were, nor which count.
        read = measurement.training_lines
        of = "" if read is None else f" of {read}"
        yield 0, f"Lines: {counted(measurement.records, 'training line', ('counts', 'count'))}{of}"
        yield from _stated(measurement, "first", "last")
        if measurement.window is not None:
            yield from _window(measurement, measurement.window)
        if (figures := measurement.throughput or measurement.unverified) is not None:
            yield 0, f"Estimators: {_estimators(figures)}"
        yield from _mfu(measurement, group, member.rate)
        if measurement.accuracy is not None:
            yield from _training(measurement)
    if run.facts.stated_by:
        yield 0, "Sources"
        for name, source in run.facts.stated_by.items():
            yield 1, f"{name.replace('_', ' ')}: {source}"
    yield 0, "Reasons" if member.reasons else "Reasons: none"
    yield from _reasons(member.reasons)


def of_group(result: Result) -> Iterator[Row]:
    """Explain a group: its runs, and the reasons against them."""
    group, spread = result.group, result.group.spread
    median = None if spread is None else spread.median
    figure = english(group_words.run_rate(median, None, group.unit))
    by = "" if spread is None else f" by {group.estimator}"
    yield 0, f"{group.key.id}: {figure}{by}, {group.state}"
    yield 1, _title(group.facts, group.planned, group)
    yield 0, "Runs"
    for member in group.members:
        figure = english(group_words.run_rate(member.rate, member.unverified, group.unit))
        yield 1, f"{member.repeat}. {member.run_id}: {figure}"
        yield from _reasons(member.reasons, 2)
    if spread is not None:
        interval = group_words.interval(spread) or f"none: {english(spread.interval_reason or '')}"
        yield 0, f"Median of {counted(group.counted, 'run')}; 95 % interval {interval}"
    for name, of in (("Speedup", result.speedup), ("Efficiency", result.efficiency)):
        found = f"none: {english(of.reason or '')}" if of.value is None else formats.ratio(of.value)
        against = f", against group {result.baseline}" if name == "Speedup" and of.value else ""
        yield 0, f"{name}: {'; '.join([found + against, *map(english, of.notes)])}"
    yield 0, "Reasons of the group" if group.reasons else "Reasons of the group: none"
    yield from _reasons(group.reasons)


def of_expressions(log: str, lines: int, tried: Iterable[ExpressionMatches]) -> Iterator[Row]:
    """Yield the lines that the expressions of a declared format match."""
    yield 0, f"{log}: {counted(lines, 'line')}"
    for each in tried:
        matched = counted(each.matched, "line") if each.matched else "no line"
        yield 0, f"{each.name} of {each.variant} matches {matched}: {each.pattern}"
        for place, groups in each.lines:
            yield 1, _place(place)
            named = ", ".join(f"{name} {text!r}" for name, text in groups.items())
            yield 2, named or "no group took part"


def _words(found: Measurement, *, headline: str) -> Iterator[str]:
    """Write tokens per second, and what the program itself says of its arithmetic."""
    if found.tokens_per_second is not None:
        if not headline.startswith("tokens"):
            yield f"{_shown(found.tokens_per_second)} tokens/s"
        if found.gpus:
            yield f"{_shown(found.tokens_per_second / found.gpus)} tokens/s per GPU"
    yield from _by_program(found)


def _by_program(found: Measurement) -> Iterator[str]:
    """Write what the program itself says of its arithmetic."""
    for name, unit in (("mfu", "% MFU"), ("tflops", "TFLOP/s per GPU")):
        if (said := found.environment.get(f"{name}_by_program")) is not None:
            yield f"{said:.4g} {unit} by the program"


def _mfu(found: Measurement, group: Group, rate: float | None) -> Iterator[Row]:
    """Explain the share of the GPUs' peak that a run reached, by k8sbench and by the program."""
    speed, share = arithmetic.arithmetic_speed(group, rate)
    if share.value is None:
        yield 0, f"MFU: none: {english(share.reason or '')}"
    else:
        assert speed.value is not None
        yield 0, f"MFU: {100 * share.value:.4g} %, {speed.value:.4g} TFLOP/s per GPU"
        model = group.facts.fingerprint
        yield from ((1, english(one)) for one in share.notes)
        yield 1, f"model: {model.model}" if model else "model: unknown"
    yield from ((1, words) for words in _by_program(found))


def _estimators(figures: Throughput) -> str:
    """Write the figure of each estimator but the headline's."""
    rates = {name: getattr(figures, name) for name in ESTIMATORS[1:]}
    if figures.printed_steps is None:
        del rates["printed_steps"]
    return " · ".join(f"{name} {_shown(one)}" for name, one in rates.items())


def _shown(figure: float | None) -> str:
    return ABSENT if figure is None else formats.rate(figure)


def _title(facts: Facts, planned: RunPlan | None, group: Group) -> str:
    return f"{describe_case(facts, planned)}; set {group.key.set_name}, group {group.key.id}"


def _stated(measurement: Measurement, *names: str) -> Iterator[Row]:
    """Yield the known lines that state a figure."""
    for name in names:
        if name in measurement.lines:
            yield 1, f"{name}: {_place(measurement.lines[name])}"


def _window(measurement: Measurement, window: MeasuredWindow, depth: int = 0) -> Iterator[Row]:
    first, last = window.first_iteration, window.last_iteration
    took = f", {significant(window.seconds, 6)} s" if window.seconds is not None else ""
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
        figures = measurement.throughput or measurement.unverified
        is_whole = figures and figures.time_weighted == figures.time_weighted_steady
        yield depth + 1, f"left out{'' if is_whole else ' of time_weighted_steady alone'}: {what}"
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
