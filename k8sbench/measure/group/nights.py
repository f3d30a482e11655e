"""The nights of a store: the sets that count, in the order in which they are judged.

A new set is judged from a snapshot before the newest night on; one of an earlier night, from the
beginning. :mod:`~k8sbench.measure.group.series` judges a night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from k8sbench.measure.group import series
from k8sbench.model.group import GroupRow
from k8sbench.model.series import DAY, Judged, Line, Mark, Snapshot, night_of


def counts(row: GroupRow) -> bool:
    """True if a set's figure is part of the series of its case."""
    return row.median is not None and row.measures == "speed" and not row.in_progress


def newest(rows: Iterable[GroupRow]) -> dict[Line, GroupRow]:
    """Return the newest set of each case that counts."""
    return {row.line: row for row in sorted(filter(counts, rows), key=lambda row: row.began)}


def by_night(rows: Iterable[GroupRow]) -> dict[int, list[GroupRow]]:
    """Return the rows that count by their night, a day (UTC) since 1970; oldest first.

    A set belongs to the night in which its first case began.
    """
    rows = [row for row in rows if counts(row)]
    begins: dict[str, float] = {}
    for row in rows:
        begins[row.set_name] = min(row.began, begins.get(row.set_name, row.began))
    found: dict[int, list[GroupRow]] = {}
    for row in sorted(rows, key=lambda row: (row.began, row.group_id)):
        begin = begins[row.set_name]
        # Cases that were added on a later day are of that night.
        at = begin if row.began - begin < DAY else row.began
        found.setdefault(night_of(at), []).append(row)
    return dict(sorted(found.items()))


class Played(NamedTuple):
    """The sets of a store that were judged, from a snapshot on."""

    judged: dict[str, Judged]
    """By group id."""
    revised: dict[str, Mark | None]
    """Marks of earlier sets that may have changed, by group id."""
    snapshot: Snapshot
    """Taken before the newest night."""


def play(
    rows: Iterable[GroupRow],
    changed: int,
    snapshot: Snapshot,
    accepted: Mapping[Line, float] | None = None,
) -> Played:
    """Judge the nights since the snapshot of a store, or all if an earlier one has changed.

    ``changed`` is the earliest night that has changed. ``accepted``: begin of the newest set whose
    level is accepted, by case, Unix seconds.
    """
    begin = -1 if snapshot.night is None or changed <= snapshot.night else snapshot.night
    cases = _decoded(snapshot.cases) if begin >= 0 else {}
    judge = series.Judge(cases, accepted)
    revised: dict[str, Mark | None] = {}
    for case in cases.values():
        revised |= case.known_marks()
    played = [(at, night) for at, night in by_night(rows).items() if at > begin]
    before = None if begin < 0 else begin
    encoded = snapshot.cases
    for place, (at, night) in enumerate(played):
        if place == len(played) - 1:
            encoded = msgspec.json.encode(list(judge.cases.items()))
        else:
            before = at
        judge.night(night)
    made = Snapshot(night=before, cases=encoded)
    return Played(judge.judged, revised | judge.revised, made)


_CASES = msgspec.json.Decoder(list[tuple[Line, series.CaseState]])
"""Made once: two threads crash msgspec where both resolve a type."""


def _decoded(cases: bytes) -> dict[Line, series.CaseState]:
    return dict(_CASES.decode(cases))


def judge(
    rows: Iterable[GroupRow], accepted: Mapping[Line, float] | None = None
) -> dict[str, Judged]:
    """Judge all sets of a store; return them by group id."""
    return play(rows, 0, Snapshot(), accepted).judged
