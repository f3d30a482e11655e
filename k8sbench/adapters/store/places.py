"""Where a store is: what ``--store`` means, and where one lies when nothing is said."""

from __future__ import annotations

import os
from pathlib import Path

from k8sbench.adapters.store import database
from k8sbench.model.errors import StoreError, UsageError

STORE_VARIABLE = "K8SBENCH_STORE"


def place(where: str | None) -> Path | str:
    """Tell what a ``--store`` means: a folder, or (as text) a database's URL."""
    where = where if where is not None else os.environ.get(STORE_VARIABLE) or None
    if where is None:
        return default_folder()
    if database.is_url(where):
        return where
    if not where.strip() or "\0" in where:
        raise UsageError(f"{where!r} names no place.", "Give a folder, or a postgresql:// URL.")
    try:
        path = Path(where).expanduser().absolute()
        path.exists()  # says no to a name that is too long
    except (RuntimeError, OSError) as wrong:  # RuntimeError: no home for a ~
        raise UsageError(f"{where!r} cannot name a store: {wrong}.", "Give a folder.") from wrong
    return path


def default_folder() -> Path:
    """Tell where a user's data lies when nothing else is said."""
    named = os.environ.get("XDG_DATA_HOME", "")
    try:
        # A relative one is to be ignored, says the XDG specification.
        data = Path(named) if named.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError as wrong:
        raise StoreError(
            "There is no home folder to keep the store in.",
            f"Name a place with --store or {STORE_VARIABLE}.",
        ) from wrong
    return data / "k8sbench"
