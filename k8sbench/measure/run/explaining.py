"""What one run's figures were made of: lines, window, formulas with their numbers, reasons.

All of it follows from the measurement; the lines and the sums of some estimators need the logs. The
figures are those on record: logs that give others are not those that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from k8sbench.measure.group import rules as group_rules
from k8sbench.measure.run import redaction, time_to_train
from k8sbench.measure.run import rules as run_rules
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.measure.run.rank_records import RankRecords
from k8sbench.model.counts import counted
from k8sbench.model.explanation import Formula, LinesCounted, TrainingExplained
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import ESTIMATORS, Measurement, Throughput
from k8sbench.model.sample import Place, Record

SAME = 1e-9
"""Relative difference of figures that were computed from the same lines."""


def shown(value: float) -> str:
    """A figure with two decimals, as reports have it, or more digits where it is small."""
    return f"{value:.2f}" if value >= 10 else f"{value:.4g}"


def middle(count: int) -> str:
    """What the median of so many values is."""
    return "the middle" if count % 2 else "the mean of the middle two"


def figures(measurement: Measurement) -> Throughput | None:
    """The figures of a measurement, whether they count or not."""
    return measurement.throughput or measurement.unverified


def agrees(measurement: Measurement, again: Measurement) -> bool:
    """Whether logs that were measured again give the figures on record."""
    recorded, repeated = figures(measurement), figures(again)
    if recorded is None or repeated is None:
        return recorded is repeated
    if (measurement.iterations, measurement.records) != (again.iterations, again.records):
        return False
    return math.isclose(recorded.time_weighted or 0, repeated.time_weighted or 0, rel_tol=SAME)


def lines(measurement: Measurement, log: LogFacts | None) -> LinesCounted:
    """The training lines that count; where each stands only with the logs."""
    rank = log.rank if log is not None else None
    if rank is None:
        return LinesCounted(
            read=None, counted=measurement.records, first=None, last=None, unused=None
        )
    tally = rank.tally
    first, last = tally.files
    return LinesCounted(
        read=rank.all_records,
        counted=tally.records,
        first=_place(first, tally.first),
        last=_place(last, tally.last),
        unused=max(rank.all_records - tally.records, 0),
    )


def formulas(measurement: Measurement, log: LogFacts | None) -> tuple[Formula, ...]:
    """Each estimator with its numbers put in, the usual headline first."""
    known = figures(measurement)
    if known is None:
        return ()
    rank = log.rank if log is not None else None
    made = []
    for name in ESTIMATORS:
        value = getattr(known, name)
        if value is None:
            why = measurement.missing.get(f"throughput.{name}", "it is not known")
            made.append(Formula(estimator=name, value=None, text=why))
            continue
        text = _text(name, value, measurement, rank, log)
        made.append(
            Formula(estimator=name, value=value, text=f"{text} = {shown(value)} {known.unit}")
        )
    return tuple(made)


def training(measurement: Measurement, log: LogFacts | None) -> TrainingExplained | None:
    """The lines behind the time to train and the accuracy; None without an evaluation."""
    if measurement.accuracy is None:
        return None
    goal = time_to_train.of_log(log, measurement.target) if log is not None else None
    begun = log.airank.begun if log is not None else None
    reached, best = (goal.reached, goal.best) if goal is not None else (None, None)
    text = measurement.missing.get("time_to_train_s", "the logs are not available")
    if measurement.time_to_train_s is not None:
        text = (
            f"{measurement.time_to_train_s:.3f} s from test_begin to the evaluation that reached it"
        )
        if begun is not None and begun.stamp is not None and reached is not None:
            text = f"{reached.at:.3f} − {begun.stamp:.3f} = {measurement.time_to_train_s:.3f} s"
    return TrainingExplained(
        time_to_train_s=measurement.time_to_train_s,
        text=text,
        target=measurement.target,
        began=log.airank.begun_at if log is not None else None,
        reached=None if reached is None else reached.place,
        best=None if best is None else best.place,
        restarts=measurement.restarts,
    )


def with_actions(reasons: Iterable[Finding]) -> tuple[Finding, ...]:
    """Add to reasons of older versions, which say what is wrong, what to do."""
    known = run_rules.ALL | group_rules.ALL
    return tuple(
        msgspec.structs.replace(reason, action=known[reason.id].action)
        if reason.action is None and reason.id in known
        else reason
        for reason in reasons
    )


def _place(file: str, record: Record | None) -> Place | None:
    return None if record is None else redaction.place(file, record.line, record.text)


def _text(
    name: str,
    value: float,
    measurement: Measurement,
    rank: RankRecords | None,
    log: LogFacts | None,
) -> str:
    """The right side of an estimator's formula, up to its result."""
    if rank is None and log is not None and log.whole_run is not None:
        return "the log's own figure of the whole run"
    if name == "timestamps":
        return _by_stamps(value, measurement, rank)
    if name in {"median", "arithmetic"}:
        return _of_rates(name, measurement, rank)
    iterations, seconds, units = _sums(name, measurement, rank)
    if iterations is None:
        return f"as time_weighted, {without(measurement)}"
    samples = _samples(iterations, measurement)
    if samples is not None and seconds is not None:
        return f"{samples} ÷ {seconds:.6g} s"
    if units is None or rank is None:
        return f"{iterations} iterations over the time of {measurement.records} records"
    of_gpus = f" × {measurement.gpus} GPUs" if rank.shape.per == "card" else ""
    return (
        f"{iterations} iterations ÷ {units:.6g} (each record's iterations ÷ its printed rate,"
        f" summed){of_gpus}"
    )


def without(measurement: Measurement) -> str:
    """What the steady form of the headline lacks."""
    count = measurement.window.left_out_count if measurement.window is not None else 0
    if not count:
        return "which leaves nothing out here"
    return (
        f"without the {counted(count, 'record')} that hold an evaluation, a checkpoint or a restart"
    )


def _samples(iterations: int, measurement: Measurement) -> str | None:
    if measurement.batch_size_per_gpu is None or measurement.gpus is None:
        return None
    singular, plural = ("process", "processes") if measurement.device == "cpu" else ("GPU", "GPUs")
    samples = f"{iterations} iterations × {measurement.batch_size_per_gpu} per {singular}"
    return samples if measurement.gpus == 1 else f"{samples} × {measurement.gpus} {plural}"


def _sums(
    name: str, measurement: Measurement, rank: RankRecords | None
) -> tuple[int | None, float | None, float | None]:
    """Iterations of an estimator, their seconds, and their time in the unit of the log."""
    window = measurement.window
    whole = window.seconds if window is not None else None
    span = rank.tally.span if rank is not None else None
    if rank is None or span is None:
        return (measurement.iterations if name == "time_weighted" else None), whole, None
    tally = rank.tally
    iterations, units = span.iterations, span.time
    if name == "printed_steps":
        iterations, units = tally.iterations, tally.time
    elif name == "time_weighted_steady" and not tally.all_steps:
        iterations, units = tally.steady_iterations, tally.steady_time
    seconds = None if whole is None or not span.time else whole * units / span.time
    return iterations, seconds, units


def _by_stamps(value: float, measurement: Measurement, rank: RankRecords | None) -> str:
    stamped = rank.tally.stamped if rank is not None else None
    if stamped is None:
        return "samples ÷ seconds, by the stamps of the first and the last counted line"
    iterations = stamped[1].position - stamped[0].position
    batch, gpus = measurement.batch_size_per_gpu or 0, measurement.gpus or 0
    return (
        f"{_samples(iterations, measurement)} ÷ {iterations * batch * gpus / value:.6g} s, by"
        " the stamps of the first and the last counted line"
    )


def _of_rates(name: str, measurement: Measurement, rank: RankRecords | None) -> str:
    known = figures(measurement)
    span = rank.tally.span if rank is not None else None
    if rank is None or span is None or known is None or known.time_weighted is None:
        which = middle(measurement.records) if name == "median" else "the mean"
        return f"{which} of {measurement.records} records' rates"
    # The job's samples per second in one unit of a record's rate.
    tally = rank.tally
    scale = known.time_weighted * span.time / span.iterations
    text = (
        f"{tally.records} records' rates, {shown(min(tally.rates) * scale)} to"
        f" {shown(max(tally.rates) * scale)}"
    )
    if name == "median":
        return f"{middle(tally.records)} of {text}"
    return f"{shown(sum(tally.rates) * scale)}, the sum of {text}, ÷ {tally.records}"
