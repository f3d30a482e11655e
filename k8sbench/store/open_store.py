"""Opens a store: finds its folder, and brings its index up to date or rebuilds it.

Where the store can only be read, a missing or outdated index is rebuilt in memory.
:mod:`.indexing` has the rules.
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
from k8sbench.store import database, disk, index, indexing, run_folder
from k8sbench.store.database import DamagedDatabase, NotWritable
from k8sbench.store.indexing import Tell
from k8sbench.store.sql_store import SqlStore

STORE_VARIABLE = "K8SBENCH_STORE"


def open_store(
    where: str | None = None, *, create: bool = True, tell: Tell = lambda _: None
) -> SqlStore:
    """Open the store of a folder.

    Without ``where`` it is ``$K8SBENCH_STORE``, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``tell`` gets
    the progress of an index that is rebuilt.
    """
    root = store_folder(where)
    with disk.translate_errors(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        has_index = (root / database.DATABASE).exists() or database.other_indexes(root)
        if not has_index and not any((root / run_folder.RUNS).glob(f"*/{run_folder.RUN_FILE}")):
            if not create:
                store = _open_in_memory(root, None, tell)
                store.absent = True
                return store
            disk.make_folder(root / run_folder.RUNS)
        try:
            return _open_writable(root, tell)
        except NotWritable as error:
            return _open_to_read(root, error, tell)


def store_folder(place: str | None) -> Path:
    """Return the folder of a store by its place; None: the variable's, or that for users' data."""
    place = None if place == LOCAL else place
    # The value may end with a line feed of a file or Secret.
    place = place if place is not None else os.environ.get(STORE_VARIABLE, "").strip() or None
    if place is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place):
        raise UsageError(  # without the URL: it may hold a password
            "--store or K8SBENCH_STORE names a URL. A store is a folder.",
            "Name a folder; read the operator's store with --store cluster.",
        )
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if place is not None:
            if not place.strip() or "\0" in place:
                raise RuntimeError("It is empty, or holds a NUL.")
            return Path(place).expanduser().absolute()
        # The XDG specification says to ignore a relative path.
        base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError as error:  # no home
        raise UsageError(
            f"{'The home folder' if place is None else repr(place)} cannot name a store: {error}",
            f"Name a folder with --store or {STORE_VARIABLE}.",
        ) from error
    return base / "k8sbench"


def recorded_names(where: str | None, beginning: str, kinds: Collection[str]) -> list[str]:
    """Return sets and runs whose names begin so, the newest first.

    ``kinds`` are ``set``, ``run`` or both. The index is read as it is: nothing is made, built or
    looked up in folders. Raises :class:`StoreError` if there is none that can be read.
    """
    root = store_folder(where)
    if not (root / database.DATABASE).exists():
        return []
    base = database.open_to_read(root)
    try:
        with base.reading() as db:
            index.check_layout(db)
            return [name for kind in kinds for name in index.names_beginning(db, kind, beginning)]
    finally:
        base.close()


def _open_writable(root: Path, tell: Tell) -> SqlStore:
    """Open a store that can be written; build its index if it is missing or damaged."""
    try:
        with disk.lock_folder(root, is_shared=True, tell=tell):
            base = indexing.open_index(root)
    except DamagedDatabase:
        indexing.build_index(root, tell, is_forced=False)
        base = indexing.open_index(root)
    store = SqlStore(base, root)
    try:
        _index_changed_folders(store, tell)
    except BaseException:
        base.close()
        raise
    return store


def _open_to_read(root: Path, error: NotWritable, tell: Tell) -> SqlStore:
    """Open a store that can only be read; its index in memory unless the file is current."""
    with contextlib.suppress(StoreError):
        if (root / database.DATABASE).exists() and not indexing.indexes_of_other_versions(root):
            base = database.open_to_read(root)
            store = SqlStore(base, root)
            with base.reading() as db:
                if index.check_layout(db) and indexing.is_current(db, root):
                    store.unreadable |= index.damaged_runs(db)
                    return store
            base.close()
    return _open_in_memory(root, error, tell)


def _open_in_memory(root: Path, error: NotWritable | None, tell: Tell) -> SqlStore:
    """Open a store with an index in memory; ``error``: why its folder cannot be written."""
    base = database.open_memory(str(root))
    store = SqlStore(base, root)
    store.unreadable |= indexing.fill_index(base, root, tell)
    base.read_only = error
    return store


def reindex(where: str | None, tell: Tell = lambda _: None) -> tuple[Path, int, dict[str, str]]:
    """Rebuild the index of a store, even a damaged one.

    Returns the store's folder, the number of its runs, and the reasons why runs and Benchmark
    objects cannot be read, by their names. Raises :class:`UsageError` if there is no store.
    """
    from k8sbench.store.benchmark_objects import StoredObjects  # reads the catalog

    root = store_folder(where)
    if not (root / run_folder.RUNS).is_dir():
        raise UsageError(
            f"There is no store in {root} yet.", "k8sbench submit BENCHMARK makes one."
        )
    if (root / database.DATABASE).exists():
        with contextlib.suppress(DamagedDatabase):
            indexing.open_index(root).close()  # raises for the database of another program
    unreadable = indexing.build_index(root, tell, is_forced=True)
    unreadable |= StoredObjects(root, time.time).mark_open()
    with open_store(str(root), create=False) as store:
        return root, len(store.ids()), unreadable


def _index_changed_folders(store: SqlStore, tell: Tell) -> None:
    """Index new, missing and formerly damaged folders; note those that are damaged."""
    with store.database.reading() as db:
        damaged = index.damaged_runs(db)
        is_current = indexing.is_current(db, store.root)
    if damaged or not is_current:
        with store.database.writing() as db:
            if not is_current:
                indexing.index_changes(db, store.root, tell)
            # Somebody may have mended them.
            indexing.index_folders(db, store.root, damaged)
            damaged = index.damaged_runs(db)
    store.unreadable |= damaged
