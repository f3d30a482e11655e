"""Checks of a run's logs, against themselves and against what was planned.

Each check yields findings by the rules of :mod:`k8sbench.model.rules`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Container, Iterator, Sequence

import msgspec

from k8sbench.messages import Arg, Note, and_list, note, quoted
from k8sbench.model import rules
from k8sbench.model.errors import Finding, Severity
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import significant
from k8sbench.model.sample import LogGap, Mark, Place
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.family import STEPS_DOUBT, TIME_DOUBT, TIME_PROVED
from k8sbench.reader.measuring import agreement, evidence, log_clock, log_statements, log_units
from k8sbench.reader.measuring.evaluations import SAME_VALUE
from k8sbench.reader.measuring.evidence import Occurrence, Occurrences
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.log_facts import LogFacts
from k8sbench.reader.measuring.log_statements import Case
from k8sbench.reader.measuring.rank_records import RankRecords
from k8sbench.reader.measuring.rank_sums import FEWEST_RECORDS
from k8sbench.reader.measuring.record_kinds import RecordKind

ENOUGH = 0.98
"""Minimum share of the required iterations.

Programs that stop after N iterations may print one less.
"""
OTHER_TIME = (
    "Measure a log that prints each step, of a version of the program that waits for the GPU; if "
    "the times are right, give --accept clock-mismatch."
)
SLOW_LOADER = 0.1
UNSTEADY = 0.05
SAMPLED = 0.05
"""Maximum share of the window's iterations that no added line covers."""
FEW_MISSING = 0.01
"""Share of the window's iterations that may be in no training line.

The figure leaves them out. Had each taken five times as long, it would be 4 % too high: less than
a mean and a median may differ without a remark.
"""
LEAST_OF_MEDIAN = 0.7
"""Minimum headline ÷ median; below it, a few records may dominate."""
FEW = 0.01
"""Share of the records, at least one, …"""
MOST_IN_FEW = 0.2
"""… whose time is at most this share of the window's; above it, they decide the figure."""


WHOLE_RUN = (0.5, 1.1)
"""Limits of a whole run's rate ÷ the window's.

It includes the warm-up and evaluations, so it may be lower.
"""
JOB_RATE = (0.7, 1.4)
"""Limits of the figure ÷ a count of samples by its time, which may hold an evaluation."""
EPOCH_SUMMARY = 0.05
"""The same for summaries that also hold the few iterations after the last record."""


def reasons(case: Case) -> Iterator[Finding]:
    """All reasons for and against a measurement."""
    yield from _unconfirmed(case.log.expected)
    yield from agreement.reasons(case)
    yield from _amount(case)
    yield from _evaluations(case)
    if case.rank is not None:
        yield from _iterations(case, case.rank)
        yield from _loss(case.rank)
        yield from _clock(case, case.rank)
    doubt = case.log.facts.said(TIME_DOUBT)
    if doubt is not None and case.log.facts.first(TIME_PROVED) is None:
        places = case.log.facts.places(TIME_DOUBT)
        yield rules.CLOCK_MISMATCH.finding(doubt, places, action=OTHER_TIME)
    if case.rank is not None:
        yield from _steadiness(case, case.rank)
    yield from _run_summary(case)
    for name, unread in case.log.unread.items():
        said = note(
            "unread-number", name=name, text=unread.text, why=unread.why, times=unread.times
        )
        decides = name in {"iteration", "rate", "step_seconds"}
        severity: Severity | None = None if decides else "warn"
        yield rules.UNREAD_NUMBER.finding(said, [unread.place], severity)
    yield from _transport(case.log)
    yield from _framework(case.log)
    yield from _epoch_summary(case)
    yield from _ending(case)
    yield from case.log.training.reasons()


def _unconfirmed(expected: Expectation) -> Iterator[Finding]:
    """Reject by a format that nobody has confirmed."""
    declared = expected.declared
    if declared is None or declared.confirmed:
        return
    file, action = expected.declared_in, None
    if file is not None:
        action = f"Check the answers in {file}, and set `confirmed: true`."
    said = note("format-unconfirmed", benchmark=expected.benchmark or declared.name)
    if file is not None:
        said = note("format-unconfirmed-file", file=file)
    yield rules.FORMAT_UNCONFIRMED.finding(said, action=action)


def _transport(log: LogFacts) -> Iterator[Finding]:
    """Warn if NCCL used TCP between nodes, not InfiniBand or RoCE."""
    # As NCCL names it: of gloo, which runs on CPUs use, the trainers say "socket".
    sockets = log.facts.get("transport", {}).get("Socket")
    nodes = log.facts.get("node") or log.facts.get("host") or {}  # a pod's host is the pod
    if sockets is not None and len(nodes) > 1:
        yield rules.SOCKETS_BETWEEN_NODES.finding(note("sockets-between-nodes"), [sockets])


def _framework(log: LogFacts) -> Iterator[Finding]:
    """Warn if a program of k8sbench was not tried with the version of its framework."""
    framework = log.facts.first("framework") or ""
    tried = log.family.tried_with.get(framework)
    if tried is None:
        return
    for version, place in log.facts.get("framework_version", {}).items():
        if not version.startswith(tuple(f"{number}." for number in tried)):
            said = note(
                "framework-untried",
                framework=framework.capitalize(),
                tried=and_list(tried),
                version=version,
            )
            yield rules.FRAMEWORK_UNTRIED.finding(said, [place])


def _amount(case: Case) -> Iterator[Finding]:
    log, rank = case.log, case.rank
    if rank is None and log.summaries.whole_run is not None:
        yield from _summary_only(case, *log.summaries.whole_run)
        return
    records = rank.tally.records if rank else 0
    if records < FEWEST_RECORDS:
        warmup = log.window.warmup if log.window else 0
        said = note("too-few-records", lines=records, warmup=warmup, needed=FEWEST_RECORDS)
        yield rules.TOO_FEW_RECORDS.finding(said)
    required = case.log.expected.at_least
    if log.trains and case.ended_at_target:
        required = None
    elif log.trains:
        required = _whole_length(case, required or 0) or None
    elif log.family.states_plan and (required is None or case.log.expected.window_by_catalog):
        # Its own plan may ask for more than the catalog does, and not for less.
        required = max(log.facts.whole("iterations") or 0, required or 0) or None
    span = rank.tally.span if rank else None
    measured = span.iterations if span else 0
    cut = _cut_at_the_edges(rank, required) if rank and required is not None else 0
    if required is not None and measured < ENOUGH * (required - cut):
        said = note("too-few-iterations", measured=measured, required=required)
        yield rules.TOO_FEW_ITERATIONS.finding(said, action=_shorten_window(log.expected))
    planned = log.expected.warmup
    if log.window is not None and planned is not None and log.window.warmup < planned:
        said = note("short-warmup", own=log.window.warmup, planned=planned)
        yield rules.SHORT_WARMUP.finding(said, log.facts.places("warmup"))


def _shorten_window(expected: Expectation) -> str | None:
    """Return what to do about a short log of a declared format; None if its run was planned."""
    if expected.declared is None or expected.planned:
        return None
    file = expected.declared_in or "the benchmark's file"
    return f"Measure a longer log, or lower `window: iterations` in {file}."


def _summary_only(case: Case, mark: Mark, file: str) -> Iterator[Finding]:
    """Check a figure that is the summary's alone."""
    places = [evidence.place(file, mark.line, mark.text)]
    evaluated = mark.number("evaluated") or 0
    said = note("summary-only")
    if evaluated >= 1:
        said = note("summary-only-evaluations", seconds=f"{evaluated:.0f}")
    stated, planned, ran = map(mark.number, ("whole_run_rate", "planned", "ran"))
    if stated and planned and ran and ran != planned:
        said = note(
            "summary-only-planned-steps",
            said=said,
            planned=f"{planned:.0f}",
            ran=f"{ran:.0f}",
            rate=significant(stated, 5),
        )
    yield rules.SUMMARY_ONLY.finding(said, places)
    if ran is not None and planned and not 0 < ran <= planned:
        said = note("summary-mismatch-steps", ran=f"{ran:.0f}", planned=f"{planned:.0f}")
        yield rules.SUMMARY_MISMATCH.finding(said, places)
    by_rate, slack = map(mark.number, ("by_rate", "slack"))
    if by_rate and planned and abs(by_rate - planned) > (slack or 0):
        said = note(
            "summary-mismatch-time-and-rate", steps=f"{by_rate:.0f}", planned=f"{planned:.0f}"
        )
        yield rules.SUMMARY_MISMATCH.finding(said, places)
    runs = case.log.summaries.whole_runs
    if len(runs) > 1:
        rates = [run.number("whole_run_rate") or run.number("whole_run_seconds") for run, _ in runs]
        said = note(
            "two-runs-summaries", rates=and_list([significant(rate, 6) for rate in rates if rate])
        )
        places = [evidence.place(name, run.line, run.text) for run, name in runs]
        yield rules.TWO_RUNS.finding(said, places)


def _whole_length(case: Case, required: int) -> int:
    """Iterations that a training must have measured: all but those that restarts lost."""
    log, rank = case.log, case.rank
    if log.expected.to_its_end and log.window is not None:
        required = max(required, (log_statements.planned_iterations(log) or 0) - log.window.warmup)
    return required - (rank.unprinted if rank else 0)


def _cut_at_the_edges(rank: RankRecords, required: int) -> int:
    """Return the window's iterations in lines that cross its edges.

    Such lines do not count. Programs whose first line comes with their first iteration (PLSC, TSM)
    have a line across either edge of any window in round numbers.
    """
    first, last = rank.tally.first_iteration, rank.tally.last_iteration
    if first is None or last is None:
        return 0
    begin = rank.window.warmup
    end = rank.window.warmup + required
    ahead = first - 1 - begin
    behind = end - last if rank.position > end else 0
    return sum(lost for lost in (ahead, behind) if 0 < lost < rank.usual)


def _iterations(case: Case, rank: RankRecords) -> Iterator[Finding]:
    others = dict(case.log.other_runs)
    stated = {name: case.log.facts.get(name, {}) for name in case.log.family.facts_of_run}
    others |= {
        note("two-values", name=name, values=and_list([*values])): list(values.values())
        for name, values in stated.items()
        if len(values) > 1
    }
    if others:
        said = note("two-runs-signs", signs=tuple(others))
        yield rules.TWO_RUNS.finding(said, [place for of in others.values() for place in of])
    back = rank.odd[RecordKind.BACK]
    if back:
        said = note("two-runs-back", times=back.count)
        yield rules.TWO_RUNS.finding(said, [*case.log.facts.other_heads, *back.places])
    missing = rank.missing
    if missing:
        usual = rank.usual or missing.first[0].record.steps or 1
        gaps: dict[str, Arg] = {
            "iterations": missing.amount,
            "times": missing.count,
            "usual": usual,
        }
        said = note("iterations-missing", **gaps)
        severity: Severity = "reject"
        if (share := _small_share(rank, missing)) is not None:
            said = note("iterations-missing-few", **gaps, share=f"{100 * share:.2f} %")
            severity = "warn"
        action, opening = None, rank.opening
        if opening is missing.first[0] and case.log.expected.declared is not None:
            action = _leave_out_beginning(opening, case.log.expected)
        yield rules.ITERATIONS_MISSING.finding(said, missing.places, severity, action=action)
    repeated = rank.odd[RecordKind.REPEATED]
    if repeated:
        yield rules.REPEATED_LINES.finding(note("repeated-lines"), repeated.places)
    redone = rank.odd[RecordKind.REDONE]
    if redone or case.log.restarts:
        said = note("restarted-back", times=redone.count) if redone else note("restarted")
        yield rules.RESTARTED.finding(said, [*case.log.restarts, *redone.places])
    span = rank.tally.span
    between = span.last - span.first + 1 if span else 0
    left_out = between - span.iterations if span else 0
    if rank.last and (rank.samples_steps or left_out > SAMPLED * between):
        said = note("sampled-steps-left-out", last=rank.last, out=left_out, of=between)
        if rank.samples_steps:
            lost = rank.usual - rank.last
            said = note("sampled-steps-stamps", last=rank.last, out=lost, of=rank.usual)
            if rank.tally.printed_alone:
                said = note("sampled-steps-printed", last=rank.last, out=lost, of=rank.usual)
        yield rules.SAMPLED_STEPS.finding(
            said, [rank.tally.first.place] if rank.tally.first else ()
        )
    if (doubt := case.log.facts.said(STEPS_DOUBT)) is not None:
        yield rules.SAMPLED_STEPS.finding(doubt, case.log.facts.places(STEPS_DOUBT))


def _leave_out_beginning(opening: Occurrence, expected: Expectation) -> str:
    """Return what to do about a log whose lines begin late, of a declared format."""
    file = expected.declared_in or "the benchmark's file"
    return (
        "Get the complete log. Of an excerpt, which begins at iteration"
        f" {opening.record.iteration}, write `window: {{warmup: {opening.position}}}` into {file},"
        f" or give --warmup {opening.position}."
    )


def _small_share(rank: RankRecords, missing: Occurrences) -> float | None:
    """Return the share of the window that is missing; None if large or at its beginning."""
    span = rank.tally.span
    if span is None or missing.first[0] is rank.opening:
        return None
    share = missing.amount / (span.last - span.first + 1)
    is_late = span.first - 1 - rank.window.warmup >= max(rank.usual, 1)
    return None if is_late or share > FEW_MISSING else share


def _loss(rank: RankRecords) -> Iterator[Finding]:
    if rank.sums.odd_losses:
        said = note("loss-not-finite", lines=rank.sums.odd_losses.count)
        yield rules.LOSS_NOT_FINITE.finding(said, rank.sums.odd_losses.places)
    elif rank.sums.odd_losses_early:
        early = rank.sums.odd_losses_early
        said = note("loss-not-finite-warmup", lines=early.count)
        yield rules.LOSS_NOT_FINITE.finding(said, early.places, severity="warn")


def _clock(case: Case, rank: RankRecords) -> Iterator[Finding]:
    if case.log.expected.declared is not None:
        misread = list(log_clock.misread(rank.tally, rank.shape))
        yield from misread
        if misread:
            return  # what else contradicts such numbers has the same cause
    sets = [*_clock_sets(case, rank)]
    noted = [seconds for seconds, _ in sets]
    contradictions = [*rank.clock.contradictions(case.seconds_per_unit, noted)]
    # The stamps step beside the printed times, which are of another clock then.
    is_beside = any(finding.severity == "warn" for finding in contradictions)
    for seconds, place in sets:
        finding = rules.CLOCK_MISMATCH.finding(
            note("clock-mismatch-wall-clock-set", seconds=f"{seconds:+.1f}"),
            [place],
            "warn" if is_beside else None,
            action=log_clock.CLOCK_IGNORED if is_beside else log_clock.MEASURE_AGAIN,
        )
        contradictions.insert(0, finding)
    contradictions += rank.arrivals.set_back(case.seconds_per_unit)
    if not contradictions:
        contradictions += log_clock.overclaimed(case.seconds_per_unit, rank.tally, rank.shape)
    # Between the pieces of a run passed time that no line can have.
    if not (contradictions or rank.resumed or case.log.restarts):
        is_answer = case.log.expected.declared is not None and rank.shape.is_per_card
        contradictions += log_clock.apart(
            case.seconds_per_unit,
            rank.tally,
            rank.shape,
            rank.clock,
            multiplied=case.gpus if is_answer and rank.shape.is_rate else 1,
        )
    tokens = rank.shape.is_rate and (case.log.expected.unit or "").startswith("tokens")
    of_one_gpu = None if case.job_batch is None else significant(case.job_batch / case.gpus, 10)
    for finding in contradictions:
        if tokens and of_one_gpu:
            said = finding.said
            said = note("clock-mismatch-in-sequences", said=said, tokens=of_one_gpu)
            yield msgspec.structs.replace(finding, note=said)
        else:
            yield finding
    if case.seconds_per_unit and case.throughput and case.job_batch:
        unit, samples = case.throughput.unit, case.job_batch
        yield from rank.arrivals.contradictions(case.seconds_per_unit, samples, unit)


def _clock_sets(case: Case, rank: RankRecords) -> Iterator[tuple[float, Place]]:
    """Yield where whoever stamped the lines saw the wall clock set, within the window."""
    span = rank.tally.span
    for seconds, place, positions in case.log.clock_sets if span else ():
        assert span is not None
        if span.first - 1 <= positions.get(rank.source, 0) < span.last:
            yield seconds, place


def _evaluations(case: Case) -> Iterator[Finding]:
    """AI-Rank's evaluation at the target, beside the program's own evaluations."""
    reached = case.goal.reached
    target = case.goal.target
    own = log_statements.accuracy(case.log)
    if reached is None or target is None or own is None or own.metric != target.metric:
        return
    best = own.best * (100 if own.unit == "fraction" else 1)
    if best < reached.value - SAME_VALUE:
        said = note("evaluation-missing-own", reached=f"{reached.value:g} %", best=f"{best:g} %")
        yield rules.EVALUATION_MISSING.finding(said, [reached.place])


def _steadiness(case: Case, rank: RankRecords) -> Iterator[Finding]:
    waiting = rank.tally.waiting
    if waiting is not None and waiting > SLOW_LOADER:
        yield rules.LOADER_STALL.finding(note("loader-stall", share=f"{100 * waiting:.0f} %"))
    figures = case.throughput
    if rank.clock.misleads(case.seconds_per_unit):
        return
    if figures is not None and figures.time_weighted and figures.median:
        ratio = figures.time_weighted / figures.median
        apart = f"{100 * abs(ratio - 1):.1f} %"
        said = note("unsteady-above", apart=apart) if ratio > 1 else _below_median(rank, apart)
        # What an evaluation or a checkpoint took is known, and no error.
        steady = figures.time_weighted_steady or figures.time_weighted
        # A smoke run of a few steps shares its machine: it says nothing of the speed anyway.
        rejects = max(ratio, steady / figures.median) < LEAST_OF_MEDIAN and not case.smoke
        rejects = rejects and _dominated(rank.tally.lines.rates)
        if abs(ratio - 1) > UNSTEADY:
            severity: Severity = "reject" if rejects else "warn"
            places = rank.tally.lines.slowest or rank.tally.left_out.places
            yield rules.UNSTEADY.finding(said, places, severity)


def _below_median(rank: RankRecords, apart: str) -> Note:
    """Write how many lines are far above the median, and what they hold."""
    slow = rank.tally.lines.slow()
    if not slow.number:
        return note("unsteady-no-slow-line", apart=apart)
    known: dict[str, Arg] = {
        "apart": apart,
        "slow": slow.number,
        "lines": slow.of,
        "share": f"{100 * slow.number / slow.of:.1f} %",
    }
    if slow.waiting and slow.events:
        return note("unsteady-both", **known, waiting=slow.waiting, events=slow.events)
    if slow.waiting:
        return note("unsteady-waiting", **known, waiting=slow.waiting)
    if slow.events:
        return note("unsteady-events", **known, events=slow.events)
    return note("unsteady-slow-lines", **known)


def _dominated(rates: Sequence[float]) -> bool:
    """True if a few records, by their rates, hold much of the window's time."""
    times = sorted((1 / rate for rate in rates), reverse=True)
    few = max(1, int(FEW * len(times)))
    return sum(times[:few]) > MOST_IN_FEW * sum(times)


def _run_summary(case: Case) -> Iterator[Finding]:
    """Yield differences of a program's summary of the window and the sums of its lines."""
    log, rank = case.log, case.rank
    yield from _whole_run(case)
    yield from _job_rates(case)
    span = rank.tally.span if rank else None
    if log.summaries.last is None or rank is None or span is None or log.restarts:
        return  # the summary of a later attempt is of that attempt
    mark, file = log.summaries.last
    if (mark.number("first_step"), mark.number("last_step")) != (span.first, span.last):
        return
    lines = {"samples_per_second": case.throughput.time_weighted if case.throughput else None}
    if span.iterations == span.last - span.first + 1 and case.job_batch is not None:
        lines |= {"seconds": span.time, "samples": case.job_batch * span.iterations}
    for name, of_lines in lines.items():
        stated = mark.number(name)
        if stated is None or of_lines is None:
            continue
        if not math.isclose(stated, of_lines, rel_tol=rank.shape.summary_tolerance):
            said = note(
                "summary-mismatch",
                name=name,
                summary=significant(stated, 4),
                lines=significant(of_lines, 4),
            )
            yield rules.SUMMARY_MISMATCH.finding(said, [evidence.place(file, mark.line, mark.text)])


def _job_rates(case: Case) -> Iterator[Finding]:
    """Rates of the whole job that follow from the log's counts of samples."""
    figure = 0.0 if case.throughput is None else case.throughput.time_weighted or 0.0
    figure /= log_units.conversion(case.log) or 1
    for mark, file in case.log.summaries.job_rates if figure else ():
        stated = mark.number("job_rate") or 0.0
        low, high = JOB_RATE
        if not low * stated <= figure <= high * stated:
            said = note(
                "summary-mismatch-job-rate",
                by_time=significant(stated, 5),
                lines=significant(figure, 5),
            )
            yield rules.SUMMARY_MISMATCH.finding(said, [evidence.place(file, mark.line, mark.text)])


def _whole_run(case: Case) -> Iterator[Finding]:
    """A declared format's figure for the whole run, beside its records."""
    if case.rank is None or not case.rank.tally.records or not case.rank.shape.is_rate:
        return
    of_lines = case.rank.tally.iterations / case.rank.tally.time
    low, high = WHOLE_RUN
    for mark, file in case.log.summaries.whole_runs:
        stated = None if mark.number("of_lines") else mark.number("whole_run_rate")
        if stated is None or low * of_lines <= stated <= high * of_lines:
            continue
        said = note(
            "summary-mismatch-whole-run",
            summary=significant(stated, 5),
            lines=significant(of_lines, 5),
        )
        yield rules.SUMMARY_MISMATCH.finding(said, [evidence.place(file, mark.line, mark.text)])


def _epoch_summary(case: Case) -> Iterator[Finding]:
    """The log's own summaries of its epochs, beside their records."""
    for mark, place, records, mean_rate in case.log.epoch_ends:
        if records < FEWEST_RECORDS or not mean_rate:
            continue
        stated = mark.number("records_rate")
        every = mark.number("all_steps_rate")
        # The iterations after the last record, fewer than one record has, are in the summary alone.
        if stated and not math.isclose(stated, mean_rate, rel_tol=EPOCH_SUMMARY + 1 / records):
            said = note(
                "summary-mismatch-epoch",
                summary=significant(stated, 5),
                lines=significant(mean_rate, 5),
            )
            yield rules.SUMMARY_MISMATCH.finding(said, [place])
        sampled = case.rank is None or not case.rank.tally.all_steps
        if every is not None and sampled and abs(every / mean_rate - 1) > EPOCH_SUMMARY:
            said = note(
                "sampled-steps-epoch",
                epoch=f"{mark.number('epoch'):.0f}",
                printed=significant(mean_rate, 4),
                every=significant(every, 4),
            )
            yield rules.SAMPLED_STEPS.finding(said, [place])


def _ending(case: Case) -> Iterator[Finding]:
    log, rank = case.log, case.rank
    over = (log.finished, case.ended_at_target)
    if rank is None or (all(over) if log.trains else any(over)):
        return
    planned = log_statements.planned_iterations(log)
    slack = max(rank.usual, 1)
    if planned is not None and rank.position <= planned - slack:
        yield rules.ENDS_EARLY.finding(
            note("ends-early-planned", iteration=rank.position, planned=planned)
        )
    elif not log.finished and log.airank.begun is not None and not log.airank.ended:
        yield rules.ENDS_EARLY.finding(note("ends-early-airank"))


# -- completeness ---------------------------------------------------------------------------------
#
# Whether lines that the cluster no longer had matter to what was measured. A gap is known by the
# time stamps on either side of it. Where it cannot be shown to lie outside the measured window, it
# might hold a restart, an evaluation or training lines of it, and the figures are rejected. Only
# stamps in UTC can be compared with those stamps: most programs do not name the zone of theirs.

BUFFERED_SECONDS = 5.0
"""Maximum delay from a printed time to the node's time stamp."""


def gaps_reason(
    measurement: Measurement, gaps: Sequence[LogGap], *, figures: Container[str]
) -> Finding:
    """Build the finding for gaps in a run's logs; the ``figures`` are from these."""
    worst = [gap for gap in gaps if gap.replica in figures and _may_matter(gap, measurement)]
    gap = (worst or gaps)[0]
    known: dict[str, Arg] = {
        "replica": gap.replica,
        "after": note("log-beginning") if gap.after is None else _time_of_day(gap.after),
        "before": note("log-end") if gap.before is None else _time_of_day(gap.before),
        "why": quoted(gap.why),
    }
    said = note("incomplete-log", **known)
    if len(gaps) > 1:
        said = note("incomplete-log-more", **known, more=len(gaps) - 1)
    severity: Severity = "reject" if worst else "warn"
    return rules.INCOMPLETE_LOG.finding(said, severity=severity)


def _may_matter(gap: LogGap, measurement: Measurement) -> bool:
    """True if a gap may hold lines of the window."""
    window = measurement.window
    family = FAMILIES.get(measurement.format)
    if family is None or not family.stamps_utc or window is None or window.seconds is None:
        return True
    if window.started_at is None or window.ended_at is None:
        return True
    # The first stamp may be that of the first counted line, which the time is before.
    began = min(window.started_at, window.ended_at - window.seconds)
    after = -math.inf if gap.after is None else gap.after
    before = math.inf if gap.before is None else gap.before
    return after - BUFFERED_SECONDS < window.ended_at and before > began - BUFFERED_SECONDS


def _time_of_day(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%H:%M:%S} UTC"
