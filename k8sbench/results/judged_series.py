"""Judgements of the sets of a store over time.

The index keeps them night by night, as a cache: a digest says whether a night still holds, and any
command may delete them. Sets that the index does not keep, because some of their runs go on, are
judged in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from k8sbench.model.errors import StoreError
from k8sbench.model.group import GroupRow
from k8sbench.model.series import UNJUDGED, Acceptance, AcceptedLevel, Closed, Judged, Line
from k8sbench.results.groups import nights
from k8sbench.store.group_interface import GroupIndex


def acceptances(
    levels: Iterable[AcceptedLevel], rows: Iterable[GroupRow]
) -> dict[Line, Acceptance]:
    """Return the newest acceptance of each case with an accepted level.

    ``rows`` tell which cases had another name when their levels were accepted.
    """
    accepted = {level.line: Acceptance(level.began, level.accepted_at) for level in levels}
    former: dict[Line, Acceptance] = {}
    for row in rows if accepted else ():
        for line in accepted.keys() & row.former_lines:
            former[row.line] = max(accepted[line], former.get(row.line, accepted[line]))
    return former | accepted


class JudgedSeries:
    """Judges the sets of a store.

    ``unkept`` are those of the rows that the index does not have, and those that it has in place of
    them.
    """

    def __init__(
        self,
        index: GroupIndex,
        rows: Sequence[GroupRow],
        unkept: Iterable[GroupRow],
        accepted: Mapping[Line, Acceptance],
    ) -> None:
        self._index = index
        self._accepted = accepted
        self._played: nights.Played | None = None
        """Nights that were judged, and are not kept."""
        others = any(map(nights.counts, unkept))
        played = self._play(index.rows() if others else rows)
        if not self._keep(played) and not others:
            self._played = played
        if others:
            self._played = self._play(rows)

    def _play(self, rows: Sequence[GroupRow]) -> nights.Played:
        """Judge the nights that are not kept, or have changed."""
        return nights.play(rows, self._accepted, self._index.nights(), self._index.night_state)

    def _keep(self, played: nights.Played) -> bool:
        """Keep what was judged, where the store can be written."""
        if played.is_kept:
            return True
        if self._index.is_read_only:
            return False
        judged = {name: (played.of_night[name], one) for name, one in played.judged.items()}
        with contextlib.suppress(StoreError):
            self._index.put_nights(played.after, played.nights, judged, played.revised)
            return True
        return False

    def judged(self, rows: Iterable[GroupRow]) -> dict[str, Judged]:
        """Return what the series say of some sets, by group id."""
        rows = list(rows)
        new = {} if self._played is None else self._played.judged
        found = self._index.read_judged([row.group_id for row in rows if row.group_id not in new])
        if self._played is not None:
            for group_id, mark in self._played.revised.items():
                if group_id in found:
                    found[group_id] = found[group_id]._replace(mark=mark)
        found |= {row.group_id: new[row.group_id] for row in rows if row.group_id in new}
        return with_acceptances(rows, found, self._accepted)

    def notable(self, rows: Iterable[GroupRow]) -> dict[str, Judged]:
        """Return the judgements of some sets that are notable, by group id, in the rows' order."""
        ids = self._index.notable()
        if self._played is not None:
            ids |= self._played.judged.keys() | self._played.revised.keys()
        # The set of an accepted level closes what is open.
        some = (row for row in rows if row.group_id in ids or row.line in self._accepted)
        return notable(self.judged(some))


def notable(judged: Mapping[str, Judged]) -> dict[str, Judged]:
    """Return the judgements that are notable."""
    return {group_id: each for group_id, each in judged.items() if each.is_notable}


def with_acceptances(
    rows: Iterable[GroupRow], judged: Mapping[str, Judged], accepted: Mapping[Line, Acceptance]
) -> dict[str, Judged]:
    """Return the judgements of some sets by group id, closed where their level was accepted."""
    return {
        row.group_id: _closed(row, judged.get(row.group_id, UNJUDGED), accepted.get(row.line))
        for row in rows
    }


def _closed(row: GroupRow, judged: Judged, accepted: Acceptance | None) -> Judged:
    """Close what is open if its level was accepted later: with the set that was accepted."""
    if judged.open is None or accepted is None or row.began > accepted.began:
        return judged
    closed = judged.closed
    if row.began == accepted.began:
        closed = Closed(judged.open.since, judged.open.began, "person", accepted.at)
    return judged._replace(open=None, closed=closed)
