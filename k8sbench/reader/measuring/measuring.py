"""One run's logs to one measurement; the entry point is :func:`measure`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model import rules, verdict
from k8sbench.model.arithmetic import beyond_fp32, beyond_peak
from k8sbench.model.errors import Finding, InputError
from k8sbench.model.gpu_metrics import SeriesQuery
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import ESTIMATORS, MeasuredWindow, Measurement, Throughput
from k8sbench.model.sample import COARSEST, Place, Shape
from k8sbench.model.spec_values import Estimator
from k8sbench.reader.family import UNENDED
from k8sbench.reader.measuring import (
    gpu_metrics,
    integrity,
    log_statements,
    log_units,
    nothing_measured,
)
from k8sbench.reader.measuring.expectation import AUTO, Expectation
from k8sbench.reader.measuring.gpu_metrics import PlannedGpus
from k8sbench.reader.measuring.log_facts import LogFacts, OpenedLog
from k8sbench.reader.measuring.log_statements import Case, TimeToTrain
from k8sbench.reader.measuring.rank_records import RankRecords
from k8sbench.reader.measuring.rank_sums import FEWEST_RECORDS

OF_ITS_CASES = {rules.BATCH_SIZE.id, rules.TOO_FEW_ITERATIONS.id, rules.SHORT_WARMUP.id}
"""Rejections of a log whose length or batch is not the benchmark's."""
VARYING = "The batch changes in the window: the figure is all samples ÷ all time."
NO_BATCH = "The batch is not known; give it with --batch-size."


class JudgedLog(NamedTuple):
    """The measurement of a run, and the expectation that applied."""

    measurement: Measurement
    expected: Expectation
    stated: Expectation | None
    """Expectation of the benchmark that the log states; None without one.

    See :attr:`Expectation.if_stated`.
    """
    unfit: list[str]
    """Ids of rejections by the stated benchmark alone, which then did not apply.

    If they are of :data:`OF_ITS_CASES`, the log is another case of the benchmark, else none.
    """
    sources: Mapping[str, str]
    """Fact → where it comes from, in words; facts that the log does not state are absent."""
    possible: str | None
    """The only benchmark of the log's format; None if the log names a model or a benchmark."""

    @property
    def recognised(self) -> str | None:
        """The benchmark that the log states and how to choose another, in words."""
        name = self.stated and self.stated.benchmark
        if self.unfit:
            what = f"in the format {self.measurement.format}, without a benchmark"
            if self.expected is self.stated:
                what = f"as benchmark {name}, with the log's own length and batch"
            return f"{what}. --benchmark {name} would reject it: {', '.join(self.unfit)}."
        way = f"Use --benchmark for another, or --format {AUTO} for none."
        return f"as benchmark {name}. {way}" if name else None


def measure(
    sources: Iterable[OpenedLog], expected: Expectation | Sequence[Expectation]
) -> Measurement:
    """Measure one run, of which more is known than its logs (:func:`judge`)."""
    return _measurement(_read(sources, expected))


def judge(sources: Iterable[OpenedLog], candidates: Sequence[Expectation]) -> JudgedLog:
    """Measure one run from its logs.

    One file, or those of its ranks or pieces in order. The candidate that the log states applies,
    unless it has a reason of its own to reject the log; else the first one of the log's family.
    A log of another length or batch keeps its own: all cases of a published program are of one
    benchmark. GPU metrics are those that our trainers print. Raises
    :class:`~k8sbench.model.errors.InputError` if nothing can be measured. An untrustworthy log is
    measured and rejected, with its reasons.
    """
    log = _read(sources, candidates)
    found = _measurement(log)
    stated = log.stated
    unfit = list[str]()
    applied = stated or log.expected
    if stated is not None:
        plain, family, log.expected = found, log.expected, stated
        found = _measurement(log)
        unfit = [name for name in _rejections(found) if name not in _rejections(plain)]
        if unfit and OF_ITS_CASES.issuperset(unfit):
            log.expected = msgspec.structs.replace(
                stated, warmup=None, at_least=None, batch_sizes={}
            )
            found = _measurement(log)
        elif unfit:
            found, log.expected, applied = plain, family, family
    by_log = log_statements.sources(log, found.gpus or 1)
    possible = None if stated or log.facts.first("model") else _only_benchmark(found, candidates)
    return JudgedLog(_with_gpu_metrics(found, log), applied, stated, unfit, by_log, possible)


def _only_benchmark(measurement: Measurement, candidates: Sequence[Expectation]) -> str | None:
    """Return the benchmark of all conditional candidates of a log's format, if it is one."""
    possible = (one for one in candidates if one.if_stated and one.format == measurement.format)
    found = {one.benchmark for one in possible}
    return found.pop() if len(found) == 1 else None


def _rejections(measurement: Measurement) -> list[str]:
    rejections = (each for each in measurement.reasons if each.severity == "reject")
    return [each.id for each in rejections if not each.accepted]


def _read(sources: Iterable[OpenedLog], expected: Expectation | Sequence[Expectation]) -> LogFacts:
    log = LogFacts([expected] if isinstance(expected, Expectation) else list(expected))
    for source in sources:
        log.read(source)
    log.close()
    if not log.is_recognised:
        raise nothing_measured.no_training_line(log)
    if log.rank is None and isinstance(log.expected.format, LogFormat):
        nothing_measured.check_declared(log, log.expected.format)
    return log


def _with_gpu_metrics(measurement: Measurement, log: LogFacts) -> Measurement:
    fetched = log.gpu_series.fetched()
    steady = measurement.steady
    if steady is None or not fetched.series:
        return measurement
    wanted = SeriesQuery(
        run_id="", namespace=None, nodes={}, start=steady.started_at, end=steady.ended_at
    )
    job = PlannedGpus(measurement.gpus or 1, str(log.facts.first("preset")))
    return gpu_metrics.completed(measurement, job, wanted, [fetched], accept=log.expected.accept)


def _measurement(log: LogFacts) -> Measurement:
    """The measurement of logs that were read."""
    missing: dict[str, str] = {}
    case = _case(log, missing)
    measurement = _measure_log(case, missing)
    if case.rank is not None:
        measurement = _with_records(measurement, case.rank, case.seconds_per_unit)
    kept: dict[tuple[str, str], Finding] = {}
    for finding in integrity.reasons(case):  # of several with one id and severity the first
        kept.setdefault((finding.id, finding.severity), finding)
    if (rules.CLOCK_MISMATCH.id, "warn") in kept:
        measurement = _without_stamps(measurement, case.goal)
    reasons = [*kept.values(), *_above_peak(measurement, log)]
    return verdict.with_reasons(measurement, reasons, log.expected.accept)


def _without_stamps(measurement: Measurement, goal: log_statements.TimeToTrain) -> Measurement:
    """Drop the figures of stamps whose clock was set."""
    figures = measurement.throughput
    lost = ["throughput.timestamps", "train_wall_s"]
    to_train = measurement.time_to_train_s
    if to_train is not None and goal.reached is not None and goal.reached.elapsed is None:
        lost.append("time_to_train_s")
        to_train = None
    why = "The clock of the stamps was set within the window."
    return msgspec.structs.replace(
        measurement,
        throughput=figures and msgspec.structs.replace(figures, timestamps=None),
        train_wall_s=None,
        time_to_train_s=to_train,
        missing=measurement.missing | dict.fromkeys(lost, why),
    )


def _case(log: LogFacts, missing: dict[str, str]) -> Case:
    """Settle GPUs, batch and units, and compute the throughput."""
    expected = log.expected
    batch = log_statements.batch(log)
    rank = None if _by_summary(log) else log.rank
    logged = log.facts.whole("gpus") or None
    gpus = expected.gpus or logged
    if gpus is None and batch:
        gpus = log_statements.certain_samples(log, batch)
    if gpus is None:
        text, action = "the log does not state how many GPUs the job had", "Give the number"
        if UNENDED in log.facts and log.summaries.whole_run is None:
            text += f", and has no end, where {log.family.title} prints its rate"
            action = "To measure its progress bar, give the number"
        raise InputError(f"{text}.", f"{action} of the whole job with --gpus.", file=log.files[0])
    if batch is None or log_statements.shares_samples(log, gpus):
        batch = log_statements.per_gpu(log, gpus)
    # The rate is that of the GPUs of the run's own plan, whatever was given.
    cards = (logged or gpus) if log.family.states_plan else gpus
    unit = log_units.unit(log)
    job_batch = log_statements.job_batch(log, batch, cards)
    scale, unit_seconds = (
        (None, None) if rank is None else _scale(log, rank.shape, cards, job_batch)
    )
    return Case(
        log=log,
        rank=rank,
        gpus=gpus,
        batch=batch,
        job_batch=job_batch,
        precision=log_statements.precision(log),
        seconds_per_unit=unit_seconds,
        throughput=_throughput(log, rank, unit, scale, job_batch, missing),
        goal=log_statements.time_to_train(log),
    )


def _by_summary(log: LogFacts) -> bool:
    """True if the summary of the whole run is the figure."""
    if log.summaries.whole_run is None or log.rank is None:
        return False
    use = log.family.summary
    return use == "first" or (use == "if-few" and log.rank.tally.records < FEWEST_RECORDS)


def _measure_log(case: Case, missing: dict[str, str]) -> Measurement:
    """The measurement without its window of records."""
    log, expected, rank, goal = case.log, case.log.expected, case.rank, case.goal
    assert log.window is not None
    accuracy = log_statements.at_target(log_statements.accuracy(log), goal)
    if goal.seconds is None:
        missing["time_to_train_s"] = goal.missing
    if accuracy is None:
        missing["accuracy"] = verdict.NO_VALUE if log.evaluated else verdict.NO_EVALUATION
    if log.steady is None:
        missing["steady"] = "No line's time is known."
    gpu_model = log.facts.first("gpu_model")
    device = log.facts.first("device") or (None if gpu_model is None else "cuda")
    missing["gpu_metrics"] = (
        "no GPU was used" if device == "cpu" else "no source of GPU metrics was asked"
    )
    effective = (
        log.facts.first("precision_effective") or log.facts.first("precision") or case.precision
    )
    return Measurement(
        files=tuple(log.files),
        format=log.family.name,
        impl=log_statements.impl(log),
        framework=log.facts.first("framework") or log.family.framework or expected.framework,
        gpus=case.gpus,
        precision=case.precision,
        precision_effective=effective,
        amp_dtype=log_statements.amp_dtype(log),
        arithmetic=log_statements.arithmetic(log, missing),
        batch_size_per_gpu=case.batch,
        warmup_iterations=log.window.warmup - log.window.begin,
        iterations=0,
        records=0,
        throughput=case.throughput,
        tokens_per_second=_tokens(case, missing),
        estimator=_estimator(rank),
        final_loss=_final_loss(log, rank, missing),
        accuracy=accuracy,
        time_to_train_s=goal.seconds,
        train_wall_s=_wall(rank, missing),
        mode=log.facts.first("mode"),
        target=None if goal.target is None else goal.target.percent,
        ended_by=case.ended_by,
        restarts=len(log.restarts),
        begun_at=log_statements.begun_at(log),
        data_set=log_statements.data_set(log),
        weights=log_statements.weights(log, missing),
        broken_samples=log.training.broken or log.facts.whole("broken_samples"),
        data=log.facts.first("data") or expected.data,
        device=device,
        gpu_model=gpu_model,
        parameters=log.facts.whole("parameters"),
        memory_mib=log.facts.number("max_memory_mib") or None,
        lines=_lines(log, rank, goal),
        training_lines=0,
        steady=log.steady,
        ranks=tuple(log.rank_times[number] for number in sorted(log.rank_times)),
        environment=log_statements.environment(log, accuracy),
        missing=missing,
        verdict="valid",
        reasons=(),
    )


def _with_records(
    measurement: Measurement, rank: RankRecords, unit_seconds: float | None
) -> Measurement:
    """Add what the records of a rank say."""
    return msgspec.structs.replace(
        measurement,
        iterations=rank.tally.span.iterations if rank.tally.span else 0,
        records=rank.tally.records,
        memory_mib=measurement.memory_mib or rank.sums.memory_mib,
        data_fraction=rank.tally.waiting,
        window=_window(rank, unit_seconds),
        training_lines=rank.all_records,
        log_digest=rank.sums.digest.of_records(),
        losses_digest=rank.sums.digest.of_losses(),
    )


def _above_peak(measurement: Measurement, log: LogFacts) -> Iterator[Finding]:
    expected = log.expected
    rate = measurement.throughput and getattr(measurement.throughput, measurement.estimator)
    model = None if expected.smoke else expected.fingerprint
    model = model and model.at(log_units.sequence_length(log) or 1)
    text = rate and beyond_peak(measurement, rate, model, expected.gpu_model)
    if text:
        yield rules.ABOVE_PEAK.finding(text)
    elif rate:
        text = beyond_fp32(measurement, rate, model, expected.gpu_model, expected.benchmark)
        if text:
            yield rules.TF32_LIKELY.finding(text)


def _scale(
    log: LogFacts, shape: Shape, gpus: int, job_batch: float | None
) -> tuple[float | None, float | None]:
    """Return samples/s per rate unit and seconds per time unit."""
    if not shape.is_rate:
        return job_batch, 1.0
    conversion = log_units.conversion(log)
    if conversion is None:
        return None, None
    scale = conversion * (gpus if shape.is_per_card else 1)
    return scale, None if job_batch is None else job_batch / scale


def _throughput(
    log: LogFacts,
    rank: RankRecords | None,
    unit: str,
    scale: float | None,
    job_batch: float | None,
    missing: dict[str, str],
) -> Throughput | None:
    if log.summaries.whole_run is not None and rank is None:
        return _whole_run(log, unit, job_batch, missing)
    span = rank.tally.span if rank else None
    if rank is None or span is None or not rank.tally.records or span.time <= 0:
        missing["throughput"] = "No training line lies in the window."
        return None
    if scale is None:
        missing["throughput"] = NO_BATCH if log_units.conversion(log) else log_statements.NO_LENGTH
        return None
    tally = rank.tally
    steady = timestamps = printed = None
    if rank.samples_steps:
        printed = scale * tally.printed_iterations / tally.printed_time
    else:
        missing["throughput.printed_steps"] = "The log's lines cover all steps."
    if tally.all_steps:
        # Totals of epochs hold neither evaluations nor checkpoints.
        steady = scale * span.iterations / span.time
    elif tally.steady_time > 0:
        steady = scale * tally.steady_iterations / tally.steady_time
    else:
        missing["throughput.time_weighted_steady"] = (
            "Every record of the window holds an evaluation, a checkpoint or a restart."
        )
    if tally.stamped is None:
        missing["throughput.timestamps"] = "Training lines carry no time stamp."
    elif (seconds := tally.stamped[0].seconds_to(tally.stamped[1])) <= 0:
        why = "The window's first and last time stamp do not differ."
        missing["throughput.timestamps"] = why
    elif rank.shape.has_coarse_stamps(seconds):
        missing["throughput.timestamps"] = (
            f"The stamps have a resolution of {rank.shape.resolution:g} s, more than "
            f"{COARSEST:.0%} of the {seconds:g} s between the window's first and last."
        )
    elif job_batch is None:
        missing["throughput.timestamps"] = NO_BATCH
    else:
        first, last = tally.stamped
        timestamps = job_batch * (last.position - first.position) / seconds
    median = scale * statistics.median(tally.lines.rates)
    arithmetic = scale * math.fsum(tally.lines.rates) / tally.records
    if tally.steps.vary:
        # The samples of all steps are known, and not whose time is whose.
        names = ("time_weighted_steady", "median", "arithmetic", "timestamps", "printed_steps")
        missing |= {f"throughput.{name}": VARYING for name in names}
        return Throughput(time_weighted=scale * span.iterations / span.time, unit=unit)
    return Throughput(
        time_weighted=scale * span.iterations / span.time,
        time_weighted_steady=steady,
        median=median,
        arithmetic=arithmetic,
        timestamps=timestamps,
        printed_steps=printed,
        unit=unit,
    )


def _tokens(case: Case, missing: dict[str, str]) -> float | None:
    """Return the headline in tokens per second."""
    figures, length = case.throughput, log_units.stated_length(case.log)
    figure: float | None = getattr(figures, _estimator(case.rank), None)
    if figures is not None and figures.unit.startswith("tokens"):
        return figure
    if figure is None or length is None:
        missing["tokens_per_second"] = "The log does not state the tokens of a sample."
        return None
    return figure * length


def _estimator(rank: RankRecords | None) -> Estimator:
    """Return the headline's estimator: of all steps, or of printed ones."""
    if rank is None or not (rank.samples_steps and rank.tally.printed_alone):
        return "time_weighted"
    return "printed_steps"


def _whole_run(
    log: LogFacts, unit: str, job_batch: float | None, missing: dict[str, str]
) -> Throughput | None:
    assert log.summaries.whole_run is not None
    mark, _ = log.summaries.whole_run
    rate = mark.number("whole_run_rate")
    seconds = mark.number("whole_run_seconds")
    conversion = log_units.conversion(log)
    if rate is not None and conversion is None:
        missing["throughput"] = log_statements.NO_LENGTH
        return None
    if rate is not None:
        rate *= (conversion or 1) * log_statements.share_that_ran(mark)
        declared = log.expected.format
        per_card = not isinstance(declared, str) and declared.per == "card"
        per_card |= mark.values.get("per") == "card"
        figure = rate * ((log.expected.gpus or log.facts.whole("gpus") or 1) if per_card else 1)
    elif seconds is not None and job_batch is not None:
        figure = job_batch / seconds
    else:
        missing["throughput"] = NO_BATCH
        return None
    for name in ESTIMATORS[1:]:
        missing[f"throughput.{name}"] = "The log states one figure for the whole run."
    return Throughput(time_weighted=figure, unit=unit)


def _final_loss(log: LogFacts, rank: RankRecords | None, missing: dict[str, str]) -> float | None:
    loss = rank.sums.last_loss if rank else None
    for summary in (log.summaries.whole_run, log.summaries.last):
        if loss is None and summary is not None:
            loss = summary[0].number("final_loss")
    if loss is None:
        missing["final_loss"] = "No training line of the log holds a loss."
    elif not math.isfinite(loss):
        missing["final_loss"] = f"The last loss is {loss}."
        return None
    return loss


def _wall(rank: RankRecords | None, missing: dict[str, str]) -> float | None:
    first, last = (rank.sums.first_stamp, rank.sums.last_stamp) if rank else (None, None)
    if first is not None and last is not None and last > first:
        return round(last - first, 6)
    missing["train_wall_s"] = "The training lines carry no two different time stamps."
    return None


def _window(rank: RankRecords, unit_seconds: float | None) -> MeasuredWindow | None:
    span = rank.tally.span
    if span is None:
        return None
    began, ended = rank.tally.stamps if rank.shape.dated else (None, None)
    return MeasuredWindow(
        first_iteration=span.first,
        last_iteration=span.last,
        seconds=None if unit_seconds is None else span.time * unit_seconds,
        started_at=began,
        ended_at=ended,
        left_out=tuple(occurrence.place for occurrence in rank.tally.left_out.first),
        left_out_count=rank.tally.left_out.count,
    )


def _lines(log: LogFacts, rank: RankRecords | None, goal: TimeToTrain) -> dict[str, Place]:
    """The lines that the figures came from, by what each of them states."""
    lines = {"began": log.airank.begun_at}
    lines["reached"] = None if goal.reached is None else goal.reached.place
    lines["best"] = None if goal.best is None else goal.best.place
    if rank is not None:
        first, last = rank.tally.first, rank.tally.last
        lines["first"] = None if first is None else first.place
        lines["last"] = None if last is None else last.place
    return {name: place for name, place in lines.items() if place is not None}
