"""One run's logs to one measurement; the entry point is :func:`measure`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.catalog.measure_options import AUTO
from k8sbench.messages import Note, note
from k8sbench.model import rules, verdict
from k8sbench.model.arithmetic import beyond_fp32, beyond_peak
from k8sbench.model.errors import Finding, InputError
from k8sbench.model.gpu_metrics import SeriesQuery
from k8sbench.model.measurement import (
    AccuracyResult,
    Arithmetic,
    MeasuredWindow,
    Measurement,
    Profile,
    SteadyPart,
    Weights,
)
from k8sbench.model.missing import Missing, figure_of, reasons_of
from k8sbench.model.sample import Place
from k8sbench.reader.family import UNENDED
from k8sbench.reader.measuring import (
    estimates,
    gpu_metrics,
    integrity,
    log_statements,
    log_units,
    nothing_measured,
    profile,
)
from k8sbench.reader.measuring.estimates import Estimates
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.gpu_metrics import PlannedGpus
from k8sbench.reader.measuring.log_facts import LogFacts, OpenedLog
from k8sbench.reader.measuring.log_statements import Case, TimeToTrain
from k8sbench.reader.measuring.rank_records import RankRecords
from k8sbench.reader.measuring.rank_sums import FEWEST_RECORDS

OF_ITS_CASES = {rules.BATCH_SIZE.id, rules.TOO_FEW_ITERATIONS.id, rules.SHORT_WARMUP.id}
"""Rejections of a log whose length or batch is not the benchmark's."""


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
    measurement = _measurement(log)
    stated = log.stated
    unfit = list[str]()
    applied = stated or log.expected
    if stated is not None:
        without_benchmark = measurement
        of_family = log.expected
        log.expected = stated
        measurement = _measurement(log)
        known = _rejections(without_benchmark)
        unfit = [name for name in _rejections(measurement) if name not in known]
        if unfit and OF_ITS_CASES.issuperset(unfit):
            log.expected = msgspec.structs.replace(
                stated, warmup=None, at_least=None, batch_sizes={}
            )
            measurement = _measurement(log)
        elif unfit:
            log.expected = applied = of_family
            measurement = without_benchmark
    names_program = stated is not None or bool(log.facts.first("model"))
    return JudgedLog(
        measurement=_with_gpu_metrics(measurement, log),
        expected=applied,
        stated=stated,
        unfit=unfit,
        sources=log_statements.sources(log, measurement.gpus or 1),
        possible=None if names_program else _only_benchmark(measurement, candidates),
    )


def _only_benchmark(measurement: Measurement, candidates: Sequence[Expectation]) -> str | None:
    """Return the benchmark of all conditional candidates of a log's format, if it is one."""
    benchmarks = {
        candidate.benchmark
        for candidate in candidates
        if candidate.if_stated and candidate.format == measurement.format
    }
    return benchmarks.pop() if len(benchmarks) == 1 else None


def _rejections(measurement: Measurement) -> list[str]:
    """Return the ids of the rejections that count."""
    rejections = (each for each in measurement.reasons if each.severity == "reject")
    return [each.id for each in rejections if not each.accepted]


def _read(sources: Iterable[OpenedLog], expected: Expectation | Sequence[Expectation]) -> LogFacts:
    log = LogFacts([expected] if isinstance(expected, Expectation) else list(expected))
    for source in sources:
        log.read(source)
    log.close()
    if not log.is_recognised:
        raise nothing_measured.no_training_line(log)
    if log.rank is None and log.expected.declared is not None:
        nothing_measured.check_declared(log, log.expected.declared)
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
    case = _case(log)
    kept: dict[tuple[str, str], Finding] = {}
    for finding in integrity.reasons(case):  # of several with one id and severity the first
        kept.setdefault((finding.id, finding.severity), finding)
    answers = _answers(case)
    lost = _figures_by_stamps(case) if (rules.CLOCK_MISMATCH.id, "warn") in kept else {}
    missing = answers.reasons() | reasons_of(lost)
    measurement = _assemble(case, answers.without(lost), missing)
    reasons = [*kept.values(), *_above_peak(measurement, log)]
    return verdict.with_reasons(measurement, reasons, log.expected.accept)


def _case(log: LogFacts) -> Case:
    """Settle GPUs, batch and units, and compute the throughput."""
    expected = log.expected
    batch = log_statements.batch(log)
    rank = None if _by_summary(log) else log.rank
    logged = log.facts.whole("gpus") or None
    gpus = expected.gpus or logged
    if gpus is None and batch:
        gpus = log_statements.certain_samples(log, batch)
    if gpus is None:
        said = note("not-measured-gpus")
        action = "Give the number"
        if UNENDED in log.facts and log.summaries.whole_run is None:
            said = note("not-measured-gpus-unended", program=log.family.title)
            action = "To measure its progress bar, give the number"
        raise InputError(said, f"{action} of the whole job with --gpus.", file=log.files[0])
    is_unknown = batch is None and not expected.varies
    if is_unknown or log_statements.shares_samples(log, gpus):
        batch = log_statements.per_gpu(log, gpus)
    # The rate is that of the GPUs of the run's own plan, whatever was given.
    cards = (logged or gpus) if log.family.states_plan else gpus
    job_batch = log_statements.job_batch(log, batch, cards)
    samples, unit_seconds = (
        (None, None) if rank is None else estimates.scale(log, rank.shape, cards, job_batch)
    )
    return Case(
        log=log,
        rank=rank,
        gpus=gpus,
        batch=batch,
        job_batch=job_batch,
        precision=log_statements.precision(log),
        seconds_per_unit=unit_seconds,
        estimates=estimates.estimate(log, rank, samples, job_batch),
        goal=log_statements.time_to_train(log),
    )


def _by_summary(log: LogFacts) -> bool:
    """True if the summary of the whole run is the figure."""
    if log.summaries.whole_run is None or log.rank is None:
        return False
    use = log.family.summary
    return use == "first" or (use == "if-few" and log.rank.tally.records < FEWEST_RECORDS)


class Answers(NamedTuple):
    """Figures of a log, each or why there is none, by their names in a measurement."""

    throughput: Estimates | Missing
    time_to_train_s: float | Missing
    accuracy: AccuracyResult | Missing
    steady: SteadyPart | Missing
    gpu_metrics: Missing
    """Samples in the log are added later."""
    arithmetic: Arithmetic | Missing
    tokens_per_second: float | Missing
    final_loss: float | Missing
    train_wall_s: float | Missing
    weights: Weights | Missing
    profile: Profile | Missing

    def reasons(self) -> dict[str, Note]:
        """Return the path of each figure that is missing → why."""
        reasons = {} if isinstance(self.throughput, Missing) else self.throughput.reasons
        return reasons | reasons_of(self._asdict())

    def without(self, lost: Mapping[str, Missing]) -> Answers:
        """Return the answers without the figures at some paths."""
        answers = self._replace(**{name: lost[name] for name in self._fields if name in lost})
        if isinstance(answers.throughput, Missing):
            return answers
        return answers._replace(throughput=answers.throughput.without(lost))


def _figures_by_stamps(case: Case) -> dict[str, Missing]:
    """Return the paths of the figures that follow from stamps, whose clock was set."""
    paths = ["throughput.timestamps", "train_wall_s"]
    reached = case.goal.reached
    is_stamped = reached is not None and reached.elapsed is None
    if is_stamped and not isinstance(case.goal.seconds, Missing):
        paths.append("time_to_train_s")
    return dict.fromkeys(paths, Missing(note("no-times-clock-set")))


def _answers(case: Case) -> Answers:
    """Return the figures that a log may lack."""
    log = case.log
    accuracy = log_statements.at_target(log_statements.accuracy(log), case.goal)
    no_accuracy = verdict.NO_VALUE if log.evaluated else verdict.NO_EVALUATION
    no_source = note("no-gpu-source")
    if _device(log) == "cpu":
        no_source = note("no-gpu-used")
    return Answers(
        throughput=case.estimates,
        time_to_train_s=case.goal.seconds,
        accuracy=accuracy or Missing(no_accuracy),
        steady=log.steady or Missing(note("no-steady-part")),
        gpu_metrics=Missing(no_source),
        arithmetic=log_statements.arithmetic(log),
        tokens_per_second=_tokens(case),
        final_loss=_final_loss(log, case.rank),
        train_wall_s=_wall(case.rank),
        weights=log_statements.weights(log),
        profile=profile.profile_of(case),
    )


def _device(log: LogFacts) -> str | None:
    """Return ``cuda`` or ``cpu``; None if the log does not state it."""
    gpu_model = log.facts.first("gpu_model")
    return log.facts.first("device") or (None if gpu_model is None else "cuda")


def _assemble(case: Case, answers: Answers, missing: dict[str, Note]) -> Measurement:
    """Build the measurement of a log, without its verdict; ``missing`` is path → why."""
    log, expected, rank, goal = case.log, case.log.expected, case.rank, case.goal
    assert log.window is not None
    rates = figure_of(answers.throughput)
    accuracy = figure_of(answers.accuracy)
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
        arithmetic=figure_of(answers.arithmetic),
        batch_size_per_gpu=case.batch,
        warmup_iterations=log.window.warmup - log.window.begin,
        iterations=_iterations(rank),
        records=0 if rank is None else rank.tally.records,
        throughput=None if rates is None else rates.throughput,
        tokens_per_second=figure_of(answers.tokens_per_second),
        estimator=estimates.headline(rank),
        final_loss=figure_of(answers.final_loss),
        accuracy=accuracy,
        time_to_train_s=figure_of(answers.time_to_train_s),
        train_wall_s=figure_of(answers.train_wall_s),
        mode=log.facts.first("mode"),
        target=None if goal.target is None else goal.target.percent,
        ended_by=case.ended_by,
        restarts=len(log.restarts),
        begun_at=log_statements.begun_at(log),
        data_set=log_statements.data_set(log),
        weights=figure_of(answers.weights),
        broken_samples=log.training.broken or log.facts.whole("broken_samples"),
        data=log.facts.first("data") or expected.data,
        device=_device(log),
        gpu_model=log.facts.first("gpu_model"),
        parameters=log.facts.whole("parameters"),
        memory_mib=_memory(log, rank),
        data_fraction=None if rank is None else rank.tally.waiting,
        window=None if rank is None else _window(rank, case.seconds_per_unit),
        profile=figure_of(answers.profile),
        lines=_lines(log, rank, goal),
        training_lines=0 if rank is None else rank.all_records,
        steady=figure_of(answers.steady),
        ranks=tuple(log.rank_times[number] for number in sorted(log.rank_times)),
        environment=log_statements.environment(log, accuracy),
        log_digest=None if rank is None else rank.sums.digest.of_records(),
        losses_digest=None if rank is None else rank.sums.digest.of_losses(),
        missing_notes=missing,
        verdict="valid",
        reasons=(),
    )


def _above_peak(measurement: Measurement, log: LogFacts) -> Iterator[Finding]:
    expected = log.expected
    rate = measurement.throughput and getattr(measurement.throughput, measurement.estimator)
    model = None if expected.smoke else expected.fingerprint
    model = model and model.at(log_units.sequence_length(log) or 1)
    if not rate:
        return
    if said := beyond_peak(measurement, rate, model, expected.gpu_model):
        yield rules.ABOVE_PEAK.finding(said)
    elif said := beyond_fp32(measurement, rate, model, expected.gpu_model, expected.benchmark):
        yield rules.TF32_LIKELY.finding(said)


def _iterations(rank: RankRecords | None) -> int:
    """Return the measured iterations of the window."""
    span = None if rank is None else rank.tally.span
    return 0 if span is None else span.iterations


def _memory(log: LogFacts, rank: RankRecords | None) -> float | None:
    """Return the peak memory by the log's summary, else by its lines, MiB."""
    of_lines = None if rank is None else rank.sums.memory_mib
    return log.facts.number("max_memory_mib") or of_lines


def _tokens(case: Case) -> float | Missing:
    """Return the headline in tokens per second."""
    rates = figure_of(case.estimates)
    headline = None if rates is None else rates.by_name[estimates.headline(case.rank)]
    if rates is not None and headline is not None and rates.unit.startswith("tokens"):
        return headline
    length = log_units.stated_length(case.log)
    if headline is None or isinstance(headline, Missing) or length is None:
        return Missing(note("no-tokens-per-second"))
    return headline * length


def _final_loss(log: LogFacts, rank: RankRecords | None) -> float | Missing:
    loss = rank.sums.last_loss if rank else None
    for summary in (log.summaries.whole_run, log.summaries.last):
        if loss is None and summary is not None:
            loss = summary[0].number("final_loss")
    if loss is None:
        return Missing(note("no-final-loss"))
    if not math.isfinite(loss):
        return Missing(note("no-final-loss-not-finite", loss=str(loss)))
    return loss


def _wall(rank: RankRecords | None) -> float | Missing:
    first, last = (rank.sums.first_stamp, rank.sums.last_stamp) if rank else (None, None)
    if first is not None and last is not None and last > first:
        return round(last - first, 6)
    return Missing(note("no-wall-time"))


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
