"""A store as 0.4.0 left it: it had other tables, and no Benchmarks of its own."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

from k8sbench.store.database import DATABASE, FORMER

TABLES = (
    "CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, closed BOOLEAN NOT NULL, record TEXT NOT NULL)",
)
"""Tables of its index, with some of their columns."""


def make(store: Path) -> None:
    """Make a store one of 0.4.0; nobody may have it open."""
    for run in (store / "runs").iterdir():
        found = json.loads((run / "run.json").read_text())
        for name in ("object_name", "observed"):
            del found["plan"][name]
        found["plan"]["requested_by"] = None
        (run / "run.json").write_text(json.dumps(found))
    shutil.rmtree(store / "benchmarks")
    for index in store.glob(f"{DATABASE}*"):
        index.unlink()
    with contextlib.closing(sqlite3.connect(store / FORMER)) as db, db:
        for statement in TABLES:
            db.execute(statement)
