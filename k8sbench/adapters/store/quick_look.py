"""Names in a store, for a shell that completes words: read with nothing but SQLite.

Opening a store imports SQLAlchemy, which takes longer than a person waits for a key. What cannot be
read at once (a database server, another version, a lock) has no names here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from k8sbench.adapters.store.places import place

DATABASE = "k8sbench.db"
MOST = 1000
"""Names; a shell shows no more."""
WAIT_SECONDS = 0.2


def runs(where: str | None) -> list[str]:
    """Return the ids of the newest runs, the newest first."""
    return _names(where, "SELECT run_id FROM runs ORDER BY created_at DESC, run_id LIMIT ?")


def sets(where: str | None) -> list[str]:
    """Return the names of the newest sets, the newest first."""
    newest = "SELECT set_name FROM runs GROUP BY set_name ORDER BY max(created_at) DESC LIMIT ?"
    return _names(where, newest)


def baselines(where: str | None) -> list[str]:
    """Return the names of the baselines, the one that was saved last first."""
    return _names(where, "SELECT name FROM baselines ORDER BY saved_at DESC, name LIMIT ?")


def _names(where: str | None, query: str) -> list[str]:
    folder = place(where)
    if not isinstance(folder, Path):
        return []
    file = f"{(folder / DATABASE).as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(file, uri=True, timeout=WAIT_SECONDS)) as db:
            return [str(name) for (name,) in db.execute(query, (MOST,))]
    except sqlite3.Error:
        return []
