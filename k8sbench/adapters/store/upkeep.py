"""The upkeep of a store: what is in it, is it whole, make its database anew from the folders.

The folders are what counts. A rebuild reads them all, writes a new database beside the old one and
puts it in its place with one rename: killed at any moment, it leaves the old one or the new one.
A folder that cannot be read is reported and passed over. No run is lost: one that only the old
database knows is carried over from it, and two that claim the same repeat of a case (a database
was deleted and its set went on) both stay, the younger with the next free number.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, database, migrations
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.database import Database, FolderLock
from k8sbench.adapters.store.sql_store import RUNS, SqlStore, longer
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import Run

BEFORE = "k8sbench.db.before-rebuild"
"""The database as it was before the last rebuild, kept beside the new one."""
REBUILD_WAIT_SECONDS = 5.0
"""Lists and reports have the store open for less than this; a submit for hours."""
_NEW = "k8sbench.db.new"
_SIDE_FILES = ("-wal", "-shm", "-journal")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a check or a rebuild met."""

    id: Literal[
        "damaged-database",
        "not-a-run",
        "damaged-run",
        "damaged-line",
        "no-row",
        "no-folder",
        "row-differs",
        "unreadable-row",
        "repeat-taken",
        "kept-from-row",
    ]
    path: str
    """The file or folder it concerns."""
    message: str


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store check`` and ``store rebuild`` found."""

    schema: int = SCHEMA
    store: str
    runs: int
    """Runs in the database, afterwards."""
    findings: tuple[Finding, ...]


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store info`` says."""

    schema: int = SCHEMA
    store: str
    """Folder, or database URL without its password."""
    exists: bool
    kind: str
    """``sqlite`` or ``postgresql``."""
    writable: bool
    database_schema: int
    """Migrations that the database has had."""
    journal: str | None
    """SQLite's journal: ``wal``, or ``delete`` where the file system cannot do that."""
    database_bytes: int | None
    artifacts: str
    """Folder of the runs' folders."""
    runs: int
    sets: int
    phases: dict[str, int]
    """Runs by phase."""


def info(store: SqlStore) -> StoreInfo:
    """Say what a store is and how much is in it."""
    base = store.database
    with base.reading() as db:
        phases = db.execute(sa.select(RUNS.c.phase, sa.func.count()).group_by(RUNS.c.phase)).all()
        sets = db.scalar(sa.select(sa.func.count(RUNS.c.set_name.distinct())))
        schema = migrations.version(db)
        sqlite = base.kind == "sqlite" and not store.absent
        journal = db.exec_driver_sql("PRAGMA journal_mode").scalar() if sqlite else None
    size = None
    if sqlite:
        with contextlib.suppress(OSError):
            size = (store.root / database.DATABASE).stat().st_size
    return StoreInfo(
        store=store.where,
        exists=not store.absent,
        kind=base.kind,
        writable=base.writable,
        database_schema=schema,
        journal=None if journal is None else str(journal),
        database_bytes=size,
        artifacts=str(store.root / artifacts.RUNS),
        runs=sum(count for _, count in phases),
        sets=sets or 0,
        phases={str(phase): count for phase, count in sorted(phases)},
    )


def check(store: SqlStore) -> StoreReport:
    """Hold rows and folders against each other; changes nothing."""
    findings: list[Finding] = []
    with store.database.reading() as db:
        if store.database.kind == "sqlite":
            findings += _integrity(db, store.where)
        rows = {run.run_id: run for run in store.load_all(db)}
    for run_id, why in store.unreadable.items():
        findings.append(Finding(id="unreadable-row", path=run_id, message=why))
    folders: set[str] = set()
    for folder, kept, found in _scan(store.root):
        findings += found
        if kept is None:
            continue
        folders.add(folder.name)
        row = rows.get(folder.name)
        if row is None and folder.name not in store.unreadable:
            findings.append(
                Finding(id="no-row", path=str(folder), message="The database lacks this run.")
            )
        elif row is not None and (difference := _difference(row, kept)):
            findings.append(Finding(id="row-differs", path=str(folder), message=difference))
    for run_id, row in rows.items():
        here = row.artifacts.startswith("file:///")
        if here and run_id not in folders and not store.folder(run_id).is_dir():
            findings.append(
                Finding(
                    id="no-folder",
                    path=str(store.folder(run_id)),
                    message="The run's folder is gone; its row is all that is left of it.",
                )
            )
    return StoreReport(
        store=store.where, runs=len(rows) + len(store.unreadable), findings=tuple(findings)
    )


def rebuild_folder(root: Path) -> StoreReport:
    """Make a SQLite store's database anew from its folders."""
    if not root.is_dir() or not (
        (root / artifacts.RUNS).is_dir() or (root / database.DATABASE).exists()
    ):
        raise UsageError(f"There is no store in {root}.", "k8sbench submit makes one.")
    if not os.access(root, os.W_OK):
        raise StoreError(
            f"The store {root} can only be read.", "Rebuild it from where it can be written."
        )
    lock = FolderLock.take(root, alone=True, seconds=REBUILD_WAIT_SECONDS)
    try:
        return _rebuild_alone(root)
    except OSError as wrong:
        raise artifacts.store_error(wrong, f"rebuild the store {root}") from wrong
    finally:
        lock.release()


def rebuild_rows(store: SqlStore) -> StoreReport:
    """Bring a PostgreSQL store's rows up to this machine's folders; other machines' rows stay."""
    findings: list[Finding] = []
    with store.database.writing() as db:
        rows = {run.run_id: run for run in store.load_all(db)}
        for _, kept, found in _scan(store.root):
            findings += found
            if kept is None:
                continue
            row = rows.get(kept.run_id)
            run = kept if row is None else _merged(row, kept)
            if row is not None and run == row:
                continue
            db.execute(sa.delete(RUNS).where(RUNS.c.run_id == run.run_id))
            rows[run.run_id] = _insert(store, db, run, findings)
    return StoreReport(store=store.where, runs=len(rows), findings=tuple(findings))


def _rebuild_alone(root: Path) -> StoreReport:
    path, new = root / database.DATABASE, root / _NEW
    findings: list[Finding] = []
    old = _old_runs(root, findings)
    _remove(new)
    engine = database.sqlite_engine(new, "rwc")
    base = Database(engine, shown=str(root))
    store = SqlStore(base, root, relative=True)
    try:
        with base.translated():
            migrations.migrate(base.writing_engine)
        count = 0
        with base.writing() as db:
            for run in _runs_to_keep(root, old, findings):
                _insert(store, db, run, findings)
                count += 1
    except BaseException:
        base.close()
        _remove(new)
        raise
    base.close()
    _put_in_place(new, path, root / BEFORE)
    return StoreReport(store=str(root), runs=count, findings=tuple(findings))


def _runs_to_keep(root: Path, old: dict[str, Run], findings: list[Finding]) -> list[Run]:
    """Every run of the folders, and every run that only the old database can still tell of."""
    kept: dict[str, Run] = {}
    broken: set[str] = set()
    for folder, run, found in _scan(root):
        findings += found
        if run is None:
            broken.add(folder.name)
            continue
        row = old.get(run.run_id)
        kept[run.run_id] = run if row is None else _merged(row, run)
    for run_id, row in old.items():
        if run_id not in kept:
            kept[run_id] = row
            why = "cannot be read" if run_id in broken else "is gone"
            findings.append(
                Finding(
                    id="kept-from-row",
                    path=str(root / artifacts.RUNS / run_id),
                    message=f"The run's folder {why}: kept as the old database has it.",
                )
            )
    # The older keeps its repeat number where two claim one; the old database's word goes first.
    return sorted(
        kept.values(), key=lambda run: (run.run_id not in old, run.created_at, run.run_id)
    )


def _merged(row: Run, kept: Run) -> Run:
    """One run from its folder and its row."""
    return msgspec.structs.replace(
        kept,
        # The row may carry another repeat number, given by an earlier rebuild.
        plan=msgspec.structs.replace(kept.plan, repeat=row.plan.repeat),
        history=longer(row.history, kept.history),
        measurement=kept.measurement if kept.measurement is not None else row.measurement,
    )


def _insert(store: SqlStore, db: sa.Connection, run: Run, findings: list[Finding]) -> Run:
    """Insert a run, under the next free repeat number if its own is taken."""
    taken = set(
        db.scalars(
            sa.select(RUNS.c.repeat).where(
                RUNS.c.set_name == run.plan.set_name, RUNS.c.case_key == run.case_key
            )
        )
    )
    if run.plan.repeat in taken:
        free = next(n for n in range(1, len(taken) + 2) if n not in taken)
        findings.append(
            Finding(
                id="repeat-taken",
                path=str(store.root / artifacts.RUNS / run.run_id),
                message=f"Another run is repeat {run.plan.repeat} of this case in set"
                f" {run.plan.set_name}: this one is kept as repeat {free}.",
            )
        )
        run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, repeat=free))
    store.insert(db, run)
    return run


def _old_runs(root: Path, findings: list[Finding]) -> dict[str, Run]:
    """What the old database still tells; one that is newer than this program must not be lost."""
    path = root / database.DATABASE
    if not path.exists():
        return {}
    base = Database(database.sqlite_engine(path, "rw"), shown=str(root))
    try:
        with base.reading() as db:
            migrations.check(migrations.version(db))
        with base.translated():
            migrations.migrate(base.writing_engine)
        store = SqlStore(base, root, relative=True)
        with base.reading() as db:
            old = {run.run_id: run for run in store.load_all(db)}
        findings += [
            Finding(id="unreadable-row", path=run_id, message=why)
            for run_id, why in store.unreadable.items()
        ]
    except migrations.NewerSchema:
        raise
    except StoreError as wrong:
        findings.append(
            Finding(id="damaged-database", path=str(path), message=wrong.message),
        )
        return {}
    else:
        return old
    finally:
        base.close()  # the last to close it: what its log holds is in the file then


def _put_in_place(new: Path, path: Path, before: Path) -> None:
    """Swap the databases. What lies beside the old one must not be taken for the new one's."""
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as raw:
        database.use_wal(raw)
    with new.open("rb") as file:
        os.fsync(file.fileno())
    if path.exists():
        half = before.with_name(before.name + ".tmp")
        half.unlink(missing_ok=True)
        try:
            os.link(path, half)
            half.replace(before)
        except OSError:  # no hard links here: the old one is not kept
            half.unlink(missing_ok=True)
        for suffix in _SIDE_FILES:
            side = path.with_name(path.name + suffix)
            with contextlib.suppress(FileNotFoundError):
                side.replace(before.with_name(before.name + suffix))
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(path: Path) -> None:
    for suffix in ("", *_SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _scan(root: Path) -> Iterator[tuple[Path, Run | None, list[Finding]]]:
    """Read every folder under ``runs/``: its run, or None and why."""
    try:
        entries = sorted((root / artifacts.RUNS).iterdir())
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise artifacts.store_error(wrong, f"read {root / artifacts.RUNS}") from wrong
    for entry in entries:
        if not (entry / artifacts.RUN_FILE).is_file():
            yield (
                entry,
                None,
                [
                    Finding(
                        id="not-a-run",
                        path=str(entry),
                        message=f"Holds no {artifacts.RUN_FILE}: no run of k8sbench.",
                    )
                ],
            )
            continue
        try:
            run, problems = RunFolder(entry).run()
        except StoreError as wrong:
            yield entry, None, [Finding(id="damaged-run", path=str(entry), message=wrong.message)]
        else:
            lines = [Finding(id="damaged-line", path=str(entry), message=text) for text in problems]
            yield entry, run, lines


def _difference(row: Run, kept: Run) -> str | None:
    """Say in what a folder and its row differ; None if in nothing that matters."""
    if kept.history != row.history:
        if len(kept.history) > len(row.history):
            return f"The database says {row.phase}, the folder says {kept.phase}."
        return "The folder's history is shorter than the database's, or another."
    if kept.measurement != row.measurement:
        return "The measurement in the database is not the one in the folder."
    if msgspec.structs.replace(kept.plan, repeat=row.plan.repeat) != row.plan:
        return "The plan in the database is not the one in the folder."
    return None


def _integrity(db: sa.Connection, shown: str) -> list[Finding]:
    said = [str(row[0]) for row in db.exec_driver_sql("PRAGMA integrity_check(20)")]
    if said == ["ok"]:
        orphans = len(db.exec_driver_sql("PRAGMA foreign_key_check").all())
        said = [f"{orphans} rows of a history belong to no run"] if orphans else []
    return [Finding(id="damaged-database", path=shown, message=text) for text in said]
