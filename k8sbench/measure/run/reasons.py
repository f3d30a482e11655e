"""Every reason that a measurement of one run can carry, in one table.

``docs/integrity.md`` explains each and gives an action; a test compares its ids and severities with
the table's. Ids are stable: users type them after ``--accept``. Reasons about
groups of runs are :mod:`k8sbench.measure.group.grouping`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.model.measurement import Reason, Severity
from k8sbench.model.sample import Place

EVIDENCE = 3
"""Lines that a reason quotes."""


_REJECT = (
    *("nothing-measured", "too-few-records", "too-few-iterations", "gpu-count"),
    *("trainer-count", "batch-size", "batch-unknown", "framework", "precision"),
    *("precision-without-effect", "other-benchmark", "parameters", "mixed-devices"),
    *("device", "preset", "batch-mismatch", "short-warmup"),
    *("gpu-throttled", "gpu-shared", "metrics-at-odds"),
    *("iterations-back", "iterations-missing", "loss-not-finite"),
    *("summary-mismatch", "clock-mismatch", "job-changed", "two-runs", "unread-number"),
    "above-peak",
)
_WARN = (
    *("ends-early", "warmup-included", "incomplete-log", "gpu-clocks", "xid-error", "loader-stall"),
    *("unsteady", "restarted", "repeated-lines", "running-mean-coarse"),
    *("printed-running-mean", "sampled-steps", "summary-only", "airank-clock", "airank-ips"),
    *("clock-jump", "clocks-apart", "airank-accuracy", "airank-target", "long-lines"),
    *("machine-busy", "machine-shared", "gpu-in-use", "broken-samples", "checkpoint-failed"),
    *("gpus-unverified", "batch-unverified", "precision-unverified", "model-unverified"),
    "sockets-between-nodes",
)
RULES: dict[str, Severity] = {
    **dict.fromkeys(_REJECT, "reject"),
    **dict.fromkeys(_WARN, "warn"),
}
"""Id → its severity; where a check gives another one, the page states when."""


def reason(
    name: str, message: str, evidence: Iterable[Place] = (), *, severity: Severity | None = None
) -> Reason:
    """Build a reason of the table."""
    places = tuple(evidence)[:EVIDENCE]
    return Reason(id=name, severity=severity or RULES[name], message=message, evidence=places)
