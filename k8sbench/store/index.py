"""The tables of the index: a row for each run, and facts of the index itself.

A row finds a run, which is then read from its folder. The columns are documented in
``docs/store.md``, so that people can query the file with ``sqlite3``. :mod:`.group_index` has the
rows of groups.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from k8sbench.model.errors import RepeatTaken, StoreError
from k8sbench.model.run import Run
from k8sbench.store.database import LAYOUT, DamagedDatabase
from k8sbench.store.interface import RunFilter

APPLICATION = 0x6B38_7362
"""SQLite's application id of our files (``k8sb``)."""
MOST_NAMES = 100
"""Names that a shell offers at once."""
TABLES = """
CREATE TABLE runs (
    run_id     TEXT PRIMARY KEY,
    set_name   TEXT NOT NULL,
    benchmark  TEXT NOT NULL,
    framework  TEXT,
    variant    TEXT NOT NULL,
    precision  TEXT,
    "case"     TEXT,
    gpus       INTEGER,
    batch_size REAL,
    gpu_model  TEXT,
    source     TEXT NOT NULL,
    created_at REAL NOT NULL,
    ended_at   REAL,
    state      TEXT NOT NULL,
    verdict    TEXT,
    throughput REAL,
    unit       TEXT,
    case_key   TEXT NOT NULL,
    repeat     INTEGER NOT NULL,
    log_digest TEXT,
    closed     INTEGER NOT NULL
);
CREATE INDEX runs_by_set ON runs (set_name, case_key, repeat);
CREATE INDEX runs_by_time ON runs (created_at, run_id);
CREATE INDEX runs_by_benchmark ON runs (benchmark, created_at);
CREATE INDEX runs_open ON runs (created_at, run_id) WHERE NOT closed;
CREATE INDEX runs_by_log ON runs (log_digest) WHERE log_digest IS NOT NULL;
CREATE TABLE groups (
    set_name    TEXT NOT NULL,
    group_id    TEXT NOT NULL,
    series      TEXT NOT NULL,
    benchmark   TEXT NOT NULL,
    framework   TEXT NOT NULL,
    precision   TEXT NOT NULL,
    "case"      TEXT NOT NULL,
    gpus        INTEGER,
    gpu_model   TEXT NOT NULL,
    estimator   TEXT NOT NULL,
    began       REAL NOT NULL,
    ended       REAL NOT NULL,
    latest      REAL NOT NULL,
    counted     INTEGER NOT NULL,
    median      REAL,
    deviation   REAL,
    state       TEXT NOT NULL,
    in_progress INTEGER NOT NULL,
    measures    TEXT NOT NULL,
    rejects     TEXT NOT NULL,
    former_id   TEXT NOT NULL,
    former_series TEXT NOT NULL,
    warmup      INTEGER,
    reaches     INTEGER,
    range       TEXT NOT NULL,
    in_range    REAL,
    record      BLOB NOT NULL,
    PRIMARY KEY (set_name, group_id)
);
CREATE INDEX groups_by_id ON groups (group_id);
CREATE TABLE series (
    group_id     TEXT PRIMARY KEY,
    night        INTEGER NOT NULL,
    mark         TEXT,
    change       REAL,
    p            REAL,
    since        TEXT,
    together     INTEGER,
    open         TEXT,
    open_change  REAL,
    open_since   TEXT,
    open_began   REAL,
    closed_since TEXT,
    closed_began REAL,
    closed_by    TEXT,
    closed_at    REAL,
    low          REAL,
    high         REAL,
    level        REAL,
    level_sets   INTEGER,
    level_began  REAL,
    level_until  REAL,
    variance     REAL,
    freedom      REAL,
    apart        REAL,
    tail         REAL,
    sets         INTEGER,
    p_of_night   REAL
);
CREATE INDEX series_notable ON series (group_id)
    WHERE mark IS NOT NULL OR closed_since IS NOT NULL OR low IS NOT NULL;
CREATE INDEX series_by_night ON series (night);
CREATE TABLE nights (night INTEGER PRIMARY KEY, digest TEXT NOT NULL, state BLOB);
CREATE TABLE changed_sets (set_name TEXT PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE damaged (run_id TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_COLUMNS = (
    *("run_id", "set_name", "benchmark", "framework", "variant", "precision", "case", "gpus"),
    *("batch_size", "gpu_model", "source", "created_at", "ended_at", "state", "verdict"),
    *("throughput", "unit", "case_key", "repeat", "log_digest", "closed"),
)
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_VALUES = ", ".join(f":{name}" for name in _COLUMNS)
_PUT = f"REPLACE INTO runs ({_NAMES}) VALUES ({_VALUES})"  # noqa: S608 - our own names


def names_beginning(db: sqlite3.Connection, kind: str, beginning: str) -> list[str]:
    """Return sets or runs (``kind``) whose names begin so, the newest first."""
    column = {"set": "set_name", "run": "run_id"}[kind]
    query = (
        f"SELECT {column} FROM runs WHERE substr({column}, 1, ?) = ?"  # noqa: S608 - our own names
        f" GROUP BY {column} ORDER BY max(created_at) DESC LIMIT {MOST_NAMES}"
    )
    return [name for (name,) in db.execute(query, (len(beginning), beginning))]


def check_layout(db: sqlite3.Connection) -> int:
    """Return a database's layout: :data:`.LAYOUT`, or 0 if it is empty.

    Raises :class:`DamagedDatabase` for another one, and :class:`StoreError` for the database of
    another program.
    """
    if _application_id(db) == APPLICATION and _layout_number(db) == LAYOUT:
        # An error where a table or a column is gone.
        db.execute(f"SELECT {_NAMES} FROM runs LIMIT 1")  # noqa: S608
        db.execute("SELECT record FROM groups LIMIT 1")
        db.execute("SELECT p_of_night FROM series LIMIT 1")
        db.execute("SELECT version FROM changed_sets LIMIT 1")
        db.execute("SELECT reason FROM damaged LIMIT 1")
        db.execute("SELECT value FROM facts LIMIT 1")
        return LAYOUT
    if not (_application_id(db) or _tables(db)):
        return 0
    if is_ours(db):
        raise DamagedDatabase(
            "The tables of the store's index are of another version of k8sbench.",
            "Rebuild it: k8sbench store reindex",
        )
    raise StoreError(
        "The database holds tables of something else and none of k8sbench.",
        "Name another folder with --store or K8SBENCH_STORE.",
    )


def is_ours(db: sqlite3.Connection) -> bool:
    """Return True for an index of any version of k8sbench."""
    return _application_id(db) == APPLICATION or "schema_migrations" in _tables(db)


def _application_id(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA application_id").fetchone()[0])


def _layout_number(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty database; processes take turns."""
    if check_layout(db) == LAYOUT:
        return
    for statement in TABLES.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {LAYOUT}")


def read_fact(db: sqlite3.Connection, name: str) -> str | None:
    """Return a fact of the index itself by its name; None without it."""
    row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row["value"])


def put_fact(db: sqlite3.Connection, name: str, value: str) -> None:
    """Keep a fact of the index itself."""
    db.execute("REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))


def row_of(run: Run) -> dict[str, Any]:
    """Return a run's row."""
    facts = run.facts
    measured = run.measurement
    figures = None if measured is None else measured.throughput
    return {
        "run_id": run.run_id,
        "set_name": facts.set_name,
        "benchmark": facts.benchmark,
        "framework": facts.framework,
        "variant": facts.variant,
        "precision": facts.precision,
        "case": facts.case,
        "gpus": facts.world_size,
        "batch_size": facts.batch_size,
        "gpu_model": (measured and measured.gpu_model) or facts.pool.gpu_model,
        "source": run.shown_source,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "state": str(run.phase),
        "verdict": measured and measured.verdict,
        "throughput": measured and measured.rate,
        "unit": figures and figures.unit,
        "case_key": run.case_key,
        "repeat": facts.repeat,
        "log_digest": measured and measured.log_digest,
        "closed": run.is_closed and run.wishes == (),
    }


def put(db: sqlite3.Connection, run: Run) -> None:
    """Insert or replace a run's row, which counts only when the run's files exist."""
    row = row_of(run)
    try:
        _note_change(db, run.run_id)
        db.execute(_PUT, row)
        _note_change(db, run.run_id)
        db.execute("DELETE FROM damaged WHERE run_id = ?", (run.run_id,))
    except OverflowError as error:
        raise StoreError(
            f"Run {run.run_id} has a number that no database holds: {error}."
        ) from error


def delete(db: sqlite3.Connection, run_id: str) -> None:
    """Delete a run's row."""
    _note_change(db, run_id)
    db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
    db.execute("DELETE FROM damaged WHERE run_id = ?", (run_id,))


def _note_change(db: sqlite3.Connection, run_id: str) -> None:
    """Note that the groups of a run's set, and of sets with the same log, are outdated."""
    db.execute(
        "INSERT INTO changed_sets (set_name, version)"
        " SELECT DISTINCT alike.set_name, 1 FROM runs"
        " JOIN runs AS alike"
        " ON alike.run_id = runs.run_id OR alike.log_digest = runs.log_digest"
        " WHERE runs.run_id = ?"
        " ON CONFLICT (set_name) DO UPDATE SET version = version + 1",
        (run_id,),
    )


def put_damaged(db: sqlite3.Connection, run_id: str, reason: str) -> None:
    """Put a run whose folder cannot be read; it has no row among the runs."""
    delete(db, run_id)
    db.execute("REPLACE INTO damaged (run_id, reason) VALUES (?, ?)", (run_id, reason))


def damaged_runs(db: sqlite3.Connection) -> dict[str, str]:
    """Return the reasons why folders of runs cannot be read, by run id."""
    query = "SELECT run_id, reason FROM damaged ORDER BY run_id"
    return {row["run_id"]: row["reason"] for row in db.execute(query)}


def has_row(db: sqlite3.Connection, run_id: str) -> bool:
    """Return True if a run has a row."""
    return db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None


def taken_repeats(db: sqlite3.Connection, set_name: str, case_key: str) -> set[int]:
    """Return the taken repeats of a case in a set."""
    query = "SELECT repeat FROM runs WHERE set_name = ? AND case_key = ?"
    return {repeat for (repeat,) in db.execute(query, (set_name, case_key))}


def check_repeat(db: sqlite3.Connection, run: Run) -> None:
    """Raise :class:`RepeatTaken` if another run has the repeat of a new run's case."""
    if run.repeat in taken_repeats(db, run.set_name, run.case_key):
        message = f"Set {run.set_name} has repeat {run.repeat} of {run.case_key} already."
        raise RepeatTaken(message, "Draw the next repeat.")


def ids(db: sqlite3.Connection, run_filter: RunFilter) -> list[str]:
    """Return the ids of the runs that may match, oldest first; :func:`matches` drops others.

    The row of an open run may be behind its folder, so its state selects nothing.
    """
    conditions: list[str] = []
    values: list[object] = []
    for name in ("benchmark", "framework", "set_name"):
        value = getattr(run_filter, name)
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    if run_filter.since is not None:
        conditions.append("created_at >= ?")
        values.append(run_filter.since)
    if run_filter.until is not None:
        conditions.append("created_at <= ?")
        values.append(run_filter.until)
    if run_filter.phase is not None:
        conditions.append("(state = ? OR NOT closed)")
        values.append(str(run_filter.phase))
    if run_filter.wished or run_filter.unfinished:
        conditions.append("NOT closed")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT run_id FROM runs{where} ORDER BY created_at DESC, run_id DESC"  # noqa: S608
    # A limit over all that match needs no other rows where each candidate matches.
    is_exact = run_filter.phase is None and not run_filter.wished and not run_filter.unfinished
    if run_filter.limit is not None and is_exact:
        query += " LIMIT ?"
        values.append(run_filter.limit)
    return [run_id for (run_id,) in db.execute(query, values)][::-1]


def matches(run: Run, run_filter: RunFilter) -> bool:
    """Return True if a run matches the filter."""
    return (
        run_filter.fits(run.facts, run.created_at)
        and (run_filter.phase is None or run.phase is run_filter.phase)
        and (not run_filter.wished or run.wishes != ())
        and (not run_filter.unfinished or not run.is_closed or run.wishes != ())
    )
