"""The measurement of a recorded run, and its throughput by iteration, for plots."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from k8sbench.messages import note
from k8sbench.model import rules, times, verdict
from k8sbench.model.errors import Finding, InputError
from k8sbench.model.kinds import replica_names
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import RESTARTING, Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.profile import Curve
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap, Record
from k8sbench.reader.measuring import evidence, expectation, integrity, measuring, nothing_measured
from k8sbench.reader.measuring.epochs import Epochs
from k8sbench.reader.measuring.log_facts import OpenedLog
from k8sbench.reader.reading import FamilyLog, family_of

NO_LOG = "The run left no log: its program printed nothing, or the log was lost before it was read."

UNFINISHED = {
    rules.EVALUATION_MISSING.id,
    rules.ITERATIONS_MISSING.id,
    rules.NOTHING_MEASURED.id,
    rules.TOO_FEW_ITERATIONS.id,
    rules.TOO_FEW_RECORDS.id,
}
"""Reasons by which a log lacks planned iterations or evaluations."""


def is_result(run: Run, found: Measurement) -> bool:
    """Return True if a measurement counts as its run's result.

    A failed run's measurement needs all planned iterations.
    """
    is_whole = UNFINISHED.isdisjoint(reason.id for reason in found.reasons)
    return is_whole or run.phase is not Phase.FAILED


def unmeasured(run: Run, files: Sequence[str], why: InputError) -> Measurement:
    """Return the rejected measurement of a run whose logs give no figure."""
    return nothing_measured.measurement(files, expectation.from_plan(run.plan, accept=()), why)


def measure_run(
    run: Run,
    logs: Iterable[OpenedLog],
    *,
    accept: Sequence[str] = (),
    gaps: Sequence[LogGap] = (),
    nodes: Iterable[Mapping[str, str]] = (),
) -> Measurement:
    """Measure a run from its replicas' logs, rank 0 first.

    The run is checked against its plan. Logs without any measurable line give a rejected
    measurement, not an error: the run itself ended well, and its logs are kept. ``gaps`` are
    missing lines of the logs; ``nodes`` are the facts that nodes report, which are added to the
    environment.
    """
    opened = list(logs)
    try:
        if not opened:
            raise InputError(NO_LOG)
        found = measuring.measure(opened, expectation.from_plan(run.plan, accept=tuple(accept)))
    except InputError as why:
        found = unmeasured(run, [log.name for log in opened], why)
    return judged_with_run(found, run, accept=accept, gaps=gaps, nodes=nodes)


def judged_with_run(
    found: Measurement,
    run: Run,
    *,
    accept: Sequence[str] = (),
    gaps: Sequence[LogGap] = (),
    nodes: Iterable[Mapping[str, str]] = (),
) -> Measurement:
    """Add what the run's history, gaps and nodes say to the measurement of its logs."""
    # An attempt may have ended before its first line.
    restarts = max(found.restarts, run.restarts)
    stated: dict[str, set[str]] = {}
    for name, text in (fact for node in nodes for fact in node.items()):
        stated.setdefault(name, set()).add(text)
    environment = found.environment | {name: ", ".join(sorted(stated[name])) for name in stated}
    found = msgspec.structs.replace(found, restarts=restarts, environment=environment)
    more: list[Finding] = []
    if gaps:
        figures = {replica_names(run.plan)[0]}
        if run.facts.job is not None:  # each attempt has a log
            figures = {found.lines[name].file for name in ("first", "last") if name in found.lines}
        more.append(integrity.gaps_reason(found, gaps, figures=figures))
    more += [
        rules.EXIT_CODE.finding(note("exit-code", cause=evidence.redact(end.cause)))
        for end in run.history[-1:]
        if end.phase is Phase.FAILED
    ]
    paused = sum(
        again.at - end.at
        for end, again in itertools.pairwise(run.history)
        if end.phase.final and again.cause_id == RESTARTING
    )
    if paused:
        more.append(rules.CONTINUED.finding(note("continued", time=times.duration(paused))))
    if not more:
        return found
    # What else was found has its marks already; that nothing was measured cannot be accepted.
    return verdict.with_reasons(found, (*found.reasons, *verdict.mark_accepted(more, accept)), ())


# -- throughput by iteration -----------------------------------------------------------------------


def curve(plan: RunPlan, blocks: Iterable[str]) -> Curve:
    """Read the training lines of the log of the replica that prints them."""
    steps: list[tuple[int, float | None]] = []
    epochs: Epochs | None = None
    position = previous = 0
    source = ""
    for item in FamilyLog(blocks, [family_of(plan.log, plan.framework)]):
        if not isinstance(item, Record) or (epochs and item.source != source):
            continue  # a file may hold the lines of several ranks
        epochs = epochs or Epochs(item)
        source = item.source
        epochs.learn(item, previous)
        epoch = epochs.place(item, position)
        if epoch.switches:
            epochs.switch(item, epoch)
        previous = item.iteration
        iteration = epoch.base + item.iteration
        position = max(position, iteration)
        steps.append((iteration, rate(item, plan)))
    return Curve(
        iterations=tuple(iteration for iteration, _ in steps),
        rates=tuple(printed for _, printed in steps),
    )


def rate(record: Record, plan: RunPlan) -> float | None:
    """Return samples per second of the whole job; None where the line has none."""
    printed = record.rate
    seconds = record.seconds or record.mean_seconds
    if printed is not None and record.shape.is_per_card:
        return printed * plan.world_size
    if printed is None and seconds and plan.batch_size:
        return plan.global_batch * plan.sequence_length / seconds
    return printed
