"""Whole runs from one store to another, by way of one file.

::

    k8sbench-export.json     whose runs they are
    runs/<run id>/…          the files of one run after the other
    digests.json             last: what was written whole can be told from what was cut off

The files of a run are all that is needed: a row is made of them, as a rebuild does. Its digest is
the SHA-256 of the lines that ``sha256sum`` prints of them. An import unpacks beside ``runs/``, and
puts everything in its place in the end, within one transaction. Killed in the midst of that it
leaves folders without rows, which the next import of the same file takes for its own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import itertools
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from k8sbench.adapters.store import artifacts, disk, run_logs, tape, upkeep
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore, merged
from k8sbench.adapters.store.tape import Entry
from k8sbench.adapters.store.upkeep import StoreFinding
from k8sbench.model.errors import BenchError, InputError, StoreError, UsageError
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import ORIGIN, Origin, Run

T = TypeVar("T")

HEADER = "k8sbench-export.json"
DIGESTS = "digests.json"
INCOMING = "incoming"
"""Folder of the store in which an import unpacks."""
_FILE = r"(?:(?:logs|gpu)/)?[A-Za-z0-9][A-Za-z0-9._-]*"
_OWN = re.compile(_FILE)
"""Names of a run's files, relative to its folder."""
_MEMBER = re.compile(rf"runs/(?P<run_id>[a-z0-9-]+)/(?P<file>{_FILE})")
_LEFT_HERE = {artifacts.WISHES}
"""What a store owes the cluster is its own."""
MOST_BYTES = 64 << 20
"""Of a file that is read into memory whole: every one but logs and series."""
MOST_FILES = 20_000
"""Of one run: a log and some series for each replica, and a few more."""
RESERVE = 64 << 20
"""Bytes of the disk that an import leaves free."""
FEW = 5


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """``k8sbench-export.json``: what an export holds."""

    schema: int = SCHEMA
    """Version of the document."""
    format: int = 1
    """Of the export: a reader refuses one that it does not know."""
    store: str
    """Identity of the store that was exported from."""
    exported_at: float
    """Unix seconds."""
    runs: tuple[str, ...]
    """Ids of the runs."""


class Digests(msgspec.Struct, frozen=True, kw_only=True):
    """``digests.json``: the digest of each run's files."""

    schema: int = SCHEMA
    """Version of the document."""
    runs: dict[str, str]
    """By run id: SHA-256 of the lines that ``sha256sum`` prints of the run's files, by name."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    store: str
    """Identity of the store that was exported from."""
    added: tuple[str, ...]
    there: tuple[str, ...]
    """Runs that were here already."""
    findings: tuple[StoreFinding, ...]
    """Runs that were given another repeat number."""


def export(
    store: SqlStore,
    run_ids: Sequence[str],
    out: BinaryIO,
    *,
    at: float,
    note: Callable[[str], None],
) -> None:
    """Write runs that are over, with all their files, to a stream."""
    with tape.writing(out) as tar:
        header = Header(store=store.identity, exported_at=at, runs=tuple(run_ids))
        _add_document(tar, HEADER, header, at)
        digests = {run_id: _add_run(tar, _checked(store, run_id), note) for run_id in run_ids}
        _add_document(tar, DIGESTS, Digests(runs=digests), at)


def _checked(store: SqlStore, run_id: str) -> RunFolder:
    """Return the folder of a run if it holds all that is known of the run."""
    row, folder = store.run(run_id), RunFolder(store.folder(run_id))
    kept, problems = folder.run()
    known = merged(row, kept)
    if problems or (known.history, known.measurement) != (kept.history, kept.measurement):
        raise StoreError(
            f"The folder {folder.path} does not hold all that is known of run {run_id}.",
            "Export it where it was followed to its end, or see: k8sbench store check",
        )
    return folder


def _add_run(tar: tarfile.TarFile, folder: RunFolder, note: Callable[[str], None]) -> str:
    lines = []
    for name in _files(folder.path, note):
        path = folder.path / name
        with disk.translated(f"read {path}"):
            file = path.open("rb")
        with file:
            status, hashed = os.fstat(file.fileno()), _Hashed(file)
            member = f"{artifacts.RUNS}/{folder.path.name}/{name}"
            tape.add(tar, member, status.st_size, status.st_mtime, hashed)
        if name != ORIGIN:
            lines.append(f"{hashed.digest.hexdigest()}  {name}\n")
    return _digest_of(lines)


def digest(folder: Path) -> str:
    """Compute the digest of the files of a run."""
    lines = []
    for name in _files(folder, lambda _: None):
        if name != ORIGIN:
            with disk.translated(f"read {folder / name}"), (folder / name).open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return _digest_of(lines)


def _digest_of(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()


def _files(folder: Path, note: Callable[[str], None]) -> list[str]:
    """List the files of a run, by name; notes what is none of k8sbench's."""
    found = []
    with disk.translated(f"read {folder}"):
        for path in [*folder.iterdir(), *folder.glob("logs/*"), *folder.glob("gpu/*")]:
            name = path.relative_to(folder).as_posix()
            if name in {run_logs.LOGS, "gpu"} or name.startswith(".") or name in _LEFT_HERE:
                continue
            if _OWN.fullmatch(name) and path.is_file() and not path.is_symlink():
                found.append(name)
            else:
                note(f"warning: {path} is left out: it is not a file of k8sbench.")
    return sorted(found)


def _add_document(tar: tarfile.TarFile, name: str, value: msgspec.Struct, at: float) -> None:
    data = artifacts.encoded(value) + b"\n"
    tape.add(tar, name, len(data), at, io.BytesIO(data))


class _Hashed:
    """Hashes what is read of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Read, and hash."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


def import_runs(store: SqlStore, file: BinaryIO, shown: str) -> Imported:
    """Add the runs of an export: all of them, or none."""
    with unpacking(store.root) as incoming:
        header, digests = _unpack(store, incoming, file, shown)
        there, orphans, added = _sorted(store, incoming, digests, shown)
        origin = Origin(store=header.store, exported_at=header.exported_at)
        for run_id in added:
            path = incoming / run_id / ORIGIN
            if not path.exists():
                disk.write_whole(path, artifacts.encoded(origin) + b"\n")
        os.sync()
        findings: list[StoreFinding] = []
        put_in_place(store, incoming, orphans, added, findings)
    return Imported(
        store=header.store,
        added=(*orphans, *added),
        there=tuple(there),
        findings=tuple(findings),
    )


@contextlib.contextmanager
def unpacking(root: Path) -> Iterator[Path]:
    """Give an empty folder of the store to one import at a time; nothing is left in it.

    What is to become a run is made there first: killed meanwhile, an import has changed nothing.
    """
    incoming = root / INCOMING
    with disk.translated(f"unpack into {incoming}"):
        disk.make_folder(incoming)
        lock = os.open(incoming, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"Another import into {root} is going on.", "Try again when it is done."
                ) from None
            _empty(incoming)  # of one that was killed
            try:
                yield incoming
            finally:
                _empty(incoming)
        finally:
            os.close(lock)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path)


def _unpack(
    store: SqlStore, incoming: Path, file: BinaryIO, shown: str
) -> tuple[Header, dict[str, str]]:
    """Unpack the runs that are not here; returns the digests of all of them."""
    unpacked = tape.entries(file, shown)
    first = next(unpacked, None)
    if first is None or first.name != HEADER:
        raise tape.damaged(shown)
    header = _document(first, Header, shown)
    if header.format != 1:
        raise InputError("A newer k8sbench wrote it.", "Upgrade k8sbench.", file=shown)
    expected = {"", *header.runs}
    digests: dict[str, str] = {}
    stated: Digests | None = None
    for run_id, entries in itertools.groupby(unpacked, lambda entry: _run_of(entry.name, shown)):
        if stated is not None or run_id in digests or run_id not in expected:
            raise _unexpected(run_id or DIGESTS, shown)
        if not run_id:
            for entry in entries:
                if stated is not None:
                    raise _unexpected(DIGESTS, shown)
                stated = _document(entry, Digests, shown)
            continue
        is_here = RunFolder(store.root / artifacts.RUNS / run_id).is_there
        target = None if is_here else incoming / run_id
        digests[run_id] = _unpack_run(entries, target, shown)
    if stated is None or stated.runs != digests or set(digests) != set(header.runs):
        raise tape.damaged(shown)
    return header, digests


def _run_of(name: str, shown: str) -> str:
    """Return whose file one is; empty for that of the digests."""
    match = _MEMBER.fullmatch(name)
    if match is None and name != DIGESTS:
        raise _unexpected(name, shown)
    return match["run_id"] if match else ""


def _unpack_run(entries: Iterable[Entry], target: Path | None, shown: str) -> str:
    """Unpack the files of a run, or only read them; returns their digest."""
    lines: dict[str, str] = {}
    for entry in entries:
        _, _, name = entry.name.split("/", 2)
        if name in lines or name in _LEFT_HERE or len(lines) >= MOST_FILES:
            raise _unexpected(entry.name, shown)
        if "/" not in name and entry.size > MOST_BYTES:
            raise _unexpected(entry.name, shown)
        lines[name] = f"{_unpack_file(entry, target and target / name)}  {name}\n"
    lines.pop(ORIGIN, None)
    return _digest_of(lines.values())


def _unpack_file(entry: Entry, target: Path | None) -> str:
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        out: BinaryIO | None = None
        if target is not None:
            stack.enter_context(disk.translated(f"unpack {target}"))
            disk.make_folder(target.parent)
            free = shutil.disk_usage(target.parent).free
            if entry.size + RESERVE > free:
                raise OSError(errno.ENOSPC, f"{entry.size:,} bytes of {free:,}")
            out = stack.enter_context(disk.create(target, "xb"))
        for piece in entry.pieces:
            digest.update(piece)
            if out is not None:
                out.write(piece)
    return digest.hexdigest()


def _document(entry: Entry, kind: type[T], shown: str) -> T:
    if entry.size > MOST_BYTES:
        raise _unexpected(entry.name, shown)
    try:
        return msgspec.json.decode(b"".join(entry.pieces), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise tape.damaged(shown) from wrong


def _unexpected(name: str, shown: str) -> InputError:
    return InputError(
        f"It holds {name!r}, which does not belong there.",
        "k8sbench store export writes none such; nothing was imported.",
        file=shown,
    )


def _sorted(
    store: SqlStore, incoming: Path, digests: Mapping[str, str], shown: str
) -> tuple[list[str], list[str], list[str]]:
    """Say which runs are here, which have a folder and no row, and which are to be added."""
    there, orphans, added, others = list[str](), list[str](), list[str](), list[str]()
    for run_id, stated in digests.items():
        folder = RunFolder(store.root / artifacts.RUNS / run_id)
        row = _row(store, run_id)
        if folder.is_there:
            is_same = digest(folder.path) == stated
            (others if not is_same else orphans if row is None else there).append(run_id)
            continue
        run = _checked_run(RunFolder(incoming / run_id), shown)
        (added if row is None or _is_same(row, run) else others).append(run_id)
    if others:
        more = f" and {len(others) - FEW} more" if len(others) > FEW else ""
        raise UsageError(
            f"There is another run of that name in the store, or the same with other content:"
            f" {', '.join(others[:FEW])}{more}. Nothing was imported.",
            "Compare them in a store of its own (--store FOLDER), or remove the one that is here"
            f" with: k8sbench store remove {others[0]}",
        )
    return there, orphans, added


def _row(store: SqlStore, run_id: str) -> Run | None:
    with store.database.reading() as db:
        return store.run(run_id) if store.has(db, run_id) else None


def _is_same(row: Run, run: Run) -> bool:
    """Whether a run is the one of a row whose files are not here."""
    plan = msgspec.structs.replace(run.plan, repeat=row.plan.repeat)
    known = (row.plan, row.history, row.measurement)
    return known == (plan, run.history, run.measurement)


def _checked_run(folder: RunFolder, shown: str) -> Run:
    """Read a run that was unpacked; one that is damaged or not over is an error."""
    try:
        run, problems = folder.run()
        checked_run_id(run.run_id)
        checked_set_name(run.plan.set_name)
    except BenchError as wrong:
        raise InputError(
            f"Run {folder.path.name} cannot be read.", "Upgrade k8sbench.", file=shown
        ) from wrong
    if problems or not run.phase.final:
        raise InputError(
            f"Run {run.run_id} is damaged, or had not ended.", "Export it again.", file=shown
        )
    return run


def put_in_place(
    store: SqlStore,
    incoming: Path,
    orphans: Sequence[str],
    added: Sequence[str],
    findings: list[StoreFinding],
) -> None:
    """Put runs in their places and write their rows: all of them, or none.

    ``orphans`` have their folders there already, without a row; ``added`` are in ``incoming``.
    """
    runs, moved = store.root / artifacts.RUNS, list[str]()
    try:
        with upkeep.alone(store) as db, disk.translated(f"put runs into {runs}"):
            disk.make_folder(runs)
            for run_id in (*orphans, *added):
                run, _ = RunFolder((runs if run_id in orphans else incoming) / run_id).run()
                if store.has(db, run_id):
                    store.files_are_here(db, run_id)
                else:
                    store.insert(db, upkeep.numbered(db, run, findings))
                if run_id not in orphans:
                    (incoming / run_id).rename(runs / run_id)
                    moved.append(run_id)
    except BaseException:
        for run_id in moved:
            (runs / run_id).rename(incoming / run_id)
        raise
