"""Every reason that a measurement of one run can carry, in one table.

``docs/integrity.md`` says what each means and what to do about it; a test holds its ids and
severities equal to the table's. Ids are stable: people type them after ``--accept``. Reasons about
groups of runs are :mod:`k8sbench.measure.group.grouping`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.measure.run.rank_series import Occurrence
from k8sbench.model.measurement import Reason, Severity
from k8sbench.model.sample import Place

EVIDENCE = 3
"""Lines that a reason quotes."""


RULES: dict[str, Severity] = {
    "nothing-measured": "reject",
    "too-few-records": "reject",
    "too-few-iterations": "reject",
    "gpu-count": "reject",
    "trainer-count": "reject",
    "batch-size": "reject",
    "batch-unknown": "reject",
    "framework": "reject",
    "precision": "reject",
    "precision-without-effect": "reject",
    "other-benchmark": "reject",
    "parameters": "reject",
    "mixed-devices": "reject",
    "gpu-throttled": "reject",
    "iterations-back": "reject",
    "iterations-missing": "reject",
    "loss-not-finite": "reject",
    "summary-mismatch": "reject",
    "clock-mismatch": "reject",
    "ends-early": "warn",
    "warmup-included": "warn",
    "incomplete-log": "warn",
    "gpu-clocks": "warn",
    "loader-stall": "warn",
    "unsteady": "warn",
    "restarted": "warn",
    "repeated-lines": "warn",
    "running-mean-coarse": "warn",
    "printed-running-mean": "warn",
    "sampled-steps": "warn",
    "summary-only": "warn",
    "airank-clock": "warn",
    "airank-ips": "warn",
    "airank-accuracy": "warn",
    "airank-target": "warn",
    "long-lines": "warn",
}
"""Id → its severity; where a check says otherwise, the page says when."""


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
        severity=severity or RULES[name],
        message=message,
        evidence=tuple(evidence)[:EVIDENCE],
    )


def quoted(occurrences: Iterable[Occurrence]) -> tuple[Place, ...]:
    """The first few of some lines, as evidence."""
    return tuple(each.place for each in list(occurrences)[:EVIDENCE])
