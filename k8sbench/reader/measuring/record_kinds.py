"""Kinds of records, by their place in the run and the log before them.

Most records advance the iteration. The others are copies, iterations that a restarted program did
again, or a sign that the log holds two runs; each is a finding of its own.
"""

from __future__ import annotations

import enum

import msgspec


class RecordKind(enum.Enum):
    """Relation of a record to the log before it."""

    FIRST = enum.auto()
    """The first record that advances the iteration."""
    NEXT = enum.auto()
    """Advances the iteration."""
    NEW_EPOCH = enum.auto()
    """Advances the iteration and begins a new epoch."""
    DUPLICATE = enum.auto()
    """Copy of the record before."""
    REPEATED = enum.auto()
    """Part of a stretch that was printed twice, or that another rank printed."""
    REDONE = enum.auto()
    """Iterations done again, because the program was restarted."""
    BACK = enum.auto()
    """Goes back for an unknown cause."""


class Situation(msgspec.Struct, frozen=True, gc=False):
    """A record's place, beside the log before it."""

    position: int
    """Last iteration of the run that the record covers."""
    furthest: int
    """Last iteration of the run that an earlier record covered."""
    is_first: bool
    """True if no record has advanced the iteration yet."""
    is_new_epoch: bool
    replay: RecordKind | None
    """Kind of the current replay; None if the log advances."""
    restart: bool
    """True if the program or the file began anew just before the record."""
    is_opening: bool
    """True if the iteration is that of the log's first record."""
    has_stamp: bool
    is_older: bool
    """True if the stamp lies before the record before, and no earlier run explains that."""


def classify(record: Situation) -> RecordKind:
    """Return a record's kind."""
    if record.position > record.furthest or record.is_new_epoch:
        if record.is_first:
            return RecordKind.FIRST
        return RecordKind.NEW_EPOCH if record.is_new_epoch else RecordKind.NEXT
    if record.replay is not None:
        return record.replay
    if record.position == record.furthest and not record.restart:
        return RecordKind.DUPLICATE
    # Where nothing is stamped, a file that begins as the log began is a copy of it.
    if record.is_older or (record.restart and record.is_opening and not record.has_stamp):
        return RecordKind.REPEATED
    return RecordKind.REDONE if record.restart else RecordKind.BACK
