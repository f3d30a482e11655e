"""Checks of a run's logs, against themselves and against what was planned.

Each check yields the reasons that it finds. Their ids and severities are in
:data:`k8sbench.measure.run.reasons.RULES`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from k8sbench.measure.run import clocks, data_set, log_clock, models, redaction
from k8sbench.measure.run.log_clock import Reading
from k8sbench.measure.run.log_facts import EpochEnd, LogFacts
from k8sbench.measure.run.rank_series import RankSeries
from k8sbench.measure.run.reasons import reason
from k8sbench.model.counts import counted
from k8sbench.model.measurement import Reason, Throughput
from k8sbench.model.sample import Record
from k8sbench.parse.reading import OURS

FEWEST_RECORDS = 5
ENOUGH = 0.98
"""Share of the asked iterations that must have been measured: programs that stop after N
iterations may print one less."""
SLOW_LOADER = 0.1
UNSTEADY = 0.05
SAME_MODEL = 0.001
"""Relative difference of parameter counts that are the same: catalogs round."""
OWN_SUMMARY = 0.005
"""Relative difference allowed between a log's lines and a summary made from the same numbers."""
WHOLE_RUN = (0.5, 1.1)
"""A whole run's rate by a window's: it holds the warm-up and evaluations, so it may be lower."""
DELAY_CHANGE = (1.0, 0.01)
"""Seconds, or share of the window, by which the delay from the times in our own lines until the
node takes them may change: at most 0.1 s on a busy machine, whose one clock gives both."""
SLOW_TAIL = 10.0
"""How much slower than the mean the iterations after an epoch's last record may be."""
EPOCH_SUMMARY = 0.05
"""The same for summaries that also hold the few iterations after the last record."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run's logs, and what follows from them and from what was expected."""

    log: LogFacts
    series: RankSeries | None
    gpus: int
    batch: int | None
    precision: str | None
    seconds_per_unit: float | None
    """Seconds in one unit of the series' time: 1, or samples per iteration of the printed scope."""
    throughput: Throughput | None
    clock: Reading
    """What the log's stamps say of its printed times."""

    @property
    def rate(self) -> float | None:
        """The headline."""
        return self.throughput.time_weighted if self.throughput else None

    @property
    def smoke(self) -> bool:
        """Whether the run only checks the path, with a small model."""
        return self.log.expected.smoke or self.log.fact("preset") == "smoke"


def reasons(case: Case) -> Iterator[Reason]:
    """All reasons for and against a measurement."""
    yield from _identity(case)
    yield from _model(case)
    yield from _gpus(case)
    yield from _batch(case)
    yield from _redundancy(case)
    yield from _precision(case)
    yield from _amount(case)
    if case.series is not None:
        yield from _iterations(case, case.series)
        yield from _loss(case.series)
        yield from _clock(case, case.series)
        yield from _steadiness(case, case.series)
    yield from _summary(case)
    for name, (unreadable, place, count) in case.log.unread.items():
        text = f"{name} matches {unreadable!r}, which is no number ({_times(count)})."
        decides = name in {"iteration", "rate", "step_seconds"}
        yield reason("unread-number", text, [place], severity=None if decides else "warn")
    yield from clocks.reasons(case.log.clocks)
    for end in case.log.epoch_ends:
        yield from _epoch_summary(case, end)
    yield from _ending(case)
    best = case.log.accuracy
    for each in case.log.airank.reasons(case.log.expected.target, case.rate, case.gpus, best):
        # Where the logger's own clock jumped, that is what the two differ by.
        if each.id != "airank-clock" or not case.clock.jumps:
            yield each
    for file, count in case.log.cut_lines:
        lines = "1 line of {} is" if count == 1 else f"{count} lines of {{}} are"
        text = f"{lines.format(file)} longer than 64 KiB and cut."
        yield reason("long-lines", text)


def _identity(case: Case) -> Iterator[Reason]:
    log, expected = case.log, case.log.expected
    framework = log.fact("framework") or (log.family.framework if log.family else None)
    if expected.framework and framework and framework != expected.framework:
        text = f"{expected.framework} was expected, the log is of {framework}."
        yield reason("framework", text, log.place("framework"))
    found = log.fact("device")
    if expected.device and found and found != expected.device:
        kinds = {"cpu": "CPUs", "cuda": "GPUs"}
        wanted, found = (kinds.get(each, each) for each in (expected.device, found))
        text = f"A run on {wanted} was expected, the log is of one on {found}."
        yield reason("device", text, log.place("device"))
    if expected.planned and case.smoke and not expected.smoke:
        text = "The log is of a smoke run, which checks the path with a small model."
        yield reason("preset", text, log.place("preset"))
    for name in ("benchmark", "variant"):
        wanted, found = getattr(expected, name), log.fact(name)
        if expected.planned and wanted and found and wanted != found:
            text = f"The {name} {wanted} was expected, the log says {found}."
            yield reason("other-benchmark", text, log.place(name))
            return


def _model(case: Case) -> Iterator[Reason]:
    log, expected = case.log, case.log.expected
    model = log.fact("model")
    if expected.planned and expected.model:
        same = models.same(expected.model, model) if model else None
        if same is False:
            text = f"The benchmark's model is {expected.model}; the log's is {model}."
            yield reason("other-benchmark", text, log.place("model"))
        elif same is None and expected.by_user and log.family is not OURS:
            names = f"The log's model is {model}" if model else "The log names no model"
            text = f"{names}; whether it is the benchmark's, {expected.model}, is not known."
            yield reason("model-unverified", text, log.place("model"))
    found = log.whole("parameters")
    wanted = expected.parameters
    if wanted and found and not case.smoke and abs(found / wanted - 1) > SAME_MODEL:
        text = f"The model has {found:,} parameters, the benchmark's has {wanted:,}."
        yield reason("parameters", text, log.place("parameters"))
    devices = log.facts.get("gpu_model", {})
    if log.family is OURS and len(devices) > 1:
        text = f"The ranks ran on {', '.join(sorted(devices))}."
        yield reason("mixed-devices", text, devices.values())


def _gpus(case: Case) -> Iterator[Reason]:
    log, expected = case.log, case.log.expected
    logged, stated = log.whole("gpus"), dict(log.facts.get("gpus", {}))
    if expected.gpus is None:
        # It may count nodes: whoever gives the number knows better.
        stated |= log.facts.get("gpus_by_environment", {})
    if logged is not None and logged != case.gpus:
        text = f"{case.gpus} GPUs were given, the log says {logged}."
        yield reason("gpu-count", text, log.place("gpus"))
    elif len(stated) > 1:
        text = f"The log says {' GPUs and '.join(stated)}."
        yield reason("gpu-count", text, stated.values())
    elif len(log.series_by_rank) > case.gpus:
        ranks = len(log.series_by_rank)
        text = f"{ranks} ranks print training lines, and {case.gpus} GPUs were given."
        yield reason("gpu-count", text)
    elif (
        expected.by_user
        and expected.gpus is not None
        and logged is None
        and not (1 < len(log.series_by_rank) == case.gpus or _confirmed(case))
    ):
        text = f"The log does not state its GPUs; that there were {case.gpus} is --gpus alone."
        yield reason("gpus-unverified", text)
    trainers = expected.trainers
    if trainers is not None and log.family is OURS and len(log.started) != trainers:
        missing = sorted(set(range(trainers)) - log.started)
        which = f"; rank {', '.join(map(str, missing[:8]))} is missing" if missing else ""
        yield reason(
            "trainer-count",
            f"{counted(trainers, 'rank', ('was', 'were'))} planned,"
            f" {len(log.started)} started{which}.",
        )


def _batch(case: Case) -> Iterator[Reason]:
    log, expected, series = case.log, case.log.expected, case.series
    logged = printed_batch(log)
    given = expected.batch_size
    wanted = expected.batch_sizes_of(case.precision) if given is None else {given}
    if series is not None:
        by_batch = series.shape.number == "seconds"
    else:
        by_batch = log.whole_run is not None and log.whole_run[0].values["whole_run_rate"] is None
    if logged is not None and wanted and logged not in wanted:
        where = log.place("batch_size")
        matters = expected.planned or by_batch
        text = (
            f"A batch of {' or '.join(map(str, sorted(wanted)))} per GPU was expected, the log's "
            f"is {logged}."
        )
        yield reason("batch-size", text, where, severity="reject" if matters else "warn")
    elif (
        by_batch
        and logged is None
        and expected.by_user
        and expected.knows_batch
        and not _confirmed(case)
    ):
        text = f"The log does not state its batch; {case.batch} per GPU are assumed."
        yield reason("batch-unverified", text)
    if case.batch is None and by_batch:
        yield reason(
            "batch-unknown",
            "The log gives seconds per iteration and no batch: give it with --batch-size.",
        )


def _redundancy(case: Case) -> Iterator[Reason]:
    """What a log says of its batch more than once: it must be the same."""
    log, series, batch = case.log, case.series, case.batch
    if series is not None and series.odd["product"]:
        odd = series.odd["product"]
        lines = counted(odd.count, "training line")
        text = f"In {lines}, rate times seconds is another batch than in the first."
        yield reason("batch-mismatch", text, odd.places)
    stated, printed = log.whole("batch_size"), _product(log)
    if stated is not None and printed is not None and stated != printed:
        text = (
            f"The log says that its batch is {stated}; its rates times its seconds are {printed}."
        )
        yield reason("batch-mismatch", text, log.place("batch_size"))
    total = log.whole("global_batch")
    if total is not None and batch is not None and total != batch * case.gpus:
        text = f"The log says {total} samples per step of the job, not {case.gpus} × {batch}."
        yield reason("batch-mismatch", text, log.place("global_batch"))
    size, epoch, possible = data_set.size(log), data_set.steps(log), data_set.possible(log)
    if size and epoch and possible is not None and batch and batch * case.gpus not in possible:
        each = data_set.described(size[0], epoch)
        text = f"{each} per step of the job, not {case.gpus} × {batch}."
        yield reason("batch-mismatch", text, size[1])


def _confirmed(case: Case) -> bool:
    """Whether the log shows the product of GPUs and batch, which are known apart from it."""
    log = case.log
    knows_batch = log.expected.knows_batch or printed_batch(log) is not None
    if case.batch is None or log.expected.gpus is None or not knows_batch:
        return False
    return data_set.certain(log) == case.batch * case.gpus


def printed_batch(log: LogFacts) -> int | None:
    """Batch per GPU by the log: as it states it, or its rate times its seconds."""
    logged = log.whole("batch_size")
    return _product(log) if logged is None else logged


def _product(log: LogFacts) -> int | None:
    series = log.series
    product = series.products.batch if series is not None else None
    if series is None or product is None or series.shape.per != "card":
        return None
    whole = round(product)
    return whole if whole >= 1 and abs(product - whole) <= 0.02 * product + 0.01 else None


def _precision(case: Case) -> Iterator[Reason]:
    log, expected = case.log, case.log.expected
    wanted, logged = expected.precision, log.fact("precision")
    half, effective = log.fact("amp_dtype"), log.fact("precision_effective")
    assumed = None if logged else log.fact("precision_assumed")
    if wanted and logged and wanted != logged:
        text = f"{wanted} was expected, the log says {logged}."
        yield reason("precision", text, log.place("precision"))
    elif wanted and assumed and wanted != assumed:
        text = f"{wanted} was expected; the log prints its configuration, which sets none."
        yield reason("precision", text, log.place("precision_assumed"))
    elif wanted == "amp" and expected.amp_dtype and half and expected.amp_dtype != half:
        text = f"amp in {expected.amp_dtype} was expected, the log says {half}."
        yield reason("precision", text, log.place("amp_dtype"))
    elif wanted and not (logged or assumed) and expected.by_user:
        text = f"The log does not state its precision; that it is {wanted} is --precision alone."
        yield reason("precision-unverified", text)
    elif (wanted or logged) == "amp" and effective == "fp32":
        on_cpu = (log.fact("device") or expected.device) == "cpu"
        yield reason(
            "precision-without-effect",
            "AMP was asked for and had no effect: the program computed in fp32.",
            log.place("precision_effective"),
            severity="warn" if case.smoke and on_cpu else "reject",
        )


def _amount(case: Case) -> Iterator[Reason]:
    log, series = case.log, case.series
    if series is None and log.whole_run is not None:
        mark, file = log.whole_run
        yield reason(
            "summary-only",
            "The log states the rate of the whole run, warm-up included, and has no records.",
            [redaction.place(file, mark.line, mark.text)],
        )
        return
    records = series.tally.records if series else 0
    if records < FEWEST_RECORDS:
        window = log.window.warmup if log.window else 0
        text = (
            f"{records} training lines lie after the first {window} iterations; "
            f"{FEWEST_RECORDS} are needed."
        )
        yield reason("too-few-records", text)
    asked = case.log.expected.at_least
    if log.family is OURS and (asked is None or case.log.expected.window_by_catalog):
        # Its own plan may ask for more than the catalog does, and not for less.
        asked = max(log.whole("iterations") or 0, asked or 0) or None
    span = series.tally.span if series else None
    measured = span.iterations if span else 0
    cut = _cut_at_the_edges(series, asked) if series and asked is not None else 0
    if asked is not None and measured < ENOUGH * (asked - cut):
        text = f"{measured} iterations were measured, {asked} are asked for."
        yield reason("too-few-iterations", text)
    warmup = log.expected.warmup
    if log.window is not None and warmup is not None and log.window.warmup < warmup:
        text = f"The run's own warm-up is {log.window.warmup} iterations, the benchmark's {warmup}."
        yield reason("short-warmup", text, log.place("warmup"))


def _cut_at_the_edges(series: RankSeries, asked: int) -> int:
    """Iterations of the window in lines that lie partly outside it, which do not count.

    Programs whose first line comes with their first iteration (PLSC, TSM) have a line across
    either edge of any window in round numbers.
    """
    first, last = series.tally.first_iteration, series.tally.last_iteration
    if first is None or last is None:
        return 0
    begin, end = series.window.warmup, series.window.warmup + asked
    ahead = first - 1 - begin
    behind = end - last if series.position > end else 0
    return sum(lost for lost in (ahead, behind) if 0 < lost < series.usual)


def _iterations(case: Case, series: RankSeries) -> Iterator[Reason]:
    others = list(case.log.other_runs)
    if case.log.family is OURS:
        # A run's ranks and restarts say the same.
        stated = {name: case.log.facts.get(name, {}) for name in ("run_id", "batch_size")}
        others += [
            (f"{name} {' and '.join(values)}", list(values.values()))
            for name, values in stated.items()
            if len(values) > 1
        ]
    if others:
        text = f"The log holds more than one run: {'; '.join(what for what, _ in others)}."
        yield reason("two-runs", text, [place for _, places in others for place in places])
    if series.odd["back"]:
        text = (
            f"Iterations go back {_times(series.odd['back'].count)} without a restart: "
            "the log holds more than one run."
        )
        yield reason("iterations-back", text, series.odd["back"].places)
    missing = series.missing
    if missing:
        text = (
            f"{missing.amount} iterations of the window are in no training line "
            f"({_times(missing.count)}; usual are {series.usual or 1} per line)."
        )
        yield reason("iterations-missing", text, missing.places)
    repeated = series.odd["repeated"].count + series.odd["copied"].count
    if repeated:
        text = (
            "Training lines of the same iterations come more than once and count once."
            + _repeats(case.log)
        )
        places = [*series.odd["repeated"].places, *series.odd["copied"].places]
        yield reason("repeated-lines", text, places)
    if series.odd["redone"] or case.log.restarts:
        again = f", {_times(series.odd['redone'].count)} going back" if series.odd["redone"] else ""
        yield reason(
            "restarted",
            f"The run was restarted{again}.{_repeats(case.log)}",
            [*case.log.restarts, *series.odd["redone"].places],
        )
    if series.odd["coarse"]:
        text = (
            "The printed running mean gives no positive time of their own to "
            f"{series.odd['coarse'].count} of the records; they count in the sums alone."
        )
        yield reason("running-mean-coarse", text, series.odd["coarse"].places)


def _repeats(log: LogFacts) -> str:
    """Of several files as one run: which of them gave the figure."""
    if not log.repeats:
        return ""
    gave = ", ".join(file for file in log.files if file not in log.repeats)
    return f" The figure is of {gave}; all of {', '.join(log.repeats)} is in it already."


def _loss(series: RankSeries) -> Iterator[Reason]:
    if series.odd["not-finite"]:
        lines = counted(series.odd["not-finite"].count, "training line")
        text = f"The loss is NaN or infinite in {lines}."
        yield reason("loss-not-finite", text, series.odd["not-finite"].places)
    elif series.odd["not-finite-early"]:
        early = series.odd["not-finite-early"]
        text = f"The loss is NaN or infinite in {counted(early.count, 'line')} of the warm-up."
        yield reason("loss-not-finite", text, early.places, severity="warn")


def _clock(case: Case, series: RankSeries) -> Iterator[Reason]:
    yield from _second_clock(series)
    reading, unit, shape = case.clock, case.seconds_per_unit, series.shape
    yield from log_clock.reasons(series.clock, reading, unit, shape, case.gpus)
    # Between the pieces of a run passed time that no line can have.
    if not series.resumed and not case.log.restarts:
        yield from log_clock.apart(reading, unit, series.tally, shape)


def _second_clock(series: RankSeries) -> Iterator[Reason]:
    """The times in our own lines, against those at which the node took the lines."""
    delays, stamped = series.tally.delays, series.tally.stamped
    if len(delays) < FEWEST_RECORDS or stamped is None:
        return
    # A line may be taken late, but hardly each of a third of all.
    third = len(delays) // 3
    change = min(delays[-third:]) - min(delays[:third])
    seconds, share = DELAY_CHANGE
    passed = stamped[1].stamp - stamped[0].stamp
    if abs(change) > max(seconds, share * passed):
        text = (
            f"The times in its lines and the stamps that the node gave these drift apart by "
            f"{abs(change):.2f} s in {passed:.2f} s."
        )
        yield reason("clock-mismatch", text)


def _steadiness(case: Case, series: RankSeries) -> Iterator[Reason]:
    waiting = series.tally.waiting
    if waiting is not None and waiting > SLOW_LOADER:
        text = f"{waiting:.0%} of the time was spent waiting for data."
        yield reason("loader-stall", text)
    figures = case.throughput
    if figures is not None and figures.time_weighted and figures.median:
        ratio = figures.time_weighted / figures.median
        if abs(ratio - 1) > UNSTEADY:
            text = f"The time-weighted mean is {ratio:.1%} of the median."
            yield reason("unsteady", text, series.tally.left_out.places)


def _summary(case: Case) -> Iterator[Reason]:
    """Our own trainers' summary, against what their step lines add up to."""
    log, series = case.log, case.series
    yield from _whole_run(case)
    span = series.tally.span if series else None
    if log.summary is None or span is None:
        return
    mark, file = log.summary
    values = mark.values
    if (values.get("first_step"), values.get("last_step")) != (span.first, span.last):
        return
    lines = {"samples_per_second": case.rate}
    if span.iterations == span.last - span.first + 1 and case.batch is not None:
        samples = case.batch * (log.whole("gpus") or case.gpus) * span.iterations
        lines |= {"seconds": span.time, "samples": float(samples)}
    for name, found in lines.items():
        stated = values.get(name)
        if isinstance(stated, float) and found is not None:
            if math.isclose(stated, found, rel_tol=OWN_SUMMARY):
                continue
            text = f"The summary says {stated:.4g} {name}, its own lines come to {found:.4g}."
            yield reason("summary-mismatch", text, [redaction.place(file, mark.line, mark.text)])


def _whole_run(case: Case) -> Iterator[Reason]:
    """A declared format's figure for the whole run, beside its records."""
    if case.log.whole_run is None or case.series is None or not case.series.tally.records:
        return
    mark, file = case.log.whole_run
    stated, rates = mark.values["whole_run_rate"], case.series.tally
    if not isinstance(stated, float) or case.series.shape.number != "rate":
        return
    found = rates.iterations / rates.time
    low, high = WHOLE_RUN
    if not low * found <= stated <= high * found:
        text = f"The log says {stated:.5g} for the whole run, its lines come to {found:.5g}."
        text += log_clock.factor(found / stated, case.gpus, case.series.shape)
        yield reason("summary-mismatch", text, [redaction.place(file, mark.line, mark.text)])


def _epoch_summary(case: Case, end: EpochEnd) -> Iterator[Reason]:
    """A family's line at the end of an epoch, against the records of that epoch."""
    values, last = end.mark.values, end.last
    if end.records < FEWEST_RECORDS:
        return
    stated = values.get("records_rate")
    if isinstance(stated, float) and end.mean_rate:
        yield from _beside(end, stated, end.mean_rate, "mean rate")
    yield from _running_summary(end, last)
    stated = values.get("mean_rate")
    if isinstance(stated, float) and last.rate:
        yield from _beside(end, stated, last.rate, "rate")
        if end.records >= 20 and math.isclose(stated, last.rate, rel_tol=1e-5):
            text = "The epoch's own mean is the last line's figure: the lines are running means."
            unrolled = _unrolled(case)
            if unrolled is not None:
                text += f" Unrolled, the window comes to {unrolled:.5g} per s."
            yield reason("printed-running-mean", text, [end.place])
    if last.shape.averaged == "step" and not end.fits:
        text = f"The log's total of epoch {last.epoch} is not of as many steps as its lines show."
        yield reason("summary-mismatch", text, [end.place])
    stated = values.get("all_steps_rate")
    sampled = case.series is None or not case.series.tally.all_steps
    if isinstance(stated, float) and end.mean_rate and sampled:
        ratio = stated / end.mean_rate
        if abs(ratio - 1) > EPOCH_SUMMARY:
            text = (
                f"The printed steps of epoch {last.epoch} come to "
                f"{end.mean_rate:.4g} per card, all its steps to {stated:.4g}."
            )
            yield reason("sampled-steps", text, [end.place])


def _unrolled(case: Case) -> float | None:
    """The window's rate, if its printed rates are means since the epoch's beginning."""
    tally = case.series.tally if case.series else None
    first, last = (tally.first, tally.last) if tally else (None, None)
    if first is None or last is None or first.epoch != last.epoch:
        return None
    before, after = (max(each.iteration - each.shape.skips, 0) for each in (first, last))
    if not before < after or not first.rate or not last.rate:
        return None
    return case.gpus * (after - before) / (after / last.rate - before / first.rate)


def _running_summary(end: EpochEnd, last: Record) -> Iterator[Reason]:
    """A running mean and its sum at the epoch's end: they go on from those of the last record."""
    mean, total = end.mark.values.get("mean_seconds"), end.mark.values.get("sum_seconds")
    if not isinstance(mean, float) or not isinstance(total, float) or not last.mean_seconds:
        return
    skips = last.shape.skips
    behind = last.iteration - skips if last.iteration > skips else last.iteration
    before = last.mean_seconds * behind
    if not mean > 0 or not total > 0:
        return
    tail = round(total / mean) - behind
    rest = total - before
    rounding = OWN_SUMMARY * before
    consistent = tail >= 0 and -rounding <= rest <= rounding + tail * SLOW_TAIL * last.mean_seconds
    if not consistent:
        text = (
            f"The log says {total:.5g} s for its epoch, {mean:.5g} s per iteration; its lines say "
            f"{before:.5g} s and {last.mean_seconds:.5g} s up to the last of them."
        )
        yield reason("summary-mismatch", text, [end.place])


def _beside(end: EpochEnd, stated: float, found: float, what: str) -> Iterator[Reason]:
    # The iterations after the last record, fewer than one record has, are in the summary alone.
    if not math.isclose(stated, found, rel_tol=EPOCH_SUMMARY + 1 / end.records):
        text = f"The log says a {what} of {stated:.5g} for its epoch, its lines say {found:.5g}."
        yield reason("summary-mismatch", text, [end.place])


def _ending(case: Case) -> Iterator[Reason]:
    log, series = case.log, case.series
    if log.window is not None and case.log.expected.warmup is None and log.family is not OURS:
        text = "No warm-up was given, so all iterations from the first on are in the window."
        yield reason("warmup-included", text)
    if series is None or log.finished:
        return
    planned = planned_iterations(log)
    slack = max(series.usual, 1)
    if planned is not None and series.position <= planned - slack:
        text = f"The log ends at iteration {series.position} of {planned} planned."
        yield reason("ends-early", text)
    elif log.airank.begun is not None and not log.airank.ended:
        text = "The log ends before AI-Rank's test does: test_begin has no counterpart."
        yield reason("ends-early", text)


def planned_iterations(log: LogFacts) -> int | None:
    """Iterations that were planned for the run, as far as the log states them."""
    series = log.series
    logged = log.whole("planned_iterations")
    if series is None or series.shape.numbering == "run":
        return (series.planned if series else None) or logged
    epochs = log.whole("planned_epochs")
    if epochs is not None and series.planned is not None:
        return epochs * series.planned
    return logged


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
