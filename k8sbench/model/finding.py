"""What is wrong, or worth knowing, and what to do about it: the one type for all of it.

Integrity checks, the causes of a job's state, the preflight and the notes on a row all return it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from k8sbench.model.sample import Place

Severity = Literal["ok", "warn", "reject", "fail"]
"""``ok``: checked, nothing is wrong. ``warn``: worth knowing, the result stands. ``reject``: the
measurement does not count. ``fail``: the run or the command cannot succeed."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    id: str
    """Stable: users type it after ``--accept``, and rows keep it."""
    severity: Severity
    """``reject`` takes the figures out of the result, ``fail`` ends the command; the others inform.
    """
    sentence: str = msgspec.field(name="message")
    """What is wrong, with the names and numbers at hand."""
    evidence: tuple[Place, ...] = ()
    """Lines of logs that show it; empty where it does not come from a log."""
    action: str | None = None
    """What to do; None where nothing is to be done."""
    accepted: bool = False
    """True where ``--accept ID`` overruled it; the tables mark it."""
