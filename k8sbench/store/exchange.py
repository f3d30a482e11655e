"""Import, export and removal of runs, and removal of old logs.

Runs go from one store to another as a compressed tar file of their folders.

::

    accepted-levels.json     the levels that were accepted
    series-ranges.json       the ranges of series
    runs/<run id>/…          the files of one run after the other

An import unpacks beside ``runs/`` and moves all runs to their places at the end. Of the levels and
ranges it adds those of cases that have none. The file may come from anybody: a member that is not a
plain file of a run, or one of these two, is refused.

A run that is made of logs has the same files as any other, so listing, exporting and reindexing
need not know of it. Its logs are copied unchanged: their lines get no time stamps, because nobody
saw when they arrived. ``imported.json`` lists the files.

To remove a run, its folder is moved into ``removed/``, then its row is deleted, then the folder.
After a kill between the first two steps the run is a row without a folder, which the next command
deletes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, Self

import msgspec

from k8sbench.model.errors import BenchError, InputError, NotFound, StoreError, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.names import checked_set_name
from k8sbench.model.plan import Backend
from k8sbench.model.run import Run
from k8sbench.store import (
    disk,
    index,
    indexing,
    json_files,
    run_folder,
    series_files,
)
from k8sbench.store.interface import RunFilter
from k8sbench.store.run_folder import LOG_SUFFIX, LOGS, RunFolder
from k8sbench.store.sql_store import REINDEX, SqlStore

IMPORTED = "imported.json"
INCOMING = "incoming"
"""Folder of the store in which an import unpacks."""
_MEMBER = re.compile(
    r"runs/[a-z][a-z0-9.-]*/((logs|gpu)/)?(?!wishes\.json$)[A-Za-z0-9][A-Za-z0-9._-]*"
)
"""A run's file in an export; imported runs of 0.5.0 may have a dot in their ids.

Requests to the cluster are the store's own and not exported.
"""
_OF_STORE = (series_files.LEVELS.name, series_files.RANGES.name)
"""Files of the store itself that an export has, if they are there."""
_FILES = {tarfile.REGTYPE, tarfile.AREGTYPE}
LONGEST_NAME = 1024
"""Maximum length in bytes of a member's name that has a header of its own."""
MOST_BYTES = 64 << 20
"""Maximum size of a file that is read whole: not logs or series."""
REMOVED = "removed"
"""Folder of the store with what is being removed."""
PRUNED = "pruned.json"
SERIES = "gpu/*.jsonl"
LEVEL = 6
"""Compression level; 9 takes twice as long and saves 1 % of a log."""


def export_runs(store: SqlStore, run_ids: Sequence[str], out: BinaryIO) -> None:
    """Write ended runs with all their files to a stream, and what is kept of their cases."""
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name in _OF_STORE:
            with contextlib.suppress(FileNotFoundError):
                tar.add(store.root / name, name, filter=_filter_member)
        for run_id in run_ids:
            folder = store.folder(run_id)
            with disk.translate_errors(f"read {folder}"):
                tar.add(folder, f"{run_folder.RUNS}/{run_id}", filter=_filter_member)
            tar.members.clear()  # type: ignore[attr-defined]  # it keeps every header otherwise


def _filter_member(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Remove the owner from a file; drop links and files of others."""
    is_file = info.isreg() and (info.name in _OF_STORE or _MEMBER.fullmatch(info.name))
    if not (is_file or (info.isdir() and info.name.split("/")[2:] in ([], [LOGS], ["gpu"]))):
        return None
    info.uid, info.gid, info.uname, info.gname = 0, 0, "", ""
    return info


def import_runs(store: SqlStore, file: BinaryIO, shown: str) -> tuple[list[str], list[str]]:
    """Add the runs of an export: all of them, or none.

    Returns the ids that were added, and those that the store had already.
    """

    of_store: dict[str, bytes] = {}

    def unpack(incoming: Path) -> None:
        try:
            of_store.update(_unpack(incoming, file))
        # Headers of names, one after the other, are read recursively.
        except (EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error, RecursionError) as error:
            raise InputError(
                f"It is cut off or damaged, or was not written by k8sbench store export: {error}.",
                "Nothing was imported. Export it again, or copy it again.",
                file=shown,
            ) from error

    def add_kept() -> None:
        if (levels := of_store.get(series_files.LEVELS.name)) is not None:
            store.add_levels(series_files.LEVELS.decode(levels, shown))
        if (ranges := of_store.get(series_files.RANGES.name)) is not None:
            store.fix_ranges(series_files.RANGES.decode(ranges, shown))

    return import_folders(store, unpack, shown, add_kept)


def import_folders(
    store: SqlStore,
    fill: Callable[[Path], None],
    shown: str,
    add_kept: Callable[[], None] = lambda: None,
) -> tuple[list[str], list[str]]:
    """Add all runs that ``fill`` puts into a folder, or none.

    ``add_kept`` adds what is kept of their cases before they are there: a range is fixed with the
    first look at them. Returns the ids that were added, and those that the store had already.
    """
    with open_incoming(store.root) as incoming:
        fill(incoming)
        run_ids = sorted(path.name for path in incoming.iterdir())
        with store.changing_folders():  # indexes what a killed import has left
            pass
        known = _find_in_store(store, incoming, run_ids, shown)
        added = [run_id for run_id in run_ids if run_id not in known]
        os.sync()
        add_kept()
        move_into_store(store, {run_id: incoming / run_id for run_id in added})
    return added, known


class _Header(tarfile.TarInfo):
    """A header of an export; any other is refused before what follows it is read.

    Extended headers (PAX) and sparse files are refused with it: their few bytes can announce a file
    of any size.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        is_name = info.type == tarfile.GNUTYPE_LONGNAME and info.size <= LONGEST_NAME
        is_known = is_name or info.isdir() or info.type in _FILES
        if not is_known or info.size < 0:
            raise tarfile.TarError(f"{info.name!r} does not belong there")
        return info


def _unpack(incoming: Path, file: BinaryIO) -> dict[str, bytes]:
    """Unpack all runs into ``incoming``; return the files of the store itself."""
    of_store: dict[str, bytes] = {}
    with (
        gzip.GzipFile(fileobj=file, mode="rb") as packed,
        tarfile.open(fileobj=packed, mode="r|", tarinfo=_Header) as tar,
    ):
        # Python before 3.11.4, which Debian 12 has, knows no filters; all names are checked here.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        for info in tar:
            if info.name in _OF_STORE and info.name not in of_store:
                of_store[info.name] = _read_member(tar, info)
            elif not info.isdir():
                _extract(tar, info, incoming)
            tar.members.clear()  # type: ignore[attr-defined]  # it keeps every header otherwise
        # Read to the end, where the checksum is compared.
        while packed.read(1 << 20):
            pass
    if not any(incoming.iterdir()):
        raise tarfile.TarError("it holds no run")
    return of_store


def _read_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    """Read a member whole; raises TarError for one that is no file, or too large."""
    file = tar.extractfile(info) if info.size <= MOST_BYTES else None
    if file is None:
        raise tarfile.TarError(f"{info.name!r} does not belong there")
    return file.read()


def _extract(tar: tarfile.TarFile, info: tarfile.TarInfo, incoming: Path) -> None:
    """Unpack one file of a run; raises TarError for other members."""
    match = _MEMBER.fullmatch(info.name)
    path = incoming / (info.name.removeprefix(f"{run_folder.RUNS}/") if match else "")
    if path.exists() or (path.parent.parent == incoming and info.size > MOST_BYTES):
        raise tarfile.TarError(f"{info.name!r} does not belong there")
    disk.make_folder(path.parent)
    info.name = str(path.relative_to(incoming))
    tar.extract(info, incoming, set_attrs=False)
    path.chmod(0o600)


@contextlib.contextmanager
def open_incoming(root: Path) -> Iterator[Path]:
    """Provide an empty folder of the store to one import at a time.

    Runs are built there first, so that a killed import changes nothing. It is empty afterwards.
    """
    incoming = root / INCOMING
    with disk.translate_errors(f"unpack into {incoming}"):
        disk.make_folder(incoming)
        with disk.lock_folder(incoming):
            remove_folders(incoming)  # of an import that was killed
            try:
                yield incoming
            finally:
                remove_folders(incoming)


def remove_folders(folder: Path) -> None:
    """Remove the folders in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path)


def _find_in_store(
    store: SqlStore, incoming: Path, run_ids: Sequence[str], shown: str
) -> list[str]:
    """Return the runs that the store has already.

    A run of the same id with other content is an error.
    """
    found = []
    for run_id in run_ids:
        run = _read_ended_run(RunFolder(incoming / run_id))
        if run is None:
            raise InputError(
                f"Run {run_id} is damaged, had not ended, or is of another version of k8sbench.",
                "Export it again, or upgrade k8sbench.",
                file=shown,
            )
        try:
            existing = store.run(run_id)
        except NotFound:
            continue
        if not _is_same(existing, run):
            raise UsageError(
                f"There is another run {run_id} in the store, or the same with other content."
                " Nothing was imported.",
                "Compare them in a store of its own (--store FOLDER), or remove the one that is"
                f" here with: k8sbench store remove {run_id}",
            )
        found.append(run_id)
    return found


def _is_same(existing: Run, other: Run) -> bool:
    """Return True if two runs of one id have the same end and measurement.

    One of them may lack the profile, which its logs give.
    """
    if existing.measurement is not None and other.measurement is not None:
        profiled = other.measurement.with_profile_of(existing.measurement)
        other = msgspec.structs.replace(other, measurement=profiled)
    return _CONTENT(existing) == _CONTENT(other)


_CONTENT = attrgetter("planned", "known", "history", "measurement")


def _read_ended_run(folder: RunFolder) -> Run | None:
    """Read a run for a move; None if damaged or not ended."""
    with contextlib.suppress(BenchError):
        run = folder.run()
        checked_set_name(run.set_name)
        if run.phase.final:
            return run
    return None


def move_into_store(
    store: SqlStore, folders: Mapping[str, Path], replaced: Sequence[str] = ()
) -> None:
    """Move runs, by id, to their places, index them, and remove those replaced: all or none.

    If the process is killed, runs of either kind may be there, and none is lost.
    """
    runs = store.root / run_folder.RUNS
    moved = dict[Path, Path]()
    try:
        with store.changing_folders() as db, disk.translate_errors(f"put runs into {runs}"):
            disk.make_folder(runs)
            for run_id, folder in folders.items():
                if any((runs / run_id).glob("*")):
                    raise StoreError(f"{runs / run_id} is there, and is no whole run.", REINDEX)
                moved[folder] = folder.rename(runs / run_id)
            indexing.index_folders(db, store.root, folders)
            for run_id in replaced:
                index.delete(db, run_id)
                moved |= _take_out(store, run_id)
    except BaseException:
        for before, place in moved.items():
            place.rename(before)
        raise
    if replaced:
        shutil.rmtree(store.root / REMOVED, ignore_errors=True)


# --- removal: whole runs, and the logs and series of old runs -----------------------------------


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``pruned.json``: removed logs and series, time and rule."""

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


def remove_run(store: SqlStore, run_id: str) -> None:
    """Remove an ended run: its row and, if it is here, its folder."""
    with store.changing_folders() as db, disk.translate_errors(f"remove run {run_id}"):
        index.delete(db, run_id)
        _take_out(store, run_id)
    # Also remains of killed removals; those of active ones are removed twice, which is harmless.
    shutil.rmtree(store.root / REMOVED, ignore_errors=True)


def _take_out(store: SqlStore, run_id: str) -> dict[Path, Path]:
    """Move a run's folder to those to be removed; return its old path and the new one."""
    removed = store.root / REMOVED
    # A damaged row's id may name a folder that is not a run's.
    if run_id not in run_folder.run_ids(store.root):
        return {}
    disk.make_folder(removed)
    shutil.rmtree(removed / run_id, ignore_errors=True)  # of a removal that was killed
    place = store.run_folder(run_id).path
    return {place: place.rename(removed / run_id)}


def find_printed_files(folder: Path) -> list[Path]:
    """List the logs and series of a run that are here."""
    return [path for pattern in (f"{LOGS}/*", SERIES) for path in folder.glob(pattern)]


def prune_run(
    store: SqlStore, run_id: str, *, at: float, rule: str, dry_run: bool = False
) -> Pruned:
    """Remove an ended run's logs and series, and record it."""
    folder = RunFolder(store.folder(run_id))
    with disk.translate_errors(f"remove the logs in {folder.path}"):
        files = find_printed_files(folder.path)
        size = sum(path.stat().st_size for path in files)
        removed = Pruned(at=at, rule=rule, files=len(files), bytes=size)
        if dry_run:
            return removed
        # Before the removal, in case it is killed; after it, in case the disk was full.
        with contextlib.suppress(StoreError):
            _record_removal(folder, removed)
        for path in files:
            path.unlink()
        _record_removal(folder, removed)
        if (logs := folder.path / LOGS).exists():
            logs.rmdir()
    return removed


def _record_removal(folder: RunFolder, removed: Pruned) -> None:
    """Record a removal, unless the record of an earlier one exists."""
    if read_pruned(folder.path) is None:
        folder.write(PRUNED, json_files.encode_file(removed))


def prune_old_runs(
    store: SqlStore,
    keep_s: float,
    *,
    at: float,
    rule: str,
    dry_run: bool,
    backend: Backend | None = None,
) -> tuple[dict[str, Pruned], dict[str, str]]:
    """Remove local logs and GPU series of runs ended ``keep_s`` ago.

    Rows and measurements stay. Logs of unmeasured runs, of runs with pending cluster requests and
    of runs followed by another process stay too. Returns the removed (or removable) files by run
    id, and the reasons other old logs are kept. With a ``backend`` only its runs count.
    """
    removed: dict[str, Pruned] = {}
    reasons_to_keep: dict[str, str] = {}
    for run in store.runs(RunFilter()):
        run_id = run.run_id
        is_old = run.ended_at is not None and run.ended_at <= at - keep_s
        if backend not in {None, run.plan.backend}:
            continue
        if not is_old or not find_printed_files(store.run_folder(run_id).path):
            continue
        if run.owes_measurement:
            reasons_to_keep[run_id] = "It is not measured yet."
        elif run.wishes:
            reasons_to_keep[run_id] = "What is left of its job is to be deleted."
        else:
            try:
                with claim_run(store, run_id):
                    removed[run_id] = prune_run(store, run_id, at=at, rule=rule, dry_run=dry_run)
            except (StoreError, UsageError) as error:
                reasons_to_keep[run_id] = error.message
    return removed, reasons_to_keep | store.unreadable


@contextlib.contextmanager
def claim_run(store: SqlStore, run_id: str) -> Iterator[None]:
    """Claim a run to change its files; raises :class:`UsageError` if another process has it."""
    if not store.claims.claim(run_id):
        raise UsageError(
            f"Another k8sbench process follows run {run_id}. Nothing was changed.",
            "Wait for it, or end it.",
        )
    try:
        yield
    finally:
        store.claims.release(run_id)


def read_pruned(folder: Path) -> Pruned | None:
    """Read the record of removed logs; None without one."""
    return RunFolder(folder).read(PRUNED, Pruned)


# --- logs that become runs ----------------------------------------------------------------------


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One log that was imported."""

    name: str
    """Name in results, relative to the given path."""
    kept_as: str
    """Path of the copy below the run's folder."""
    bytes: int
    """Size of the copy."""
    sha256: str
    """SHA-256 of the copy."""


class ImportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``imported.json``: the logs that a run was made of."""

    schema: int = SCHEMA
    """Version of the document."""
    imported_at: float
    """Unix seconds."""
    files: tuple[ImportedFile, ...]
    """The logs."""
    replaces: tuple[str, ...] = ()
    """Ids of the runs in whose place the run came."""


class UnpackedLog(Protocol):
    """A log of any place and form."""

    @property
    def name(self) -> str:
        """Name in rows and messages."""

    def unpacked(self) -> Iterator[bytes]:
        """Yield the log's bytes; raises :class:`~k8sbench.model.errors.InputError`."""


def copy_logs(folder: Path, logs: Iterable[UnpackedLog]) -> tuple[ImportedFile, ...]:
    """Copy the logs of one run, unpacked.

    ``folder`` is one of :func:`open_incoming`, until the run is moved to its place. Raises
    :class:`~k8sbench.model.errors.InputError` for an unreadable log.
    """
    files = []
    for number, log in enumerate(logs):
        kept_as = f"{LOGS}/log-{number}{LOG_SUFFIX}"
        # The copy is measured, because standard input can be read only once.
        with disk.translate_errors(f"copy to {folder}"):
            disk.make_folder(folder / LOGS)
            with disk.whole_file(folder / kept_as) as file:
                file.writelines(log.unpacked())
            with (folder / kept_as).open("rb") as copy:
                digest = hashlib.file_digest(copy, "sha256").hexdigest()
                size = copy.tell()
        files.append(ImportedFile(name=log.name, kept_as=kept_as, bytes=size, sha256=digest))
    return tuple(files)


class AddedRun(NamedTuple):
    """A run whose logs were copied."""

    run: Run
    folder: Path
    """A folder of :func:`open_incoming`."""
    files: tuple[ImportedFile, ...]
    replaces: tuple[str, ...] = ()
    """Ids of the runs that it replaces."""


def add_runs(store: SqlStore, added: Sequence[AddedRun], leftovers: Sequence[str] = ()) -> None:
    """Add runs and remove those that they replace, all or none.

    ``leftovers`` are runs whose replacement was killed.
    """
    replaced = [*leftovers]
    for run, path, files, replaces in added:
        folder = RunFolder(path)
        record = ImportRecord(imported_at=run.created_at, files=files, replaces=replaces)
        folder.write(IMPORTED, json_files.encode_file(record))
        folder.save(run)
        replaced += replaces
    folders = {run_added.run.run_id: run_added.folder for run_added in added}
    with contextlib.ExitStack() as claims:
        replaced = list(dict.fromkeys(replaced))
        for run_id in replaced:
            claims.enter_context(claim_run(store, run_id))
        move_into_store(store, folders, replaced)


def read_replaced(store: SqlStore, run_id: str) -> tuple[str, ...]:
    """Read the ids of the runs that an imported run has replaced."""
    record = store.run_folder(run_id).read(IMPORTED, ImportRecord)
    return () if record is None else record.replaces
