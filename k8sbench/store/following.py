"""The index follows the runs' folders.

The folders are listed only if their list has changed since the index last followed it, which the
system's time of that change says: a process was killed, or somebody copied or deleted a folder.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from k8sbench.model.errors import StoreError
from k8sbench.model.plain_text import share
from k8sbench.store import artifacts, disk, index
from k8sbench.store.artifacts import RUNS, RunFolder
from k8sbench.store.port import EVERY_RUN

FOLDERS = "folders"
"""Fact of the index: the generation of the folders that it has rows of."""

SHOWN_SECONDS = 5.0
"""Interval of lines of progress."""
Tell = Callable[[str], None]
"""Shows progress to people."""


def generation(root: Path) -> str:
    """Return what changes whenever a run's folder comes or goes."""
    absent = (FileNotFoundError, NotADirectoryError)
    with disk.translated(f"read {root / RUNS}"), contextlib.suppress(*absent):
        about = (root / RUNS).stat()
        return f"{about.st_ino} {about.st_mtime_ns}"
    return ""


def is_current(db: sqlite3.Connection, root: Path) -> bool:
    """Return True if no folder came or went since the index last followed them."""
    return index.fact(db, FOLDERS) == generation(root)


def note(db: sqlite3.Connection, root: Path) -> None:
    """Record that the index has a row for each folder that there is now."""
    index.put_fact(db, FOLDERS, generation(root))


def follow(db: sqlite3.Connection, root: Path, tell: Tell = lambda _: None) -> None:
    """Index new folders, and delete the rows of missing ones; tell how far it is."""
    # Before the list is read: what comes later is followed by the next one.
    note(db, root)
    known = {*index.ids(db, EVERY_RUN), *index.damaged(db)}
    there = artifacts.run_ids(root)
    index_folders(db, root, there - known, tell)
    for run_id in known - there:
        index.delete(db, run_id)


def index_folders(
    db: sqlite3.Connection, root: Path, run_ids: Iterable[str], tell: Tell = lambda _: None
) -> None:
    """Index folders again, and tell how far it is; note unreadable ones as damaged."""
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
