"""Opening a store, and updating its index from the folders.

A store is a folder with a SQLite index, or a PostgreSQL database by its URL. The folders are the
truth. On SQLite every run has its folder here: opening the store adds the rows of folders that have
none, and deletes those whose folders are gone; where the store can only be read the index is made
in memory. On PostgreSQL each machine has the folders of some runs, and only a reindex writes rows.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from k8sbench.adapters.store import artifacts, database, disk, index
from k8sbench.adapters.store.database import DamagedDatabase, Database, NotWritable
from k8sbench.adapters.store.run_store import SqlStore
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.run import Run

__all__ = ["SqlStore", "open_store"]

STORE_VARIABLE = "K8SBENCH_STORE"
FILE_VARIABLE = "K8SBENCH_STORE_FILE"
"""Names a file with the URL: a mounted Secret with a rotated password."""


def open_store(
    where: str | None = None, *, create: bool = True, folder: Path | None = None
) -> SqlStore:
    """Open a store: a folder, or a ``postgresql://`` URL.

    Without ``where`` it is ``$K8SBENCH_STORE``, else what the file ``$K8SBENCH_STORE_FILE`` holds
    now, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``folder`` is
    where a PostgreSQL store keeps the runs' folders; by default that same data folder.
    """
    root = _place(where)
    if isinstance(root, str):
        return opened(database.open_postgres(root), folder or _folder())
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        runs = (root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")
        if not (root / database.DATABASE).exists() and not any(runs):
            if not create:
                store = opened(database.open_memory(str(root)), root)
                store.absent = True
                return store
            disk.make_folder(root / artifacts.RUNS)
        try:
            return opened(database.open_sqlite(root), root)
        except NotWritable as why:
            store = opened(database.open_memory(str(root)), root)
            store.database.read_only = why
            return store


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
            f"Name a folder, or a postgresql:// URL, with --store or {STORE_VARIABLE}.",
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
        if store.has_all_folders:
            _follow_folders(store)
    except BaseException:
        base.close()
        raise
    return store


def reindex(store: SqlStore) -> tuple[int, dict[str, str]]:
    """Rebuild the index from the runs' folders.

    On PostgreSQL only the rows of runs whose folders are here. Returns the number of runs in the
    index, and unreadable runs by id with the reason.
    """
    store.unreadable.clear()
    with alone(store) as db:
        if store.has_all_folders:
            index.clear(db)
        else:
            store.load(db, index.ROWS)
        index_folders(store, db, artifacts.run_ids(store.root))
        return len(index.ids(db)), dict(sorted(store.unreadable.items()))


def delete_damaged_index(where: str | None) -> None:
    """Delete a store's SQLite database if damaged or outdated."""
    root = _place(where)
    if isinstance(root, Path) and (root / database.DATABASE).is_file():
        with disk.locked(root):
            if not _is_sound(root):
                _delete_database(root)


def _is_sound(root: Path) -> bool:
    """Return True for a SQLite database of this layout without damage."""
    base = database.open_sqlite(root)
    with contextlib.closing(base), contextlib.suppress(DamagedDatabase), base.reading() as db:
        index.layout(db)
        db.execute(index.ROWS.limit(1))  # an error where a table or a column is gone
        return str(db.exec_driver_sql("PRAGMA quick_check(1)").scalar()) == "ok"
    return False


def _delete_database(root: Path) -> None:
    path = root / database.DATABASE
    with disk.translated(f"delete {path}"):
        # The write-ahead log first, so that it is not applied to a new file.
        for suffix in ("-wal", "-shm", "-journal", ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def index_folders(store: SqlStore, db: sa.Connection, run_ids: Iterable[str]) -> None:
    """Index folders again; :attr:`SqlStore.unreadable` lists failures."""
    for folder in map(store.run_folder, sorted(run_ids)):
        run_id = folder.path.name
        if not folder.holds_a_run:
            continue
        row = db.execute(index.RUN, {"id": run_id}).mappings().first()
        try:
            run = folder.run()
            if row is not None and not store.has_all_folders:
                run = _newer(run, row)
            index.add(db, index.of_run(run, store.here))
        except (StoreError, ValueError) as damage:
            store.unreadable[run_id] = str(damage)
        else:
            store.unreadable.pop(run_id, None)


def _newer(kept: Run, row: sa.RowMapping) -> Run:
    """Return the run of a folder, or of its row if that has more.

    Another machine may have continued the run. Open requests to its cluster are in the row.
    """
    kept = replace(kept, wishes=artifacts.pertinent(index.wishes_of(row), kept.phase))
    try:
        known = index.run_of(row)
    except StoreError:
        return kept
    is_continued = kept.history[: len(known.history)] == known.history
    is_less = known.measurement is not None and kept.measurement is None
    return kept if is_continued and not is_less else known


def _follow_folders(store: SqlStore) -> None:
    """Index new folders, and delete the rows of missing ones."""
    with store.database.reading() as db:
        known = set(index.ids(db))
    there = artifacts.run_ids(store.root)
    new = {run_id for run_id in there - known if store.run_folder(run_id).holds_a_run}
    if new or known - there:
        with store.database.writing() as db:
            index_folders(store, db, new)
            for run_id in known - there:
                # Checked again under the lock: an import may have put it there.
                if not store.run_folder(run_id).path.exists():
                    index.delete(db, run_id)


@contextlib.contextmanager
def alone(store: SqlStore) -> Iterator[sa.Connection]:
    """Run a transaction over many rows, excluding other writers."""
    with store.database.writing() as db:
        if store.database.kind == "postgresql":
            db.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield db
