"""Judgements of the sets of a store over time.

The index keeps them, with a snapshot before the newest night: a new set is judged from there on.
Sets that the index does not keep (some of their runs go on, or are an operator's) are judged in
memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from k8sbench.measure.group import nights
from k8sbench.model.errors import StoreError
from k8sbench.model.group import GroupRow
from k8sbench.model.series import UNJUDGED, Judged, Line, night_of
from k8sbench.store.group_interface import GroupIndex


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
        accepted: Mapping[Line, float],
    ) -> None:
        self._index = index
        self._accepted = accepted
        self._played: nights.Played | None = None
        """Sets that were judged in memory."""
        begins = [night_of(row.began) for row in unkept if nights.counts(row)]
        if (changed := self._judge_kept()) is not None:
            begins.append(changed)
        if begins:
            self._played = nights.play(rows, min(begins), index.snapshot(), accepted)

    def _judge_kept(self) -> int | None:
        """Judge the sets of the index that have changed, and keep that where it can be written.

        Returns the earliest night with a change that is not kept; None without one.
        """
        state = self._index.series_state()
        if state.changed is None or self._index.is_read_only:
            return state.changed
        snapshot = self._index.snapshot()
        played = nights.play(self._index.rows(), state.changed, snapshot, self._accepted)
        with contextlib.suppress(StoreError):
            self._index.put_judged(state.version, played.snapshot, played.judged, played.revised)
        return self._index.series_state().changed

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
        return {row.group_id: self._shown(row, found.get(row.group_id, UNJUDGED)) for row in rows}

    def _shown(self, row: GroupRow, judged: Judged) -> Judged:
        """Leave out what is open if its level was accepted later."""
        if judged.open is not None and row.began <= self._accepted.get(row.line, -1.0):
            return judged._replace(open=None)
        return judged
