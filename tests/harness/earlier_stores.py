"""Databases of stores as version 0.2.0 made them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from k8sbench.model.run import Run

LAYOUT = 6
TABLES = """
CREATE TABLE schema_migrations
    (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, set_name TEXT NOT NULL, case_key TEXT NOT NULL,
    repeat INTEGER NOT NULL, benchmark TEXT NOT NULL, framework TEXT NOT NULL,
    backend TEXT NOT NULL, phase TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
    artifacts TEXT NOT NULL, plan TEXT NOT NULL, owner TEXT, measurement TEXT, location TEXT,
    image_digest TEXT, files_at TEXT,
    CONSTRAINT runs_one_of_each_repeat UNIQUE (set_name, case_key, repeat));
CREATE INDEX runs_by_time ON runs (created_at);
CREATE TABLE transitions (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, number INTEGER NOT NULL,
    phase TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, cause TEXT NOT NULL, cause_id TEXT,
    action TEXT, unrecoverable BOOLEAN NOT NULL DEFAULT FALSE, PRIMARY KEY (run_id, number));
CREATE TABLE claims (
    run_id TEXT PRIMARY KEY, owner TEXT NOT NULL, process TEXT NOT NULL,
    heartbeat DOUBLE PRECISION NOT NULL)
"""


def make(db: sa.Connection, runs: Iterable[Run], *, files_at: str = "a-laptop:/data") -> None:
    """Make the tables, with the rows of some runs."""
    for statement in TABLES.split(";"):
        db.execute(sa.text(statement))
    for number in range(1, LAYOUT + 1):
        row = {"number": number, "name": f"m00{number}", "applied_at": 1.0}
        _insert(db, "schema_migrations", row)
    for run in runs:
        plan = run.plan
        names = ("run_id", "set_name", "repeat", "benchmark", "framework", "backend")
        values = {name: getattr(plan, name) for name in names} | {
            "case_key": f"of 0.2.0, {run.case_key}",
            "phase": run.phase.value,
            "created_at": run.created_at,
            "artifacts": f"runs/{plan.run_id}",
            "files_at": files_at,
            "image_digest": run.image_digest,
        }
        for name in ("plan", "owner", "measurement", "location"):
            value = getattr(run, name)
            values[name] = None if value is None else msgspec.json.encode(value).decode()
        _insert(db, "runs", values)
        for number, step in enumerate(run.history, start=1):
            columns = ("phase", "at", "cause", "cause_id", "action", "unrecoverable")
            values = {name: getattr(step, name) for name in columns}
            values |= {"run_id": plan.run_id, "number": number, "phase": step.phase.value}
            _insert(db, "transitions", values)


def _insert(db: sa.Connection, table: str, values: dict[str, object]) -> None:
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in values]
    db.execute(sa.insert(sa.table(table, *columns)).values(values))
