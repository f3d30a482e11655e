"""The groups of a store's runs, kept in the index.

A group is computed again when a run of its set is added, changed or removed, when another run has
the same log, and by another version of k8sbench.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench import __version__
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.series import (
    EACH_KEPT,
    NEWEST_KEPT,
    Alternation,
    Closed,
    Expected,
    Judged,
    Mark,
    NightState,
    Open,
)
from k8sbench.store import index
from k8sbench.store.database import Database
from k8sbench.store.json_files import decode_json

MADE_BY = "groups_made_by"
"""Fact of the index: version of k8sbench that computed the groups."""
MOST_VALUES = 500
"""Values in one query; SQLite has a limit."""
_COLUMNS = ", ".join(f'"{name}"' for name in GroupRow._fields)
_PARTS: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (Mark, ("mark", "change", "p", "since", "together")),
    (Open, ("open", "open_change", "open_since", "open_began")),
    (Expected, Expected._fields),
    (Closed, ("closed_since", "closed_began", "closed_by", "closed_at")),
    (Alternation, Alternation._fields),
)
"""Types of the fields of a judgement, and their columns; the first of one without it is NULL."""
_JUDGED = tuple(name for _, names in _PARTS for name in names)
_OF_SERIES = ", ".join(("group_id", *_JUDGED))
_SERIES_PLACES = ", ".join("?" * (2 + len(_JUDGED)))
_OF_MARK = ", ".join(f"{name} = ?" for name in _PARTS[0][1])
_PLACES = ", ".join("?" * (len(GroupRow._fields) + 1))


class GroupIndex:
    """Implements :class:`k8sbench.store.group_interface.GroupIndex`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_read_only(self) -> bool:
        """True if nothing can be kept."""
        return self._database.read_only is not None

    def changed_sets(self) -> dict[str, int]:
        """Return the sets whose groups are outdated, with the versions of their changes."""
        with self._database.reading() as db:
            changed = _versions(db)
            if index.read_fact(db, MADE_BY) != __version__:
                for (name,) in db.execute("SELECT DISTINCT set_name FROM runs"):
                    changed.setdefault(name, 0)
        return changed

    def open_sets(self) -> set[str]:
        """Return the sets with an open run, whose row may be behind its folder."""
        with self._database.reading() as db:
            # Without the hint all sets are read, in their order.
            query = "SELECT DISTINCT set_name FROM runs INDEXED BY runs_open WHERE NOT closed"
            return {name for (name,) in db.execute(query)}

    def put(
        self, groups_by_set: Mapping[str, Sequence[Group]], versions: Mapping[str, int]
    ) -> list[str]:
        """Keep the groups of some sets, without sets that have changed since ``versions``.

        Returns the names of the sets whose groups are kept.
        """
        kept_sets: list[str] = []
        with self._database.writing() as db:
            versions_now = _versions(db)
            for name, groups in groups_by_set.items():
                if versions_now.get(name, 0) != versions[name]:
                    continue
                db.execute("DELETE FROM groups WHERE set_name = ?", (name,))
                db.executemany(
                    f"INSERT INTO groups ({_COLUMNS}, record) VALUES ({_PLACES})",  # noqa: S608
                    [(*group.row, msgspec.json.encode(group)) for group in groups],
                )
                db.execute("DELETE FROM changed_sets WHERE set_name = ?", (name,))
                kept_sets.append(name)
        return kept_sets

    def note_version(self) -> None:
        """Record that this version of k8sbench computed all groups."""
        with self._database.writing() as db:
            if index.read_fact(db, MADE_BY) != __version__:
                index.put_fact(db, MADE_BY, __version__)

    def rows(self) -> list[GroupRow]:
        """Return the rows of all groups."""
        with self._database.reading() as db:
            cursor = db.cursor()
            cursor.row_factory = None  # half the time of a row with names
            rows = cursor.execute(f"SELECT {_COLUMNS} FROM groups ORDER BY began")  # noqa: S608
            return list(map(GroupRow._make, rows))

    def read_judged(self, ids: Collection[str]) -> dict[str, Judged]:
        """Return the judgements of groups by their series, by id; absent without one."""
        query = f"SELECT {_OF_SERIES} FROM series WHERE group_id"  # noqa: S608
        return {row["group_id"]: _judged_of_row(row) for row in self._select_in(query, ids)}

    def notable(self) -> set[str]:
        """Return the ids of the groups whose judgement is notable (:attr:`.Judged.is_notable`)."""
        with self._database.reading() as db:
            # As in the index: without it all judgements are read.
            query = (
                "SELECT group_id FROM series INDEXED BY series_notable"
                " WHERE mark IS NOT NULL OR closed_since IS NOT NULL OR low IS NOT NULL"
            )
            return {group_id for (group_id,) in db.execute(query)}

    def nights(self) -> list[NightState]:
        """Return the nights that were judged, without their states, oldest first."""
        with self._database.reading() as db:
            rows = db.execute("SELECT night, digest FROM nights ORDER BY night").fetchall()
        return [NightState(night, digest, None) for night, digest in rows]

    def night_state(self, night: int) -> bytes | None:
        """Return the series after a night; None if it is not kept."""
        with self._database.reading() as db:
            row = db.execute("SELECT state FROM nights WHERE night = ?", (night,)).fetchone()
        return None if row is None else row[0]

    def put_nights(
        self,
        after: int,
        nights: Sequence[NightState],
        judged: Mapping[str, tuple[int, Judged]],
        revised: Mapping[str, Mark | None],
    ) -> None:
        """Keep judgements of groups, and the nights in place of those after one."""
        with self._database.writing() as db:
            db.execute("DELETE FROM series WHERE night > ?", (after,))
            db.executemany(
                f"REPLACE INTO series (night, {_OF_SERIES}) VALUES ({_SERIES_PLACES})",  # noqa: S608
                [
                    (night, group_id, *_series_values(group_judged))
                    for group_id, (night, group_judged) in judged.items()
                ],
            )
            db.executemany(
                f"UPDATE series SET {_OF_MARK} WHERE group_id = ?",  # noqa: S608
                [(*_part(mark, _PARTS[0][1]), group_id) for group_id, mark in revised.items()],
            )
            db.execute("DELETE FROM nights WHERE night > ?", (after,))
            db.executemany("INSERT INTO nights VALUES (?, ?, ?)", nights)
            newest = "SELECT night FROM nights ORDER BY night DESC LIMIT ?"
            db.execute(
                f"UPDATE nights SET state = NULL WHERE night % ? AND night NOT IN ({newest})",  # noqa: S608
                (EACH_KEPT, NEWEST_KEPT),
            )

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id."""
        return {
            group_id: decode_json(record, Group, f"The row of group {group_id}")
            for group_id, record in self._select_in(
                "SELECT group_id, record FROM groups WHERE group_id", ids
            )
        }

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""
        rows = self._select_in("SELECT DISTINCT set_name FROM runs WHERE run_id", run_ids)
        return {name for (name,) in rows}

    def runs_with_logs(self, digests: Collection[str]) -> dict[str, str]:
        """Return the runs with logs of some digests: run id → digest."""
        rows = self._select_in("SELECT run_id, log_digest FROM runs WHERE log_digest", digests)
        return dict(tuple(row) for row in rows)

    def created(self) -> dict[str, dict[str, float]]:
        """Return the creation of all runs, Unix seconds: set → run id → time."""
        by_set: defaultdict[str, dict[str, float]] = defaultdict(dict)
        with self._database.reading() as db:
            query = "SELECT set_name, run_id, created_at FROM runs ORDER BY created_at, run_id"
            for set_name, run_id, created_at in db.execute(query):
                by_set[set_name][run_id] = created_at
        return by_set

    def _select_in(self, query: str, values: Iterable[str]) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query whose last column has one of some values."""
        remaining = list(values)
        while remaining:
            batch = remaining[:MOST_VALUES]
            remaining = remaining[MOST_VALUES:]
            places = ", ".join("?" * len(batch))
            with self._database.reading() as db:
                rows = db.execute(f"{query} IN ({places})", batch).fetchall()
            yield from rows


def _series_values(judged: Judged) -> Iterator[object]:
    for value, (_, names) in zip(judged, _PARTS, strict=True):
        yield from _part(value, names)


def _part(value: tuple[object, ...] | None, names: Sequence[str]) -> tuple[object, ...]:
    return (None,) * len(names) if value is None else value


def _judged_of_row(row: sqlite3.Row) -> Judged:
    parts = [(made_of, [row[name] for name in names]) for made_of, names in _PARTS]
    return Judged(*(None if of[0] is None else made_of(*of) for made_of, of in parts))


def _versions(db: sqlite3.Connection) -> dict[str, int]:
    rows = db.execute("SELECT set_name, version FROM changed_sets")
    return {row["set_name"]: row["version"] for row in rows}
