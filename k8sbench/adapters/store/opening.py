"""Opening a store: its place, and an index that follows the runs' folders.

The place is a folder, or for an operator a database's URL beside a folder. Opening adds the rows of
folders that have none, and deletes those whose folders are gone. A missing, old or damaged SQLite
index is made anew; where the store can only be read, in memory.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, disk, index
from k8sbench.adapters.store.index import DamagedDatabase, Database, NotWritable
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model.errors import StoreError, UsageError

STORE_VARIABLE = "K8SBENCH_STORE"
FILE_VARIABLE = "K8SBENCH_STORE_FILE"
"""Names a file with the URL: a mounted Secret with a rotated password."""


def open_store(
    where: str | None = None, *, create: bool = True, is_operator: bool = False
) -> SqlStore:
    """Open a store: a folder, for an operator also a ``postgresql://`` URL.

    Without ``where`` it is ``$K8SBENCH_STORE``, else what the file ``$K8SBENCH_STORE_FILE`` holds
    now, else ``$XDG_DATA_HOME/k8sbench``, which also has the folders of a database. With
    ``create=False`` a place without a store reads as an empty one, and is not made.
    """
    root = _place(where)
    # The file is mounted in an operator's pod, where people run commands on its store.
    if isinstance(root, str) and (is_operator or FILE_VARIABLE in os.environ):
        return opened(index.open_postgres(root), _folder())
    root = _own(root)
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        runs = (root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")
        if not (root / index.DATABASE).exists() and not any(runs):
            if not create:
                store = opened(index.open_memory(str(root)), root)
                store.absent = True
                return store
            disk.make_folder(root / artifacts.RUNS)
        try:
            try:
                return opened(index.open_sqlite(root), root)
            except DamagedDatabase:
                delete_damaged_index(where)
                return opened(index.open_sqlite(root), root)
        except NotWritable as why:
            store = opened(index.open_memory(str(root)), root)
            store.database.read_only = why
            return store


def _own(place: Path | str) -> Path:
    """Return the folder of a store that is not an operator's."""
    if isinstance(place, Path):
        return place
    raise UsageError(  # without the URL: it may hold a password
        "--store or K8SBENCH_STORE names a database, which is the store of an operator alone.",
        "Name a folder for your own runs; read the operator's with --store cluster.",
    )


def _place(where: str | None) -> Path | str:
    """Return the folder or the database URL of ``--store``."""
    if where is None:
        # The value may end with a line feed of a file or Secret.
        where = os.environ.get(STORE_VARIABLE, "").strip() or None
        file = os.environ.get(FILE_VARIABLE)
        if where is None and file:
            with disk.translated(f"read {file} ({FILE_VARIABLE})"):
                where = Path(file).read_text(encoding="utf-8").strip()
    if where is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
        return where
    return _folder(where)


def _folder(named: str | None = None) -> Path:
    """Return a named folder, or the default for users' data."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if named is not None:
            if not named.strip() or "\0" in named:
                raise RuntimeError("It is empty, or holds a NUL.")
            return Path(named).expanduser().absolute()
        # The XDG specification says to ignore a relative path.
        base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError as error:  # no home
        raise UsageError(
            f"{named or 'The home folder'!r} cannot name a store: {error}",
            f"Name a folder with --store or {STORE_VARIABLE}.",
        ) from error
    return base / "k8sbench"


def opened(base: Database, root: Path) -> SqlStore:
    """Open a store on a database; create missing tables."""
    store = SqlStore(base, root)
    try:
        with base.reading() as db:
            is_empty = index.layout(db) == 0
        if is_empty:
            with base.writing() as db:
                index.create(db)
        _follow_folders(store)
    except BaseException:
        base.close()
        raise
    return store


def reindex(store: SqlStore) -> tuple[int, dict[str, str]]:
    """Rebuild the index from the runs' folders.

    Returns the number of runs in the index, and unreadable runs by id with the reason.
    """
    store.unreadable.clear()
    with store.database.writing() as db:
        index.clear(db)
        index_folders(store, db, artifacts.run_ids(store.root))
        return len(index.ids(db)), dict(sorted(store.unreadable.items()))


def delete_damaged_index(where: str | None) -> None:
    """Delete a store's SQLite database if damaged or outdated."""
    root = _own(_place(where))
    path = root / index.DATABASE
    if path.is_file():
        with disk.locked(root), disk.translated(f"delete {path}"):
            if not _is_sound(root):
                # The write-ahead log first, so that it is not applied to a new file.
                for suffix in ("-wal", "-shm", "-journal", ""):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)


def _is_sound(root: Path) -> bool:
    """Return True for a SQLite database of this layout without damage."""
    base = index.open_sqlite(root)
    with contextlib.closing(base), contextlib.suppress(DamagedDatabase), base.reading() as db:
        index.layout(db)
        db.execute(index.ROWS.limit(1))  # an error where a table or a column is gone
        return str(db.exec_driver_sql("PRAGMA quick_check(1)").scalar()) == "ok"
    return False


def index_folders(store: SqlStore, db: sa.Connection, run_ids: Iterable[str]) -> None:
    """Index folders again; :attr:`SqlStore.unreadable` lists failures."""
    for folder in map(store.run_folder, sorted(run_ids)):
        run_id = folder.path.name
        if not folder.holds_a_run:
            continue
        try:
            index.put(db, folder.run())
        except (StoreError, ValueError) as damage:
            store.unreadable[run_id] = str(damage)
        else:
            store.unreadable.pop(run_id, None)


def _follow_folders(store: SqlStore) -> None:
    """Index new folders, and delete a cache's rows of missing ones."""
    with store.database.reading() as db:
        known = set(index.ids(db))
    there = artifacts.run_ids(store.root)
    new = {run_id for run_id in there - known if store.run_folder(run_id).holds_a_run}
    gone = known - there if store.is_cache else set()
    if new or gone:
        with store.database.writing() as db:
            index_folders(store, db, new)
            for run_id in gone:
                # Checked again under the lock: an import may have put it there.
                if not store.run_folder(run_id).path.exists():
                    index.delete(db, run_id)
