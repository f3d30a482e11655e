"""Where a store is: what ``--store`` means, and the default place."""

from __future__ import annotations

import os
import re
from pathlib import Path

from k8sbench.model.errors import StoreError, UsageError

STORE_VARIABLE = "K8SBENCH_STORE"


def place(where: str | None) -> Path | str:
    """Return what a ``--store`` means: a folder, or (as text) a database's URL."""
    if where is None:
        # From a file or a Secret it may come with a line end.
        where = os.environ.get(STORE_VARIABLE, "").strip() or None
    if where is None:
        return default_folder()
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
        return where
    if not where.strip() or "\0" in where:
        raise UsageError(f"{where!r} names no place.", "Give a folder, or a postgresql:// URL.")
    try:
        return Path(where).expanduser().absolute()
    except RuntimeError as wrong:  # no home for a ~
        raise UsageError(f"{where!r} cannot name a store: {wrong}.", "Give a folder.") from wrong


def default_folder() -> Path:
    """Return where a user's data lies by default."""
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
