"""Comparison of a log's summaries with its own lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from k8sbench.measure.run import evidence, rules
from k8sbench.measure.run.log_facts import EpochEnd
from k8sbench.measure.run.log_statements import FEWEST_RECORDS, Case
from k8sbench.model.finding import Finding
from k8sbench.model.sample import Record

OWN_SUMMARY = 0.005
"""Maximum relative difference of a log's lines and its summary."""
WHOLE_RUN = (0.5, 1.1)
"""Limits of a whole run's rate ÷ the window's.

It includes the warm-up and evaluations, so it may be lower.
"""
SLOW_TAIL = 10.0
"""Maximum slowdown of the iterations after an epoch's last record."""
EPOCH_SUMMARY = 0.05
"""The same for summaries that also hold the few iterations after the last record."""


def of_run(case: Case) -> Iterator[Finding]:
    """Our own trainers' summary, against what their step lines add up to."""
    log, rank = case.log, case.rank
    yield from _whole_run(case)
    span = rank.tally.span if rank else None
    if log.summary is None or span is None or log.restarted:
        return  # the summary of a later attempt is of that attempt
    mark, file = log.summary
    if (mark.number("first_step"), mark.number("last_step")) != (span.first, span.last):
        return
    lines = {"samples_per_second": case.throughput.time_weighted if case.throughput else None}
    if span.iterations == span.last - span.first + 1 and case.job_batch is not None:
        lines |= {"seconds": span.time, "samples": case.job_batch * span.iterations}
    for name, of_lines in lines.items():
        stated = mark.number(name)
        if stated is None or of_lines is None:
            continue
        if not math.isclose(stated, of_lines, rel_tol=OWN_SUMMARY):
            text = f"The summary says {stated:.4g} {name}, its own lines come to {of_lines:.4g}."
            yield rules.SUMMARY_MISMATCH.finding(text, [evidence.place(file, mark.line, mark.text)])


def _whole_run(case: Case) -> Iterator[Finding]:
    """A declared format's figure for the whole run, beside its records."""
    if case.log.whole_run is None or case.rank is None or not case.rank.tally.records:
        return
    mark, file = case.log.whole_run
    stated, rates = mark.number("whole_run_rate"), case.rank.tally
    if stated is None or case.rank.shape.number != "rate":
        return
    of_lines = rates.iterations / rates.time
    low, high = WHOLE_RUN
    if not low * of_lines <= stated <= high * of_lines:
        text = f"The log says {stated:.5g} for the whole run, its lines come to {of_lines:.5g}."
        yield rules.SUMMARY_MISMATCH.finding(text, [evidence.place(file, mark.line, mark.text)])


def of_epoch(case: Case, end: EpochEnd) -> Iterator[Finding]:
    """Compare an epoch's summary with the epoch's records."""
    number, last = end.mark.number, end.last
    if end.records < FEWEST_RECORDS:
        return
    stated = number("records_rate")
    if stated is not None and end.mean_rate:
        yield from _beside(end, stated, end.mean_rate, "mean rate")
    yield from _running_summary(end, last)
    stated = number("mean_rate")
    if stated is not None and last.rate:
        yield from _beside(end, stated, last.rate, "rate")
        if end.records >= 20 and math.isclose(stated, last.rate, rel_tol=1e-5):
            text = "The epoch's own mean is the last line's figure: the lines are running means."
            yield rules.PRINTED_RUNNING_MEAN.finding(text, [end.place])
    if last.shape.averaged == "step" and not end.fits:
        text = f"The log's total of epoch {last.epoch} is not of as many steps as its lines show."
        yield rules.SUMMARY_MISMATCH.finding(text, [end.place])
    stated = number("all_steps_rate")
    sampled = case.rank is None or not case.rank.tally.all_steps
    if stated is None or not end.mean_rate or not sampled:
        return
    if abs(stated / end.mean_rate - 1) > EPOCH_SUMMARY:
        text = (
            f"The printed steps of epoch {last.epoch} come to {end.mean_rate:.4g} per card, all"
            f" its steps to {stated:.4g}."
        )
        yield rules.SAMPLED_STEPS.finding(text, [end.place])


def _running_summary(end: EpochEnd, last: Record) -> Iterator[Finding]:
    """Compare an epoch's last running mean with its final mean and sum."""
    mean, total = end.mark.number("mean_seconds"), end.mark.number("sum_seconds")
    if mean is None or total is None or not last.mean_seconds:
        return
    skips = last.shape.skips
    behind = last.iteration - skips if last.iteration > skips else last.iteration
    before = last.mean_seconds * behind
    if not mean > 0 or not total > 0:
        return
    tail = round(total / mean) - behind
    rest = total - before
    rounding = OWN_SUMMARY * before
    if not -rounding <= rest <= rounding + tail * SLOW_TAIL * last.mean_seconds:
        text = (
            f"The log says {total:.5g} s for its epoch, {mean:.5g} s per iteration; its lines say "
            f"{before:.5g} s and {last.mean_seconds:.5g} s up to the last of them."
        )
        yield rules.SUMMARY_MISMATCH.finding(text, [end.place])


def _beside(end: EpochEnd, stated: float, of_lines: float, what: str) -> Iterator[Finding]:
    # The iterations after the last record, fewer than one record has, are in the summary alone.
    if not math.isclose(stated, of_lines, rel_tol=EPOCH_SUMMARY + 1 / end.records):
        text = f"The log says a {what} of {stated:.5g} for its epoch, its lines say {of_lines:.5g}."
        yield rules.SUMMARY_MISMATCH.finding(text, [end.place])
