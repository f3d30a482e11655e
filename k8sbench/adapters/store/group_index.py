"""The groups of a store, made of its runs once and kept in the index.

A group is made anew when a run of its set changes, comes or goes, when another run has the same
log, and by another version of k8sbench.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from k8sbench import __version__
from k8sbench.adapters.store import index
from k8sbench.adapters.store.artifacts import decoded
from k8sbench.adapters.store.database import Database
from k8sbench.model.group import Group, GroupRow

MADE_BY = "groups_made_by"
"""Fact of the index: the version of k8sbench that has made the groups."""
MOST_VALUES = 500
"""Values in one query; SQLite has a limit."""
_COLUMNS = ", ".join(f'"{name}"' for name in GroupRow._fields)
_PLACES = ", ".join("?" * (len(GroupRow._fields) + 1))


class GroupIndex:
    """Implements :class:`k8sbench.ports.GroupIndex`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def changed_sets(self) -> dict[str, int]:
        """Return the sets whose groups are to be made anew, with the versions of the changes."""
        with self._database.reading() as db:
            changed = _versions(db)
            if index.fact(db, MADE_BY) != __version__:
                for (name,) in db.execute("SELECT DISTINCT set_name FROM runs"):
                    changed.setdefault(name, 0)
        return changed

    def open_sets(self) -> set[str]:
        """Return the sets with a run that goes on, whose row may be behind its folder."""
        with self._database.reading() as db:
            query = "SELECT DISTINCT set_name FROM runs WHERE NOT closed"
            return {name for (name,) in db.execute(query)}

    def put(self, made: Mapping[str, Sequence[Group]], versions: Mapping[str, int]) -> list[str]:
        """Keep the groups of some sets, less those that have changed since their versions.

        Returns the names of the sets whose groups are kept.
        """
        kept: list[str] = []
        with self._database.writing() as db:
            known = _versions(db)
            for name, groups in made.items():
                if known.get(name, 0) != versions[name]:
                    continue
                db.execute("DELETE FROM groups WHERE set_name = ?", (name,))
                db.executemany(
                    f"INSERT INTO groups ({_COLUMNS}, record) VALUES ({_PLACES})",  # noqa: S608
                    [(*group.row, msgspec.json.encode(group)) for group in groups],
                )
                db.execute("DELETE FROM changed_sets WHERE set_name = ?", (name,))
                kept.append(name)
        return kept

    def made_by_this_version(self) -> None:
        """Record that all groups are made by this version of k8sbench."""
        with self._database.writing() as db:
            if index.fact(db, MADE_BY) != __version__:
                index.put_fact(db, MADE_BY, __version__)

    def rows(self) -> list[GroupRow]:
        """Return the rows of all groups."""
        with self._database.reading() as db:
            cursor = db.cursor()
            cursor.row_factory = None  # half the time of a row with names
            found = cursor.execute(f"SELECT {_COLUMNS} FROM groups ORDER BY began")  # noqa: S608
            return list(map(GroupRow._make, found))

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id."""
        return {
            group_id: decoded(record, Group, f"The row of group {group_id}")
            for group_id, record in self._found(
                "SELECT group_id, record FROM groups WHERE group_id", ids
            )
        }

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""
        found = self._found("SELECT DISTINCT set_name FROM runs WHERE run_id", run_ids)
        return {name for (name,) in found}

    def runs_with_logs(self, digests: Collection[str]) -> set[str]:
        """Return the ids of the runs with logs of some digests."""
        found = self._found("SELECT run_id FROM runs WHERE log_digest", digests)
        return {run_id for (run_id,) in found}

    def _found(self, query: str, values: Iterable[str]) -> Iterator[sqlite3.Row]:
        """Yield the rows in which the last column of a query is one of some values."""
        left = list(values)
        while left:
            some = left[:MOST_VALUES]
            left = left[MOST_VALUES:]
            places = ", ".join("?" * len(some))
            with self._database.reading() as db:
                rows = db.execute(f"{query} IN ({places})", some).fetchall()
            yield from rows


def _versions(db: sqlite3.Connection) -> dict[str, int]:
    found = db.execute("SELECT set_name, version FROM changed_sets")
    return {row["set_name"]: row["version"] for row in found}
