"""Numbered copies of a database that a rebuild is about to change; the last few are kept.

Of SQLite they are files beside the database: ``k8sbench.db.backup-1``, ``-2``, … Of PostgreSQL they
are tables beside its tables, made in the rebuild's own transaction: they are there if it was done.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

from k8sbench.adapters.store import disk

KEPT = 5
"""How many stay; the oldest go."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite writes beside a database."""
TABLES = ("runs", "transitions")


def keep_files(database: Path) -> Path:
    """Copy the file of a SQLite database, which may be damaged, and those beside it as they are."""
    copy = _next(database)
    for suffix in SIDE_FILES:
        side = database.with_name(database.name + suffix)
        if side.exists():
            shutil.copy(side, copy.with_name(copy.name + suffix))
    shutil.copy(database, _half(copy))
    return _put(copy)


def keep_sqlite(database: Path) -> Path:
    """Copy what is committed of a sound SQLite database, also while a transaction goes on."""
    copy = _next(database)
    disk.create(_half(copy)).close()
    with (
        contextlib.closing(sqlite3.connect(database)) as source,
        contextlib.closing(sqlite3.connect(_half(copy))) as target,
    ):
        source.backup(target)
    return _put(copy)


def keep_tables(db: sa.Connection) -> str:
    """Copy the tables of a PostgreSQL database, within a transaction; returns their names."""
    found = sa.inspect(db).get_table_names()
    numbers = _numbers(found, f"{TABLES[0]}_backup_")
    number = max(numbers, default=0) + 1
    for old in sorted([*numbers, number])[:-KEPT]:
        for table in TABLES:
            db.execute(sa.text(f"DROP TABLE IF EXISTS {table}_backup_{old}"))
    for table in TABLES:
        db.execute(sa.text(f"CREATE TABLE {table}_backup_{number} AS TABLE {table}"))
    return " and ".join(f"{table}_backup_{number}" for table in TABLES)


def remove(database: Path) -> None:
    """Remove the file of a SQLite database and those beside it."""
    for suffix in ("", *SIDE_FILES):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _next(database: Path) -> Path:
    """Return the name of the next copy; nothing is left there of one that was never finished."""
    copy = database.with_name(f"{database.name}.backup-{max(_copies(database), default=0) + 1}")
    remove(copy)
    remove(_half(copy))
    return copy


def _half(copy: Path) -> Path:
    return copy.with_name(f".{copy.name}.tmp")


def _put(copy: Path) -> Path:
    _half(copy).replace(copy)
    database = copy.with_name(copy.name.rpartition(".backup-")[0])
    for old in sorted(_copies(database))[:-KEPT]:
        remove(database.with_name(f"{database.name}.backup-{old}"))
    return copy


def _copies(database: Path) -> list[int]:
    return _numbers((path.name for path in database.parent.iterdir()), f"{database.name}.backup-")


def _numbers(names: Iterable[str], begin: str) -> list[int]:
    matches = (re.fullmatch(rf"{re.escape(begin)}([1-9][0-9]*)", name) for name in names)
    return [int(match[1]) for match in matches if match]
