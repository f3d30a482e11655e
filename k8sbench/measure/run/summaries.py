"""Comparison of a log's summaries with its own lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from k8sbench.measure.run import evidence, rules
from k8sbench.measure.run.log_facts import EpochEnd
from k8sbench.measure.run.log_statements import FEWEST_RECORDS, Case
from k8sbench.model.finding import Finding

OWN_SUMMARY = 0.005
"""Maximum relative difference of a log's lines and its summary."""
WHOLE_RUN = (0.5, 1.1)
"""Limits of a whole run's rate ÷ the window's.

It includes the warm-up and evaluations, so it may be lower.
"""
EPOCH_SUMMARY = 0.05
"""The same for summaries that also hold the few iterations after the last record."""


def run_summary(case: Case) -> Iterator[Finding]:
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


def epoch_summary(case: Case, end: EpochEnd) -> Iterator[Finding]:
    """Compare an epoch's summary with the epoch's records."""
    number, last = end.mark.number, end.last
    if end.records < FEWEST_RECORDS:
        return
    stated = number("records_rate")
    # The iterations after the last record, fewer than one record has, are in the summary alone.
    allowed = EPOCH_SUMMARY + 1 / end.records
    if stated and end.mean_rate and not math.isclose(stated, end.mean_rate, rel_tol=allowed):
        text = f"The log says a mean rate of {stated:.5g} for its epoch, its lines say"
        yield rules.SUMMARY_MISMATCH.finding(f"{text} {end.mean_rate:.5g}.", [end.place])
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
