"""The upkeep of a store: what is in it, is it whole, bring its database up to the folders.

The folders are what counts. A rebuild reads them all and writes their rows in one transaction that
excludes other writers; rows without a folder stay. A SQLite database that is gone or damaged is
made anew beside its place and put there with one rename: killed at any moment, a rebuild leaves the
old one or the new one. What it changes or replaces is copied before
(:mod:`k8sbench.adapters.store.backups`). Two runs that claim the same repeat of a case (a database
was deleted and its set went on) both stay, the younger with the next free number.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import (
    artifacts,
    backups,
    baselines,
    database,
    disk,
    migrations,
    places,
)
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.database import DamagedDatabase
from k8sbench.adapters.store.rows import RUNS, free_repeat
from k8sbench.adapters.store.sql_store import SqlStore, merged, open_store
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import Run

_NEW = "k8sbench.db.new"


class StoreFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a check or a rebuild met."""

    id: Literal[
        "damaged-database",
        "damaged-run",
        "damaged-baseline",
        "no-row",
        "no-folder",
        "row-differs",
        "unreadable-row",
        "repeat-taken",
    ]
    """The kind of the finding; store.md explains each."""
    path: str
    """The file or folder it concerns."""
    message: str
    """One sentence."""


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store check`` and ``store rebuild`` found."""

    schema: int = SCHEMA
    """Version of the document."""
    store: str
    """Folder, or the database's URL without its password."""
    runs: int
    """Runs in the database, afterwards."""
    findings: tuple[StoreFinding, ...]
    """The differences that were found."""
    backup: str | None = None
    """The copy of the database from before a rebuild: a file, or names of tables; None if nothing
    was changed."""


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
    """Migrations that the database has had."""
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
        schema = migrations.version(db)
    return StoreInfo(
        store=store.where,
        exists=not store.absent,
        identity=None if store.absent else store.identity,
        kind=base.kind,
        writable=base.writable,
        database_schema=schema,
        artifacts=str(store.root / artifacts.RUNS),
        runs=sum(count for _, count in phases),
        sets=sets or 0,
        phases={str(phase): count for phase, count in sorted(phases)},
    )


def check(store: SqlStore) -> StoreReport:
    """Compare rows with folders; changes nothing."""
    findings: list[StoreFinding] = []
    with store.database.reading() as db:
        if store.database.kind == "sqlite":
            findings += _integrity(db, store.where)
        rows = {run.run_id: run for run in store.load_all(db)}
    for run_id, why in store.unreadable.items():
        findings.append(StoreFinding(id="unreadable-row", path=run_id, message=why))
    for kept in _runs_in_folders(store.root, findings):
        row = rows.get(kept.run_id)
        where = kept.artifacts or ""
        if row is None and kept.run_id not in store.unreadable:
            findings.append(
                StoreFinding(id="no-row", path=where, message="The database lacks this run.")
            )
        elif row is not None and merged(row, kept) != row:
            message = "The folder has newer information than the database, or another plan."
            if kept.phase is not row.phase:
                message = f"The database says {row.phase}, the folder says {kept.phase}."
            findings.append(StoreFinding(id="row-differs", path=where, message=message))
    if store.database.kind == "sqlite":  # a run of a PostgreSQL store has its files anywhere
        findings += [
            StoreFinding(id="no-folder", path=row.run_id, message=row.artifacts_missing)
            for row in rows.values()
            if row.artifacts_missing
        ]
    return StoreReport(
        store=store.where, runs=len(rows) + len(store.unreadable), findings=tuple(findings)
    )


def rebuild(where: str | None) -> StoreReport:
    """Bring the database of a store up to its folders; makes it anew if it is gone or damaged."""
    root = places.place(where)
    if isinstance(root, Path):
        known = (root / database.DATABASE).exists()
        if not (root.is_dir() and (known or (root / artifacts.RUNS).is_dir())):
            raise UsageError(f"There is no store in {root}.", "k8sbench submit makes one.")
        old, damage = _old(root) if known else ({}, [])
        if damage or not known:
            return _made_anew(root, old, damage)
    with open_store(where) as store:
        return rebuild_rows(store)


def rebuild_rows(
    store: SqlStore, old: Mapping[str, Run] | None = None, damage: Sequence[StoreFinding] = ()
) -> StoreReport:
    """Write the rows of all folders; ``old`` are runs that a damaged database still listed."""
    old, findings = dict(old or {}), list(damage)
    with alone(store) as db:
        there = {run.run_id: run for run in store.load_all(db)}
        rows = old | there
        wanted = dict(old)
        for run in _runs_in_folders(store.root, findings):
            row = rows.get(run.run_id)
            wanted[run.run_id] = run if row is None else merged(row, run)
        changed = [run for run in wanted.values() if run != there.get(run.run_id)]
        backup = _kept_as_it_was(store, db) if changed and (there or store.unreadable) else None
        # Where two claim one repeat number a run with a row keeps it, then the older one.
        for run in sorted(
            changed, key=lambda run: (run.run_id not in rows, run.created_at, run.run_id)
        ):
            db.execute(sa.delete(RUNS).where(RUNS.c.run_id == run.run_id))
            store.insert(db, numbered(db, run, findings))
        if store.database.kind == "sqlite":
            baselines.restore(db, store.root, partial(_damaged_baseline, findings))
        count = db.scalar(sa.select(sa.func.count()).select_from(RUNS)) or 0
    return StoreReport(store=store.where, runs=count, findings=tuple(findings), backup=backup)


def _damaged_baseline(findings: list[StoreFinding], path: Path, wrong: StoreError) -> None:
    findings.append(StoreFinding(id="damaged-baseline", path=str(path), message=wrong.message))


@contextlib.contextmanager
def alone(store: SqlStore) -> Iterator[sa.Connection]:
    """A transaction that writes rows of many runs, and excludes all others that write."""
    with store.database.writing() as db:
        if store.database.kind == "postgresql":
            db.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield db


def _kept_as_it_was(store: SqlStore, db: sa.Connection) -> str:
    if store.database.kind == "postgresql":
        return backups.keep_tables(db)
    with disk.translated(f"copy the database of {store.root}"):
        return str(backups.keep_sqlite(store.root / database.DATABASE))


def _made_anew(root: Path, old: Mapping[str, Run], damage: Sequence[StoreFinding]) -> StoreReport:
    path, new = root / database.DATABASE, root / _NEW
    with disk.translated(f"rebuild the store {root}"):
        backups.remove(new)
        try:
            with SqlStore(database.open_sqlite(root, _NEW), root) as store:
                report = rebuild_rows(store, old, damage)
        except BaseException:
            backups.remove(new)
            raise
        if path.exists():
            report = msgspec.structs.replace(report, backup=str(backups.keep_files(path)))
        # Closed, the new one is one file. The old one's log must not be taken for the new one's.
        for suffix in backups.SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
    return report


def _old(root: Path) -> tuple[dict[str, Run], list[StoreFinding]]:
    """Read the runs of a SQLite database, and what is wrong with it.

    One that is locked, newer than this program or of another program is an error.
    """
    try:
        with SqlStore(database.open_sqlite(root), root) as store, store.database.reading() as db:
            old = {run.run_id: run for run in store.load_all(db)}
            return old, _integrity(db, store.where)
    except DamagedDatabase as wrong:
        path = str(root / database.DATABASE)
        return {}, [StoreFinding(id="damaged-database", path=path, message=wrong.message)]


def numbered(db: sa.Connection, run: Run, findings: list[StoreFinding]) -> Run:
    """Give a run the next free repeat number if its own is taken."""
    plan = run.plan
    where = (RUNS.c.set_name == plan.set_name, RUNS.c.case_key == run.case_key)
    if not db.scalar(sa.select(RUNS.c.run_id).where(*where, RUNS.c.repeat == plan.repeat)):
        return run
    free = free_repeat(db, plan.set_name, run.case_key)
    message = (
        f"Another run is repeat {plan.repeat} of this case in set {plan.set_name}: this one is kept"
        f" as repeat {free}."
    )
    findings.append(StoreFinding(id="repeat-taken", path=run.run_id, message=message))
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(plan, repeat=free))


def _runs_in_folders(root: Path, findings: list[StoreFinding]) -> Iterator[Run]:
    """Read the runs of all folders under ``runs/``; what cannot be read is a finding."""
    with disk.translated(f"read {root / artifacts.RUNS}"):
        folders = sorted(path.parent for path in root.glob(f"{artifacts.RUNS}/*/run.json"))
    for folder in folders:
        try:
            run, problems = RunFolder(folder).run()
        except StoreError as wrong:
            findings.append(StoreFinding(id="damaged-run", path=str(folder), message=wrong.message))
            continue
        findings += [
            StoreFinding(id="damaged-run", path=str(folder), message=text) for text in problems
        ]
        yield run


def _integrity(db: sa.Connection, shown: str) -> list[StoreFinding]:
    problems = [str(row[0]) for row in db.exec_driver_sql("PRAGMA integrity_check(20)")]
    return [
        StoreFinding(id="damaged-database", path=shown, message=text)
        for text in problems
        if text != "ok"
    ]
