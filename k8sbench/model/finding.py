"""Findings: a problem or a note, with an action and evidence.

Integrity checks, the causes of a job's state, the preflight and the notes on a row all return it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from k8sbench.model.sample import Place

Severity = Literal["ok", "warn", "reject", "fail"]
"""Effect of a finding.

``ok``: checked, no problem. ``warn``: worth knowing, the result stands. ``reject``: the measurement
does not count. ``fail``: the run or the command cannot succeed.
"""

FORMER_IDS = {
    "batch-unknown": "batch-unverified",
    "below-median": "unsteady",
    "iterations-back": "two-runs",
    "mixed-devices": "mixed-gpu-model",
    "parameters": "other-benchmark",
}
"""Id in an earlier version → id of the same reason now.

Stored runs hold the former ids, and users may type them after ``--accept``.
"""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    id: str
    """Stable: users type it after ``--accept``, and rows keep it."""
    severity: Severity
    """Severity: ``reject`` takes the figures out, ``fail`` ends the command."""
    sentence: str = msgspec.field(name="message")
    """The problem, with names and numbers."""
    evidence: tuple[Place, ...] = ()
    """Log lines that show it; empty if it does not come from a log."""
    action: str | None = None
    """The action to take; None without one."""
    accepted: bool = False
    """True where ``--accept ID`` overruled it; the tables mark it."""

    def __post_init__(self) -> None:
        if self.id in FORMER_IDS:
            msgspec.structs.force_setattr(self, "id", FORMER_IDS[self.id])
