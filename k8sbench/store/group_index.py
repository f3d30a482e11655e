"""The groups of a store's runs, kept in the index.

A group is computed again when a run of its set is added, changed or removed, when another run has
the same log, and by another version of k8sbench.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from k8sbench import __version__
from k8sbench.json_decoders import decoder
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.series import Expected, Judged, Mark, Open, SeriesState, Snapshot, night_of
from k8sbench.store import index
from k8sbench.store.database import Database
from k8sbench.store.json_files import decode_json

MADE_BY = "groups_made_by"
"""Fact of the index: version of k8sbench that computed the groups."""
MOST_VALUES = 500
"""Values in one query; SQLite has a limit."""
_COLUMNS = ", ".join(f'"{name}"' for name in GroupRow._fields)
_STATE = "series"
"""Fact of the index: how far the series are judged."""
_SNAPSHOT = "series_snapshot"
"""Fact of the index: the series before the newest night; large, and read only to judge."""
_MARK = ("mark", "change", "p", "since", "together")
_OPEN = ("open", "open_change", "open_since")
_EXPECTED = Expected._fields
_NO_MARK, _NOT_OPEN, _NOT_EXPECTED = ((None,) * len(names) for names in (_MARK, _OPEN, _EXPECTED))
_OF_SERIES = ", ".join(("group_id", *_MARK, *_OPEN, *_EXPECTED))
_SERIES_PLACES = ", ".join("?" * (1 + len(_MARK) + len(_OPEN) + len(_EXPECTED)))
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
                _note_changed_series(db, name, [group.row for group in groups])
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
                # Its rule of a series may be another.
                _note_changed_night(db, 0)

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

    def series_state(self) -> SeriesState:
        """Return the progress of judging the series."""
        with self._database.reading() as db:
            return _state(db)

    def snapshot(self) -> Snapshot:
        """Return the series before the newest night that was judged."""
        with self._database.reading() as db:
            text = index.read_fact(db, _SNAPSHOT)
        return Snapshot() if text is None else decoder(Snapshot).decode(text)

    def put_judged(
        self,
        version: int,
        snapshot: Snapshot,
        judged: Mapping[str, Judged],
        revised: Mapping[str, Mark | None],
    ) -> bool:
        """Keep judgements of groups; False if groups have changed since."""
        with self._database.writing() as db:
            if _state(db).version != version:
                return False
            db.executemany(
                f"REPLACE INTO series ({_OF_SERIES}) VALUES ({_SERIES_PLACES})",  # noqa: S608
                [
                    (group_id, *_series_values(group_judged))
                    for group_id, group_judged in judged.items()
                ],
            )
            db.executemany(
                "UPDATE series SET mark = ?, change = ?, p = ?, since = ? WHERE group_id = ?",
                [(*(mark or _NO_MARK), group_id) for group_id, mark in revised.items()],
            )
            index.put_fact(db, _SNAPSHOT, msgspec.json.encode(snapshot).decode())
            _put_state(db, SeriesState(version=version))
        return True

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

    def logs(self) -> dict[str, dict[str, str | None]]:
        """Return the digests of the logs of all runs: set → run id → digest."""
        by_set: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        with self._database.reading() as db:
            query = "SELECT set_name, run_id, log_digest FROM runs ORDER BY created_at, run_id"
            for set_name, run_id, digest in db.execute(query):
                by_set[set_name][run_id] = digest
        return by_set

    def complete_runs(self) -> set[str]:
        """Return the ids of the runs that are over and measured."""
        with self._database.reading() as db:
            query = "SELECT run_id FROM runs WHERE closed AND verdict IS NOT NULL"
            return {run_id for (run_id,) in db.execute(query)}

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


def _note_changed_series(db: sqlite3.Connection, name: str, rows: Sequence[GroupRow]) -> None:
    """Note the night of a set if its part in the series changes."""
    query = f"SELECT {_COLUMNS} FROM groups WHERE set_name = ?"  # noqa: S608
    former = [GroupRow._make(row) for row in db.execute(query, (name,))]
    if {_part_in_series(row) for row in former} == {_part_in_series(row) for row in rows}:
        return
    gone = {row.group_id for row in former} - {row.group_id for row in rows}
    db.executemany("DELETE FROM series WHERE group_id = ?", [(group_id,) for group_id in gone])
    _note_changed_night(db, min(night_of(row.began) for row in (*former, *rows)))


def _note_changed_night(db: sqlite3.Connection, night: int) -> None:
    """Note the earliest night from which the series must be judged again."""
    state = _state(db)
    if state.changed is not None:
        night = min(night, state.changed)
    _put_state(db, SeriesState(version=state.version + 1, changed=night))


def _state(db: sqlite3.Connection) -> SeriesState:
    text = index.read_fact(db, _STATE)
    return SeriesState() if text is None else decoder(SeriesState).decode(text)


def _put_state(db: sqlite3.Connection, state: SeriesState) -> None:
    index.put_fact(db, _STATE, msgspec.json.encode(state).decode())


def _part_in_series(row: GroupRow) -> tuple[object, ...]:
    """Return the values that decide a group's part in the series of its case."""
    figures = (row.began, row.counted, row.median, row.deviation)
    return (row.group_id, *row.line, *figures, row.in_progress > 0, row.measures)


def _series_values(judged: Judged) -> tuple[object, ...]:
    return (
        *(judged.mark or _NO_MARK),
        *(judged.open or _NOT_OPEN),
        *(judged.expected or _NOT_EXPECTED),
    )


def _judged_of_row(row: sqlite3.Row) -> Judged:
    mark, open_change, expected = (
        tuple(row[name] for name in names) for names in (_MARK, _OPEN, _EXPECTED)
    )
    return Judged(
        None if mark[0] is None else Mark._make(mark),
        None if open_change[0] is None else Open._make(open_change),
        None if expected[0] is None else Expected._make(expected),
    )


def _versions(db: sqlite3.Connection) -> dict[str, int]:
    rows = db.execute("SELECT set_name, version FROM changed_sets")
    return {row["set_name"]: row["version"] for row in rows}
