"""Every finding that several runs of one case give; the tables of ``docs/results.md``."""

from __future__ import annotations

from k8sbench.measure.verdict import reject, rules_in, warn
from k8sbench.model.group import UNSTEADY

RUN_IN_PROGRESS = reject("run-in-progress", "Wait for it: k8sbench watch RUN.")
"""The run has not ended."""
RUN_FAILED = reject("run-failed", "See k8sbench logs RUN, and repeat the case.")
"""The job failed."""
RUN_CANCELLED = reject("run-cancelled", "Repeat the case.")
"""The run was cancelled."""
RUN_LOST = reject("run-lost", "See k8sbench status RUN, and repeat the case.")
"""The process is gone, or the job was removed before its end."""
NOT_MEASURED = reject(
    "not-measured",
    "Measure it with k8sbench collect RUN, where it ran on a cluster; else repeat the case.",
)
"""The run ended, but nothing was measured."""
LOG_COUNTED_TWICE = reject("log-counted-twice", "Remove the copy with k8sbench store remove RUN.")
"""The log is, record by record, that of an earlier run, in any group.

The times at which lines were received are equal, too, if both logs have them.
"""
MIXED_PLAN = reject(
    "mixed-plan",
    "Compare the plans with k8sbench status RUN -o yaml, and repeat the case with one of them.",
)
"""A property outside the group's key differs from the other runs.

Such as environment variables, command, details of the pool: it is another
[case](#what-makes-two-runs-the-same-case).
"""
MIXED_GPU_MODEL = reject("mixed-gpu-model", "Choose a node pool of one GPU model.")
"""The run ran on another GPU model."""
MIXED_PRECISION = reject("mixed-precision", "Repeat the case where AMP has an effect.")
"""The effective precision differs: AMP had effect in one run only."""
MIXED_IMAGE = reject("mixed-image", "Name the image by its digest, and repeat the case.")
"""Its image is another."""
MIXED_DRIVER = reject("mixed-driver", "Choose nodes with one driver version.")
"""Its GPU driver is another."""
MIXED_FRAMEWORK = reject("mixed-framework", "Use one image for all repeats.")
"""Its framework has another version."""
MIXED_DATA = reject(
    "mixed-data", "Give all repeats the same files: k8sbench data check names what is missing."
)
"""The run read other files: another digest of its data set."""
MIXED_WEIGHTS = reject("mixed-weights", "Start all repeats from one file, or all from scratch.")
"""The run started from other weights, or from scratch."""
MIXED_ESTIMATOR = reject("mixed-estimator", "Use the same log interval in all repeats.")
"""The run has no figure by the estimator of the others."""
OUTLIER = reject(
    "outlier",
    "Repeat the case until a clear majority agrees; look for other load on the outlier's nodes.",
)
"""The figure is not that of a clear majority; not checked for smoke runs."""
EFFICIENCY_ABOVE_LIMIT = reject(
    "efficiency-above-limit", "Repeat both cases: one of the two is wrong."
)
"""An efficiency above 1.05 is no scaling effect; one side is wrong."""
UNSTEADY_RUNS = warn(UNSTEADY, "Look for other load on their nodes, and repeat the case.")
"""The runs are over a quarter apart, without clear outliers.

All count, there is no interval, and the row is not valid.
"""
WIDE_INTERVAL = warn("wide-interval", "Run more repeats.")
"""The interval is wider than 10 % of the median."""

ALL = rules_in(globals())
"""By their ids."""
