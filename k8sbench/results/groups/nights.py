"""The nights of a store: the sets that count, in the order in which they are judged.

The series after a night may be kept, with a digest of all that decided about it. A new set is
judged from the newest night on that nothing changed. :mod:`~k8sbench.results.groups.series` judges
a night.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench import __version__
from k8sbench.model.group import GroupRow
from k8sbench.model.series import (
    DAY,
    EACH_KEPT,
    NEWEST_KEPT,
    Acceptance,
    Judged,
    Line,
    Mark,
    NightState,
    night_of,
)
from k8sbench.results.groups import series
from k8sbench.results.groups.case_state import State


def counts(row: GroupRow) -> bool:
    """True if a set's figure is part of the series of its case."""
    return row.figure is not None and row.measures == "speed" and not row.in_progress


def newest(rows: Iterable[GroupRow]) -> dict[Line, GroupRow]:
    """Return the newest set of each case that counts."""
    return {row.line: row for row in sorted(filter(counts, rows), key=lambda row: row.began)}


def by_night(rows: Iterable[GroupRow]) -> dict[int, list[GroupRow]]:
    """Return the rows that count by their night, a day (UTC) since 1970; oldest first.

    A set belongs to the night in which its first case began.
    """
    return of_each(row for row in rows if counts(row))


def of_each(rows: Iterable[GroupRow]) -> dict[int, list[GroupRow]]:
    """Return rows by their night, whether or not they count; oldest first."""
    rows = list(rows)
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
    """The nights of a store that were judged."""

    judged: dict[str, Judged]
    """By group id."""
    revised: dict[str, Mark | None]
    """Marks of earlier sets that may have changed, by group id."""
    after: int
    """Night from whose state on they were judged; -1 from the beginning."""
    nights: tuple[NightState, ...]
    """The judged nights, oldest first."""
    is_kept: bool
    """True if all of it is kept already."""
    of_night: dict[str, int]
    """Nights of the judged sets, by group id."""


def play(
    rows: Iterable[GroupRow],
    accepted: Mapping[Line, Acceptance] | None = None,
    kept: Iterable[NightState] = (),
    state_of: Callable[[int], bytes | None] = lambda _: None,
) -> Played:
    """Judge the nights of a store, from the newest one on that is kept and that nothing changed.

    ``accepted``: the newest acceptance of each case.
    ``state_of`` returns the series after a night that is kept with one.
    """
    accepted = accepted or {}
    kept = list(kept)
    nights = by_night(rows)
    digests = _digests(nights, accepted)
    known = {night.night: night.digest for night in kept}
    fitting = [
        night
        for night, digest in itertools.takewhile(
            lambda each: known.get(each[0]) == each[1], digests.items()
        )
    ]
    newest = kept[-1].night if kept else -1
    if len(fitting) == len(nights) and fitting[-1:] == [newest]:
        return Played({}, {}, newest, (), is_kept=True, of_night={})
    begin, state = _resume(fitting, state_of)
    judge = series.Judge(state, accepted)
    played: list[NightState] = []
    of_night: dict[str, int] = {}
    left = [(night, some) for night, some in nights.items() if night > begin]
    for place, (night, some) in enumerate(left):
        judge.night(some)
        of_night |= {row.group_id: night for row in some}
        is_kept = len(left) - place <= NEWEST_KEPT or night % EACH_KEPT == 0
        encoded = msgspec.msgpack.encode(judge.state()) if is_kept else None
        played.append(NightState(night, digests[night], encoded))
    return Played(
        judged=judge.judged,
        revised={
            group_id: mark
            for group_id, mark in judge.revised.items()
            if group_id not in judge.judged
        },
        after=begin,
        nights=tuple(played),
        is_kept=not played and newest == begin,
        of_night=of_night,
    )


def _digests(
    nights: Mapping[int, Sequence[GroupRow]], accepted: Mapping[Line, Acceptance]
) -> dict[int, str]:
    """Return the digest of all that decides about each night and those before, by night."""
    accepted_by_night: dict[int, list[object]] = {}
    for line, acceptance in sorted(accepted.items()):
        accepted_by_night.setdefault(night_of(acceptance.began), []).append((line, acceptance))
    digest = hashlib.sha256(__version__.encode())
    found: dict[int, str] = {}
    for night, rows in nights.items():
        parts = [(row.group_id, row.line, row.began, row.figure) for row in rows]
        levels = [accepted_by_night[at] for at in sorted(accepted_by_night) if at <= night]
        for at in [at for at in accepted_by_night if at <= night]:
            del accepted_by_night[at]
        digest.update(msgspec.msgpack.encode((night, parts, levels)))
        found[night] = digest.hexdigest()[:16]
    return found


def _resume(
    fitting: Sequence[int], state_of: Callable[[int], bytes | None]
) -> tuple[int, State | None]:
    """Return the newest fitting night whose series is kept, and the series after it."""
    for night in reversed(fitting):
        if (state := state_of(night)) is not None:
            return night, _STATE.decode(state)
    return -1, None


_STATE = msgspec.msgpack.Decoder(State)
"""Made once: two threads crash msgspec where both resolve a type."""


def judge(
    rows: Iterable[GroupRow], accepted: Mapping[Line, Acceptance] | None = None
) -> dict[str, Judged]:
    """Judge all sets of a store; return them by group id."""
    return play(rows, accepted).judged
