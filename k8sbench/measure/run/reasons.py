"""Every reason that a measurement of one run can carry, in one table.

``docs/integrity.md`` is held equal to it by a test. Ids are stable: people type them after
``--accept``. Reasons about groups of runs are :mod:`k8sbench.measure.group.grouping`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.measure.run import redaction
from k8sbench.measure.run.track import Spot
from k8sbench.model.measurement import Reason, Severity
from k8sbench.model.sample import Place

EVIDENCE = 3
"""Lines that a reason quotes."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of reason."""

    severity: Severity
    meaning: str
    action: str
    unless: str = ""
    """When it is the other severity."""


RULES: dict[str, Rule] = {
    "nothing-measured": Rule(
        severity="reject",
        meaning="The run's logs hold no training line that can be read.",
        action="Look at the logs: the program ended before its first line, or prints another "
        "format than the plan says.",
    ),
    "too-few-records": Rule(
        severity="reject",
        meaning="Fewer than 5 training lines lie in the window.",
        action="Log more often, run longer, or give a shorter --warmup.",
    ),
    "too-few-iterations": Rule(
        severity="reject",
        meaning="Fewer iterations were measured than the benchmark asks for: a side run, or one "
        "that broke off.",
        action="Run it to its end; a run that is meant to be shorter needs a plan that says so.",
    ),
    "gpu-count": Rule(
        severity="reject",
        meaning="The log speaks of another number of GPUs than the plan or --gpus.",
        action="Give the number that the job really had.",
    ),
    "trainer-count": Rule(
        severity="reject",
        meaning="Not every rank of the job wrote a start line.",
        action="Give the logs of all replicas, or find out which rank did not start.",
    ),
    "batch-size": Rule(
        severity="reject",
        meaning="The log's batch per GPU is another than the plan's or --batch-size.",
        action="Give the batch that really ran with --batch-size.",
        unless="warn where there is no plan and the figures do not depend on the batch",
    ),
    "batch-unknown": Rule(
        severity="reject",
        meaning="The log gives times per iteration and nothing says how large a batch was.",
        action="Give it with --batch-size.",
    ),
    "framework": Rule(
        severity="reject",
        meaning="The log is of the other framework.",
        action="Leave --framework out, or give the right one.",
    ),
    "precision": Rule(
        severity="reject",
        meaning="The log says another precision than the plan or --precision.",
        action="Give the precision that really ran.",
    ),
    "precision-without-effect": Rule(
        severity="reject",
        meaning="AMP was asked for, and the program says that it computed in fp32.",
        action="Use a device and a framework whose AMP works; the figure is one of fp32.",
        unless="warn for a smoke run on a CPU",
    ),
    "other-benchmark": Rule(
        severity="reject",
        meaning="The log is of another benchmark, variant or model.",
        action="Measure it as what it is.",
    ),
    "parameters": Rule(
        severity="reject",
        meaning="The model's number of parameters is not the benchmark's.",
        action="Check the model's options; another model is another benchmark.",
    ),
    "mixed-devices": Rule(
        severity="reject",
        meaning="The ranks of the job ran on different GPU models.",
        action="Choose a node pool of one GPU model.",
    ),
    "gpu-throttled": Rule(
        severity="reject",
        meaning="A GPU that worked on the run was slowed down by heat or by a power brake.",
        action="Mend the node's cooling or power, or leave it out of the pool; then run it again.",
    ),
    "iterations-back": Rule(
        severity="reject",
        meaning="Iterations go back without a restart that explains it: several runs in one log.",
        action="Measure each run's log alone; pieces of one run are given with --one-run.",
    ),
    "iterations-missing": Rule(
        severity="reject",
        meaning="Iterations inside the window are in no training line: lines were lost or torn.",
        action="Get the complete log.",
    ),
    "loss-not-finite": Rule(
        severity="reject",
        meaning="The loss became NaN or infinite.",
        action="Find out why; such a run computes something else.",
        unless="warn where it happened in the warm-up alone",
    ),
    "summary-mismatch": Rule(
        severity="reject",
        meaning="The log's own summary does not follow from its lines.",
        action="One of the two was edited or belongs to another run: get the original log.",
    ),
    "clock-mismatch": Rule(
        severity="reject",
        meaning="The printed times and the log's own time stamps disagree.",
        action="One of the two was edited, or the clock was set: get the original log.",
    ),
    "ends-early": Rule(
        severity="warn",
        meaning="The log ends before what was planned; the window itself is complete.",
        action="Nothing for a throughput; accuracy and time to train need the whole run.",
    ),
    "warmup-included": Rule(
        severity="warn",
        meaning="No warm-up was given and the log names none, so every iteration counts.",
        action="Give --warmup.",
    ),
    "incomplete-log": Rule(
        severity="warn",
        meaning="The cluster no longer had a part of the logs when it was asked for.",
        action="Follow runs from their start, or keep logs on the nodes for longer; repeat the run "
        "if the missing lines matter.",
        unless="reject where the gap is in rank 0's log and may hold lines of the window",
    ),
    "gpu-clocks": Rule(
        severity="warn",
        meaning="A GPU worked at a clock more than 10 % below the median of the job's GPUs; all "
        "ranks wait for the slowest.",
        action="Look at the power limit, the application clocks and the cooling of that GPU's "
        "node.",
    ),
    "loader-stall": Rule(
        severity="warn",
        meaning="More than a tenth of the time was spent waiting for data.",
        action="The figure is one of the data pipeline: more loader workers, faster storage, or "
        "synthetic data.",
    ),
    "unsteady": Rule(
        severity="warn",
        meaning="The time-weighted mean and the median differ by more than 5 %: some records are "
        "much slower than most.",
        action="Look at the records that are left out of time_weighted_steady; compare by one "
        "estimator.",
    ),
    "restarted": Rule(
        severity="warn",
        meaning="The run was restarted; iterations that ran twice count once.",
        action="Compare time_weighted_steady, which leaves the record after each restart out.",
    ),
    "repeated-lines": Rule(
        severity="warn",
        meaning="Training lines repeat, as several ranks print them or as copies; they count once.",
        action="Nothing; a rank's own file would be cleaner.",
    ),
    "running-mean-coarse": Rule(
        severity="warn",
        meaning="The log prints running means whose last digit is larger than a record's own "
        "time; records without a positive time are left out.",
        action="Log less often, so that a record covers more iterations.",
    ),
    "printed-running-mean": Rule(
        severity="warn",
        meaning="Printed figures that are documented as single steps behave as running means.",
        action="Use the figure that the message names; all others are means of running means.",
    ),
    "sampled-steps": Rule(
        severity="warn",
        meaning="The log prints single steps, and its own mean over all steps of an epoch is more "
        "than 5 % away from them.",
        action="The mean over all steps, named in the message, is the better figure.",
    ),
    "summary-only": Rule(
        severity="warn",
        meaning="The log states one rate for the whole run, warm-up included, and no records.",
        action="Nothing; the other estimators do not exist for such a log.",
    ),
    "airank-clock": Rule(
        severity="warn",
        meaning="AI-Rank lines and the logger's own stamps disagree: lines written by hand.",
        action="Do not use the AI-Rank times without the original log.",
    ),
    "airank-ips": Rule(
        severity="warn",
        meaning="AI-Rank's avg_ips is not this log's throughput (per card, or something else).",
        action="Use the throughput measured here.",
    ),
    "airank-accuracy": Rule(
        severity="warn",
        meaning="AI-Rank's accuracies are not those of the program's own evaluations.",
        action="Use the program's.",
    ),
    "airank-target": Rule(
        severity="warn",
        meaning="AI-Rank's target_quality_time is not the time from test_begin to an evaluation "
        "that is the first to be so good.",
        action="Give the benchmark, so that the target is known.",
    ),
    "long-lines": Rule(
        severity="warn",
        meaning="Lines longer than 64 KiB were cut; what followed in them was not read.",
        action="Nothing where they are progress bars or dumps.",
    ),
}
"""Id → what it means."""


def reason(
    name: str,
    message: str,
    evidence: Iterable[Place] = (),
    *,
    severity: Severity | None = None,
) -> Reason:
    """Build a reason of the table."""
    return Reason(
        id=name,
        severity=severity or RULES[name].severity,
        message=message,
        evidence=tuple(evidence)[:EVIDENCE],
    )


def quoted(spots: Iterable[Spot]) -> tuple[Place, ...]:
    """The first few of some lines, as evidence."""
    return tuple(
        redaction.place(spot.file, spot.line, spot.text) for spot in list(spots)[:EVIDENCE]
    )
