"""Logs that become runs: copied into ``incoming`` of the store, measured, put in their places.

A run that is imported has the files of any other, so listing, exporting and rebuilding need not
know of it. Its logs stay as they were: no time is put in front of lines whose coming nobody saw.
``imported.json`` says which files they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from k8sbench.adapters.files.log_files import LogFile
from k8sbench.adapters.store import disk, exchange
from k8sbench.adapters.store.artifacts import RUNS, RunFolder
from k8sbench.adapters.store.run_logs import LOG_SUFFIX, LOGS
from k8sbench.adapters.store.run_store import SqlStore
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import Run

IMPORTED = "imported.json"
receiving = exchange.unpacking


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One log that was imported."""

    name: str
    """As results name it: relative to what was given."""
    kept_as: str
    """Path of the copy below the run's folder."""
    bytes: int
    """Size of the copy."""
    sha256: str
    """SHA-256 of the copy."""


class ImportedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """``imported.json``: the logs that a run was made of."""

    schema: int = SCHEMA
    """Version of the document."""
    imported_at: float
    """Unix seconds."""
    files: tuple[ImportedFile, ...]
    """The logs."""


def copied(incoming: Path, number: int, logs: Mapping[str, str | None]) -> tuple[ImportedFile, ...]:
    """Copy the logs of one run, by path and name, unpacked and otherwise as they are.

    Raises :class:`~k8sbench.model.errors.InputError` for one that cannot be read.
    """
    found = []
    folder = _folder(incoming, number)
    with disk.translated(f"make {folder}"):
        disk.make_folder(folder / LOGS)
    for index, (path, name) in enumerate(logs.items()):
        kept_as = f"{LOGS}/log-{index}{LOG_SUFFIX}"
        log = LogFile(path, name)
        digest, size = hashlib.sha256(), 0
        # What is measured is the copy: standard input can be read only once.
        with disk.whole_file(folder / kept_as) as file:
            for piece in log.unpacked():
                digest.update(piece)
                size += len(piece)
                file.write(piece)
        found.append(
            ImportedFile(name=log.name, kept_as=kept_as, bytes=size, sha256=digest.hexdigest())
        )
    return tuple(found)


def path_of(incoming: Path, number: int, file: ImportedFile) -> str:
    """Where the copy of a log lies until its run is put in its place."""
    return str(_folder(incoming, number) / file.kept_as)


def known_digests(store: SqlStore, runs: Iterable[Run]) -> dict[str, Run]:
    """The SHA-256 of the logs that were imported before, as far as their runs' files are here."""
    known: dict[str, Run] = {}
    for run in runs:
        for file in _imported(store.root / RUNS / run.run_id) if run.is_imported else ():
            known.setdefault(file.sha256, run)
    return known


def add(
    store: SqlStore,
    incoming: Path,
    runs: Sequence[tuple[int, Run, tuple[ImportedFile, ...]]],
) -> list[Run]:
    """Put runs whose logs were copied into the store: all of them, or none.

    Returns which were given another repeat number.
    """
    added = list[str]()
    for number, run, files in runs:
        folder = RunFolder(_folder(incoming, number))
        logs = ImportedLogs(imported_at=run.created_at, files=files)
        folder.keep(IMPORTED, logs)
        folder.adopt(run)
        with disk.translated(f"write {folder.path}"):
            folder.path.rename(incoming / run.run_id)
        added.append(run.run_id)
    return exchange.put_in_place(store, incoming, added)


def _imported(folder: Path) -> tuple[ImportedFile, ...]:
    logs = RunFolder(folder).read(IMPORTED, ImportedLogs)
    return () if logs is None else logs.files


def _folder(incoming: Path, number: int) -> Path:
    return incoming / f"import-{number}"
