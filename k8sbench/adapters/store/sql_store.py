"""Opening a store: a folder with a SQLite index, or a PostgreSQL database by its URL."""

from __future__ import annotations

import os
import re
from pathlib import Path

from k8sbench.adapters.store import (
    artifacts,
    baselines,
    claims,
    database,
    disk,
    index,
    reindexing,
)
from k8sbench.adapters.store.run_store import IDENTITY_FILE, SqlStore
from k8sbench.model.errors import StoreError, UsageError

__all__ = ["SqlStore", "empty_store", "open_store"]

STORE_VARIABLE = "K8SBENCH_STORE"


def open_store(
    where: str | None = None, *, create: bool = True, folder: Path | None = None
) -> SqlStore:
    """Open a store: a folder, or a ``postgresql://`` URL.

    Without ``where`` it is ``$K8SBENCH_STORE``, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``folder`` is
    where a PostgreSQL store keeps the runs' folders; by default that same data folder.
    """
    root = _place(where)
    if isinstance(root, str):
        folder = folder or _folder()
        _keep_private(folder)
        return reindexing.opened(database.open_postgres(root), folder)
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        runs = (root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")
        if (root / database.DATABASE).exists() or any(runs):
            _keep_private(root)
        elif not create:
            return empty_store(str(root), root)
        else:
            if root.exists() and not any(root.iterdir()):
                disk.restrict(root)  # a folder that was made for it; any other is left as it is
            disk.make_folder(root / artifacts.RUNS)
        return reindexing.opened_folder(root)


def _place(where: str | None) -> Path | str:
    """Return what a ``--store`` means: a folder, or (as text) a database's URL."""
    # From a file or a Secret the variable may come with a line end.
    where = os.environ.get(STORE_VARIABLE, "").strip() or None if where is None else where
    if where is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
        return where
    return _folder(where)


def _folder(named: str | None = None) -> Path:
    """Return a folder by its name, or where a user's data lies by default."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if named is not None:
            if not named.strip() or "\0" in named:
                raise RuntimeError("It is empty, or holds a NUL.")
            return Path(named).expanduser().absolute()
        # A relative one is to be ignored, says the XDG specification.
        base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError as error:  # no home
        raise UsageError(
            f"{named or 'The home folder'!r} cannot name a store: {error}",
            f"Name a folder, or a postgresql:// URL, with --store or {STORE_VARIABLE}.",
        ) from error
    return base / "k8sbench"


def empty_store(shown: str, root: Path) -> SqlStore:
    """What a store that was never made reads like."""
    base = database.open_memory(shown)
    with base.writing() as db:
        index.migrate(db)
    store = SqlStore(base, root)
    store.absent = True
    return store


def _keep_private(root: Path) -> None:
    """Restrict what a version of before made for all to read."""
    runs = root / artifacts.RUNS
    if runs.is_dir() and runs.stat().st_mode & 0o077:
        names = (f"{database.DATABASE}*", IDENTITY_FILE, claims.CLAIMS, baselines.FOLDER)
        disk.restrict(*(path for name in names for path in root.glob(name)), runs)
