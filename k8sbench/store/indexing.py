"""Keeps the index equal to the runs' folders, and rebuilds it from them.

The folders are listed only if their list has changed since the index last followed it, which the
system's time of that change says: a process was killed, or somebody copied or deleted a folder.

A missing or damaged index is rebuilt in a new file that then takes its place. Versions of k8sbench
with other tables have an index of their own, and each deletes those of others when it builds its
own. An index of another version therefore shows that this version has used the store since, so that
the folders may be ahead: then, too, the index is rebuilt.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from k8sbench.model.errors import StoreError
from k8sbench.model.plain_text import share
from k8sbench.store import database, disk, index, run_folder
from k8sbench.store.database import DamagedDatabase, Database
from k8sbench.store.interface import EVERY_RUN
from k8sbench.store.run_folder import RUNS, RunFolder

NEW = "index.new"
"""File in which an index is built."""
FOLDERS = "folders"
"""Fact of the index: the generation of the folders that it has rows of."""

SHOWN_SECONDS = 5.0
"""Interval of lines of progress."""
Tell = Callable[[str], None]
"""Shows progress to people."""


def folders_generation(root: Path) -> str:
    """Return a text that changes whenever a run's folder comes or goes."""
    absent = (FileNotFoundError, NotADirectoryError)
    with disk.translate_errors(f"read {root / RUNS}"), contextlib.suppress(*absent):
        status = (root / RUNS).stat()
        return f"{status.st_ino} {status.st_mtime_ns}"
    return ""


def is_current(db: sqlite3.Connection, root: Path) -> bool:
    """Return True if no folder came or went since the index last followed them."""
    return index.read_fact(db, FOLDERS) == folders_generation(root)


def note_generation(db: sqlite3.Connection, root: Path) -> None:
    """Record that the index has a row for each folder that there is now."""
    index.put_fact(db, FOLDERS, folders_generation(root))


def index_changes(db: sqlite3.Connection, root: Path, tell: Tell = lambda _: None) -> None:
    """Index new folders, and delete the rows of missing ones; ``tell`` gets the progress."""
    # Before the list is read: the next call indexes what comes later.
    note_generation(db, root)
    indexed = {*index.ids(db, EVERY_RUN), *index.damaged_runs(db)}
    folders = run_folder.run_ids(root)
    index_folders(db, root, folders - indexed, tell)
    for run_id in indexed - folders:
        index.delete(db, run_id)


def index_folders(
    db: sqlite3.Connection, root: Path, run_ids: Iterable[str], tell: Tell = lambda _: None
) -> None:
    """Index folders, also again; note unreadable ones as damaged. ``tell`` gets the progress."""
    names = sorted(run_ids)
    told_at = time.monotonic()
    for number, run_id in enumerate(names):
        if time.monotonic() - told_at >= SHOWN_SECONDS:
            told_at = time.monotonic()
            tell(f"indexing the store {root}: {share(number, len(names), 'run')}")
        folder = RunFolder(root / RUNS / run_id)
        if not folder.holds_a_run:
            continue
        try:
            index.put(db, folder.run())
        except (StoreError, ValueError) as damage:
            index.put_damaged(db, run_id, str(damage))


def open_index(root: Path) -> Database:
    """Open the index; raises :class:`DamagedDatabase` unless it is sound and the only one."""
    if not (root / database.DATABASE).exists():
        raise DamagedDatabase(f"The store {root} has no index.")
    if indexes_of_other_versions(root):
        raise DamagedDatabase(f"Another version of k8sbench has used the store {root}.")
    base = database.open_file(root)
    try:
        with base.reading() as db:
            if index.check_layout(db) == 0:
                raise DamagedDatabase(f"The index of the store {root} is empty.")
    except BaseException:
        base.close()
        raise
    return base


def indexes_of_other_versions(root: Path) -> list[str]:
    """Return the index files of other versions of k8sbench, without those of other programs."""
    names = []
    for name in database.other_indexes(root):
        base = database.open_to_read(root, name)
        with contextlib.closing(base), contextlib.suppress(StoreError), base.reading() as db:
            if index.is_ours(db):
                names.append(name)
    return names


def build_index(root: Path, tell: Tell, *, is_forced: bool) -> dict[str, str]:
    """Rebuild the index from the runs' folders, unless another process has just done so.

    Returns the reasons why runs cannot be read, by run id.
    """
    database.check_writable(root)
    with disk.lock_folder(root, tell=tell):
        if not is_forced:
            with contextlib.suppress(DamagedDatabase):
                open_index(root).close()
                return {}
        database.delete_file(root, NEW)
        base = database.open_file(root, NEW)
        try:
            base.set_journal(database.journal_mode(database.file_system(root)))
            unreadable = fill_index(base, root, tell)
        except BaseException:
            base.close()
            database.delete_file(root, NEW)
            raise
        base.close()
        with disk.translate_errors(f"replace {root / database.DATABASE}"):
            database.delete_file(root)
            (root / NEW).rename(root / database.DATABASE)
            for name in indexes_of_other_versions(root):
                database.delete_file(root, name)
        disk.sync_folder(root)
        return unreadable


def fill_index(base: Database, root: Path, tell: Tell) -> dict[str, str]:
    """Fill an empty database from the runs' folders; return the damaged ones with reasons."""
    with base.writing() as db:
        index.create(db)
        note_generation(db, root)
        index_folders(db, root, run_folder.run_ids(root), tell)
        return index.damaged_runs(db)
