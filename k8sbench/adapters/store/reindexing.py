"""Making the index anew from the runs' folders, and opening a store whose index is not usable.

A SQLite index that is gone, damaged or of an earlier version is made beside its place and put there
with one rename; the file before it is kept once, as ``k8sbench.db.old``. What only its rows know,
runs whose folders are gone, is carried over. Where the store can only be read the index is made in
memory. On PostgreSQL only the rows of runs whose folders are here are written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, database, disk, index
from k8sbench.adapters.store.database import DamagedDatabase, Database, NotWritable
from k8sbench.adapters.store.index import IDENTITY, RUNS
from k8sbench.adapters.store.run_store import IDENTITY_FILE, SqlStore
from k8sbench.model.errors import StoreError
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import SCHEMA

_NEW = "k8sbench.db.new"
OLD = "k8sbench.db.old"
FAILURES = {
    "damaged-run": "Bring the file back from a copy, or remove the run.",
    "no-folder": "Its row is all that is left of it.",
    "damaged-row": "Neither its row nor a folder can be read.",
}
"""What a reindex cannot mend, by the id of its finding, and what to do."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite writes beside a database."""


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store reindex`` did and met."""

    schema: int = SCHEMA
    """Version of the document."""
    store: str
    """Folder, or the database's URL without its password."""
    runs: int
    """Runs in the index, afterwards."""
    findings: tuple[Finding, ...]
    """What is wrong with runs, and what was changed besides rows; store.md explains each id."""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store info`` says."""

    schema: int = SCHEMA
    """Version of the document."""
    store: str
    """Folder, or database URL without its password."""
    exists: bool
    """False where there is no store yet."""
    identity: str | None
    """The id of the store on clusters, independent of host and path; None if there is no store
    yet."""
    kind: str
    """``sqlite`` or ``postgresql``."""
    writable: bool
    """Whether it can be written from here."""
    database_schema: int
    """Version of the database's tables."""
    artifacts: str
    """Folder of the runs' folders."""
    runs: int
    """Runs in the database."""
    sets: int
    """Sets that they belong to."""
    phases: dict[str, int]
    """Runs by phase."""


def info(store: SqlStore) -> StoreInfo:
    """Describe a store and count what is in it."""
    base = store.database
    with base.reading() as db:
        phases = db.execute(sa.select(RUNS.c.phase, sa.func.count()).group_by(RUNS.c.phase)).all()
        sets = db.scalar(sa.select(sa.func.count(RUNS.c.set_name.distinct())))
    return StoreInfo(
        store=store.where,
        exists=not store.absent,
        identity=None if store.absent else store.identity,
        kind=base.kind,
        writable=base.writable,
        database_schema=index.LAYOUT,
        artifacts=str(store.root / artifacts.RUNS),
        runs=sum(count for _, count in phases),
        sets=sets or 0,
        phases={str(phase): count for phase, count in sorted(phases)},
    )


def reindex(store: SqlStore) -> StoreReport:
    """Write the rows of all folders anew, and say what is wrong with which run."""
    findings: list[Finding] = []
    if store.has_all_folders and store.database.writable and not _is_sound(store.database):
        store.database.close()
        with disk.locked(store.root):
            _make_anew(store.root)
        findings.append(
            Finding(
                id="damaged-database",
                severity="warn",
                sentence=f"The database was damaged; it is kept as {store.root / OLD}.",
            )
        )
    store.unreadable.clear()
    with alone(store) as db:
        folders = [store.run_folder(name) for name in sorted(artifacts.run_ids(store.root))]
        indexed = store.index_folders(db, folders)
        in_folders = set(store.unreadable)
        runs = store.load(db, sa.select(RUNS).order_by(RUNS.c.created_at, RUNS.c.run_id))
        count = db.scalar(sa.select(sa.func.count()).select_from(RUNS)) or 0
    findings += [
        Finding(
            id="repeat-taken",
            severity="warn",
            sentence=f"Another run has the repeat number of {run.run_id} in its case and set"
            f" {run.plan.set_name}: this one is kept as repeat {run.plan.repeat}.",
        )
        for run in indexed.renumbered
    ]
    rows = [why for run_id, why in store.unreadable.items() if run_id not in in_folders]
    # A run of a PostgreSQL store has its files anywhere.
    missing = [run.artifacts_missing or "" for run in runs if store.has_all_folders]
    findings += [
        Finding(id=id_, severity="fail", sentence=sentence, action=action)
        for (id_, action), sentences in zip(
            FAILURES.items(), (indexed.problems, missing, rows), strict=True
        )
        for sentence in sentences
        if sentence
    ]
    return StoreReport(store=store.where, runs=count, findings=tuple(findings))


@contextlib.contextmanager
def alone(store: SqlStore) -> Iterator[sa.Connection]:
    """A transaction that writes rows of many runs, and excludes all others that write."""
    with store.database.writing() as db:
        if store.database.kind == "postgresql":
            db.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield db


def opened(root: Path) -> SqlStore:
    """Open a SQLite store, whose index is made anew if it cannot be used."""
    try:
        base = _usable(root)
        if base is None:
            with disk.locked(root):
                base = _usable(root)  # another process may have made it meanwhile
                if base is None:
                    base = _made_anew(root)
    except NotWritable as why:
        return _in_memory(root, why)
    return SqlStore(base, root)


def _usable(root: Path) -> Database | None:
    """Open the index of a store if it can be used as it is."""
    if not (root / database.DATABASE).exists():
        if not os.access(root, os.W_OK):
            raise NotWritable(f"The store {root} can only be read.", "Name another with --store.")
        return None
    try:
        base = database.open_sqlite(root)
    except DamagedDatabase:
        return None
    try:
        with base.reading() as db:
            if index.layout(db) == index.LAYOUT:
                return base
    except DamagedDatabase:
        pass
    except BaseException:
        base.close()
        raise
    base.close()
    return None


def _is_sound(base: Database) -> bool:
    try:
        with base.reading() as db:
            return str(db.exec_driver_sql("PRAGMA quick_check(1)").scalar()) == "ok"
    except DamagedDatabase:
        return False


def _in_memory(root: Path, why: StoreError) -> SqlStore:
    base = database.open_memory(str(root))
    store = SqlStore(base, root)
    with base.writing() as db:
        index.create(db)
        base.read_only = why
        store.index_folders(db, [store.run_folder(name) for name in artifacts.run_ids(root)])
    return store


def _made_anew(root: Path) -> Database:
    try:
        _make_anew(root)
    except StoreError as why:  # a full disk
        raise NotWritable(why.message, why.action) from why
    return database.open_sqlite(root)


def _make_anew(root: Path) -> None:
    """Make the index of a SQLite store from its folders and from what its rows know besides."""
    path = root / database.DATABASE
    with disk.translated(f"make the index of the store {root} anew"):
        _remove(root / _NEW)
        earlier, identity = _known(root) if path.exists() else ([], None)
        if identity and not (root / IDENTITY_FILE).exists():
            disk.write_whole(root / IDENTITY_FILE, f"{identity}\n".encode())
        try:
            with (
                SqlStore(database.open_sqlite(root, _NEW), root) as store,
                store.database.writing() as db,
            ):
                index.create(db)
                index.restore(db, earlier)
                folders = [store.run_folder(name) for name in artifacts.run_ids(root)]
                store.index_folders(db, folders)
        except BaseException:
            _remove(root / _NEW)
            raise
        # The log of the old file must not be taken for the new one's.
        for suffix in ("", *SIDE_FILES):
            if path.with_name(path.name + suffix).exists():
                path.with_name(path.name + suffix).replace(root / f"{OLD}{suffix}")
        with (root / _NEW).open("rb") as file:
            os.fsync(file.fileno())
        (root / _NEW).replace(path)


def _known(root: Path) -> tuple[list[index.Row], str | None]:
    """Read what can be read of a SQLite database: its rows, and the store's identity."""
    rows: list[index.Row] = []
    identity = None
    with contextlib.suppress(StoreError):
        base = database.open_sqlite(root)
        try:
            with base.reading() as db:
                rows.extend(index.rows_of_any_layout(db))
            with base.reading() as db:
                identity = db.scalar(sa.select(IDENTITY.c.id))
        finally:
            base.close()
    return rows, identity


def _remove(path: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
