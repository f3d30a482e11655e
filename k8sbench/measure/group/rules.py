"""Every finding that several runs of one case give; the tables of ``docs/results.md``."""

from __future__ import annotations

from k8sbench.measure.verdict import IntegrityRule, rules_in
from k8sbench.model.group import UNSTEADY

RUN_IN_PROGRESS = IntegrityRule("run-in-progress", "reject", "Wait for it: k8sbench watch RUN.")
"""The run has not ended."""
RUN_FAILED = IntegrityRule(
    "run-failed", "reject", "Look at what it printed with k8sbench logs RUN, and repeat the case."
)
"""The job failed."""
RUN_CANCELLED = IntegrityRule("run-cancelled", "reject", "Repeat the case.")
"""The run was cancelled."""
RUN_LOST = IntegrityRule(
    "run-lost", "reject", "Look at what is left with k8sbench status RUN, and repeat the case."
)
"""The process that answered for it is gone."""
NOT_MEASURED = IntegrityRule(
    "not-measured",
    "reject",
    "Measure it with k8sbench collect RUN, where it ran on a cluster; else repeat the case.",
)
"""The run ended, but nothing was measured."""
LOG_COUNTED_TWICE = IntegrityRule(
    "log-counted-twice", "reject", "Remove the copy with k8sbench store remove RUN."
)
"""Its log is, record by record, that of an earlier run, in whatever group."""
MIXED_PLAN = IntegrityRule(
    "mixed-plan",
    "reject",
    "Compare the plans with k8sbench status RUN -o yaml, and repeat the case with one of them.",
)
"""The run is another [case](#what-makes-two-runs-the-same-case) in what the group does not name:
environment variables, command, details of the pool."""
MIXED_GPU_MODEL = IntegrityRule("mixed-gpu-model", "reject", "Choose a node pool of one GPU model.")
"""The run ran on another GPU model."""
MIXED_PRECISION = IntegrityRule(
    "mixed-precision", "reject", "Find out where AMP had no effect, and repeat the case there."
)
"""Its precision in effect is another: AMP had effect in one run and not in the other."""
MIXED_IMAGE = IntegrityRule(
    "mixed-image", "reject", "Name the image by its digest, and repeat the case."
)
"""Its image is another."""
MIXED_DRIVER = IntegrityRule("mixed-driver", "reject", "Choose nodes with one driver version.")
"""Its GPU driver is another."""
MIXED_FRAMEWORK = IntegrityRule("mixed-framework", "reject", "Use one image for all repeats.")
"""Its framework has another version."""
MIXED_DATA = IntegrityRule(
    "mixed-data",
    "reject",
    "Give all repeats the same files: k8sbench data check names what is missing.",
)
"""The run read other files: another digest of its data set."""
MIXED_WEIGHTS = IntegrityRule(
    "mixed-weights", "reject", "Start all repeats from the same file, or all from scratch."
)
"""The run started from other weights, or from scratch."""
MIXED_ESTIMATOR = IntegrityRule(
    "mixed-estimator",
    "reject",
    "Use the same log interval in all repeats, so that all have figures by one estimator.",
)
"""The run has no figure by the estimator of the others."""
OUTLIER = IntegrityRule(
    "outlier",
    "reject",
    "Repeat the case until a clear majority agrees, and find out what else ran beside the outlier.",
)
"""Its figure is not that of a clear majority; not judged in smoke runs, which claim no speed."""
EFFICIENCY_ABOVE_LIMIT = IntegrityRule(
    "efficiency-above-limit", "reject", "Repeat both cases: one of the two is wrong."
)
"""An efficiency above 1.05 is no scaling effect; one side is wrong."""
UNSTEADY_RUNS = IntegrityRule(
    UNSTEADY,
    "warn",
    "Find out what else ran beside them, and repeat the case.",
)
"""The runs are more than a quarter apart, without a gap that would show which are right: all of
them count, there is no interval, and the row is not valid."""
WIDE_INTERVAL = IntegrityRule("wide-interval", "warn", "Run more repeats.")
"""The interval is wider than 10 % of the median."""

ALL = rules_in(globals())
"""By their ids."""
