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
"""For another process's transaction: who completes a word waits for the shell."""
_QUERIES = {
    "runs": "SELECT run_id FROM runs ORDER BY created_at DESC, run_id LIMIT ?",
    "sets": "SELECT set_name FROM runs GROUP BY set_name ORDER BY max(created_at) DESC LIMIT ?",
    "baselines": "SELECT name FROM baselines ORDER BY saved_at DESC, name LIMIT ?",
}
"""What has names → how they are read, the newest first."""


def names(kind: str, where: str | None) -> list[str]:
    """Return the names of ``runs``, ``sets`` or ``baselines``; none unless it is in a folder."""
    folder = place(where)
    if not isinstance(folder, Path):
        return []
    file = f"{(folder / DATABASE).as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(file, uri=True, timeout=WAIT_SECONDS)) as db:
            return [str(name) for (name,) in db.execute(_QUERIES[kind], (MOST,))]
    except sqlite3.Error:
        return []
