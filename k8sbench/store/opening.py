"""Opening a store: its place, and an index that follows the runs' folders.

A missing or damaged index is built anew, in a new file that then takes its place; where the store
can only be read, in memory. Versions of k8sbench with other tables have an index of their own, and
each deletes those of others when it builds its own. One beside it therefore shows that another
version has used the store since, so that the folders may be ahead: it is built anew, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection
from pathlib import Path

from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.request import LOCAL
from k8sbench.store import artifacts, database, disk, following, index
from k8sbench.store.database import DamagedDatabase, Database, NotWritable
from k8sbench.store.following import Tell
from k8sbench.store.sql_store import SqlStore

STORE_VARIABLE = "K8SBENCH_STORE"
NEW = "index.new"
"""File in which an index is built."""


def open_store(
    where: str | None = None, *, create: bool = True, tell: Tell = lambda _: None
) -> SqlStore:
    """Open the store of a folder.

    Without ``where`` it is ``$K8SBENCH_STORE``, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``tell`` is
    told how far an index is that is built anew.
    """
    root = folder(where)
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        has_index = (root / database.DATABASE).exists() or database.others(root)
        if not has_index and not any((root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")):
            if not create:
                store = _in_memory(root, None, tell)
                store.absent = True
                return store
            disk.make_folder(root / artifacts.RUNS)
        try:
            return _opened(root, tell)
        except NotWritable as why:
            return _to_read(root, why, tell)


def folder(named: str | None) -> Path:
    """Return the folder that is named, or the default for users' data."""
    named = None if named == LOCAL else named
    # The value may end with a line feed of a file or Secret.
    named = named if named is not None else os.environ.get(STORE_VARIABLE, "").strip() or None
    if named is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", named):
        raise UsageError(  # without the URL: it may hold a password
            "--store or K8SBENCH_STORE names a URL. A store is a folder.",
            "Name a folder; read the operator's store with --store cluster.",
        )
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
            f"{'The home folder' if named is None else repr(named)} cannot name a store: {error}",
            f"Name a folder with --store or {STORE_VARIABLE}.",
        ) from error
    return base / "k8sbench"


def recorded_names(where: str | None, beginning: str, kinds: Collection[str]) -> list[str]:
    """Return sets and runs whose names begin so, the newest first.

    ``kinds`` are ``set``, ``run`` or both. The index is read as it is: nothing is made, built or
    looked up in folders. Raises :class:`StoreError` if there is none that can be read.
    """
    root = folder(where)
    if not (root / database.DATABASE).exists():
        return []
    base = database.open_to_read(root)
    try:
        with base.reading() as db:
            index.layout(db)
            return [name for kind in kinds for name in index.names(db, kind, beginning)]
    finally:
        base.close()


def _opened(root: Path, tell: Tell) -> SqlStore:
    """Open a store that can be written; build its index if it is missing or damaged."""
    try:
        with disk.locked(root, is_shared=True, tell=tell):
            base = _current(root)
    except DamagedDatabase:
        _build(root, tell, is_forced=False)
        base = _current(root)
    store = SqlStore(base, root)
    try:
        _follow_folders(store, tell)
    except BaseException:
        base.close()
        raise
    return store


def _current(root: Path) -> Database:
    """Open the index; raises :class:`DamagedDatabase` unless it is sound, and the only one."""
    if not (root / database.DATABASE).exists():
        raise DamagedDatabase(f"The store {root} has no index.")
    if _others(root):
        raise DamagedDatabase(f"Another version of k8sbench has used the store {root}.")
    base = database.open_file(root)
    try:
        with base.reading() as db:
            if index.layout(db) == 0:
                raise DamagedDatabase(f"The index of the store {root} is empty.")
    except BaseException:
        base.close()
        raise
    return base


def _others(root: Path) -> list[str]:
    """Return the names of the indexes of other versions of k8sbench; not of other programs."""
    found = []
    for name in database.others(root):
        base = database.open_to_read(root, name)
        with contextlib.closing(base), contextlib.suppress(StoreError), base.reading() as db:
            if index.is_ours(db):
                found.append(name)
    return found


def _build(root: Path, tell: Tell, *, is_forced: bool) -> dict[str, str]:
    """Build the index anew from the runs' folders, unless another process has just done so.

    Returns the reasons why runs cannot be read, by run id.
    """
    database.check_writable(root)
    with disk.locked(root, tell=tell):
        if not is_forced:
            with contextlib.suppress(DamagedDatabase):
                _current(root).close()
                return {}
        database.delete_file(root, NEW)
        base = database.open_file(root, NEW)
        try:
            base.set_journal(database.journal_mode(database.file_system(root)))
            unreadable = _fill(base, root, tell)
        except BaseException:
            base.close()
            database.delete_file(root, NEW)
            raise
        base.close()
        with disk.translated(f"replace {root / database.DATABASE}"):
            database.delete_file(root)
            (root / NEW).rename(root / database.DATABASE)
            for name in _others(root):
                database.delete_file(root, name)
        disk.sync_folder(root)
        return unreadable


def _fill(base: Database, root: Path, tell: Tell) -> dict[str, str]:
    """Fill an empty database from the runs' folders; returns the damaged ones."""
    with base.writing() as db:
        index.create(db)
        following.note(db, root)
        following.index_folders(db, root, artifacts.run_ids(root), tell)
        return index.damaged(db)


def _to_read(root: Path, why: NotWritable, tell: Tell) -> SqlStore:
    """Open a store that can only be read; its index in memory unless the file is current."""
    with contextlib.suppress(StoreError):
        if (root / database.DATABASE).exists() and not _others(root):
            base = database.open_to_read(root)
            store = SqlStore(base, root)
            with base.reading() as db:
                if index.layout(db) and following.is_current(db, root):
                    store.unreadable |= index.damaged(db)
                    return store
            base.close()
    return _in_memory(root, why, tell)


def _in_memory(root: Path, why: NotWritable | None, tell: Tell) -> SqlStore:
    base = database.open_memory(str(root))
    store = SqlStore(base, root)
    store.unreadable |= _fill(base, root, tell)
    base.read_only = why
    return store


def reindex(where: str | None, tell: Tell = lambda _: None) -> tuple[Path, int, dict[str, str]]:
    """Build the index of a store anew, also a damaged one.

    Returns the store's folder, the number of its runs, and the reasons why runs and Benchmark
    objects cannot be read, by their names. Raises :class:`UsageError` if there is no store.
    """
    from k8sbench.store.benchmark_objects import StoredObjects  # reads the catalog

    root = folder(where)
    if not (root / artifacts.RUNS).is_dir():
        raise UsageError(
            f"There is no store in {root} yet.", "k8sbench submit BENCHMARK makes one."
        )
    if (root / database.DATABASE).exists():
        with contextlib.suppress(DamagedDatabase):
            _current(root).close()  # raises for the database of another program
    unreadable = _build(root, tell, is_forced=True)
    unreadable |= StoredObjects(root, time.time).mark_open()
    with open_store(str(root), create=False) as store:
        return root, len(store.ids()), unreadable


def _follow_folders(store: SqlStore, tell: Tell) -> None:
    """Let the index follow the folders; note the damaged ones."""
    with store.database.reading() as db:
        damaged = index.damaged(db)
        is_current = following.is_current(db, store.root)
    if damaged or not is_current:
        with store.database.writing() as db:
            if not is_current:
                following.follow(db, store.root, tell)
            # Somebody may have mended them.
            following.index_folders(db, store.root, damaged)
            damaged = index.damaged(db)
    store.unreadable |= damaged
