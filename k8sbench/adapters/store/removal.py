"""Taking things out of a store: whole runs, and what old runs have printed.

A run's folder is put into ``removed/`` with one rename, then its row goes, then the folder. Killed
between the first two, the run is a row without a folder: the same removal ends it, and moving the
folder back undoes it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from k8sbench.adapters.store import artifacts, disk, index, run_logs
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.run_store import SqlStore
from k8sbench.model.measurement import SCHEMA

REMOVED = "removed"
"""Folder of the store with what is being removed."""
PRUNED = "pruned.json"
SERIES = "gpu/*.jsonl"


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """``pruned.json``: what was removed of a run's logs and series, when, and by which rule."""

    schema: int = SCHEMA
    """Version of the document."""
    at: float
    """Unix seconds."""
    rule: str
    """``--keep-logs-for 90d``."""
    files: int
    """Files that were removed."""
    bytes: int
    """Their size."""


def remove(store: SqlStore, run_id: str) -> None:
    """Remove a run that is over: its row and, where it is here, its folder."""
    folder, aside = store.root / artifacts.RUNS / run_id, store.root / REMOVED / run_id
    with store.database.writing() as db, disk.translated(f"remove {folder}"):
        if folder.exists():
            disk.make_folder(aside.parent)
            if aside.exists():
                shutil.rmtree(aside)
            folder.rename(aside)
        index.delete(db, run_id)
    _sweep(store)


def _sweep(store: SqlStore) -> None:
    """Delete what was put aside of runs that have no row any more, whoever removed them."""
    with disk.translated(f"empty {store.root / REMOVED}"), store.database.reading() as db:
        for folder in store.root.glob(f"{REMOVED}/*"):
            if not index.has(db, folder.name):
                shutil.rmtree(folder)


def logged(root: Path) -> list[str]:
    """List the runs that have logs or series here."""
    with disk.translated(f"read {root / artifacts.RUNS}"):
        folders = sorted(path.parent for path in root.glob(f"{artifacts.RUNS}/*/run.json"))
        return [folder.name for folder in folders if _printed(folder)]


def _printed(folder: Path) -> list[Path]:
    return [path for pattern in (f"{run_logs.LOGS}/*", SERIES) for path in folder.glob(pattern)]


def prune(store: SqlStore, run_id: str, *, at: float, rule: str, dry_run: bool = False) -> Pruned:
    """Remove the logs and series of a run that is over; says so in its folder first."""
    folder = RunFolder(store.folder(run_id))
    with disk.translated(f"remove the logs in {folder.path}"):
        printed = _printed(folder.path)
        sizes = [path.stat().st_size for path in printed]
        removed = Pruned(at=at, rule=rule, files=len(sizes), bytes=sum(sizes))
        if dry_run:
            return removed
        if pruned(folder.path) is None:
            folder.keep(PRUNED, removed)
        for path in folder.path.glob(SERIES):
            path.unlink()
        if (logs := folder.path / run_logs.LOGS).exists():
            shutil.rmtree(logs)
    return removed


def pruned(folder: Path) -> Pruned | None:
    """Return what was removed of a run's logs; None if nothing was."""
    return RunFolder(folder).read(PRUNED, Pruned)
