"""What a log says, before anyone computes with it.

Parsing turns lines into *records* (one printed training line each), *evaluations*, *facts* (what
the log tells of its own run: batch, GPUs, versions) and *marks* (AI-Rank events, checkpoints,
restarts, the log's own summary). Numbers stand here as printed, with what they are per; scaling
them to the whole job is measuring, not parsing.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where something was read: evidence."""

    file: str
    line: int
    """1-based."""
    text: str = ""
    """The line, cut to 240 characters, internal addresses and user paths redacted."""
