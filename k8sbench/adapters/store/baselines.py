"""Baselines in a store: rows of the database, and beside a SQLite database a file each.

The file is written first, and is what a rebuild reads: a SQLite database may be made anew. A
PostgreSQL database is the team's, and no machine's files may bring back what another has removed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, disk
from k8sbench.adapters.store.rows import BASELINES
from k8sbench.model import baseline
from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import BenchError, NotFound, StoreError, UsageError, did_you_mean

FOLDER = "baselines"
_SUFFIX = ".json"


def save(db: sa.Connection, root: Path | None, new: Baseline, *, replace: bool) -> None:
    """Keep a baseline; ``root`` is of a store that keeps files of them, too."""
    content = artifacts.encoded(new)
    known = db.scalar(sa.select(BASELINES.c.content).where(BASELINES.c.name == new.name))
    if known is not None and known != content.decode() and not replace:
        raise UsageError(
            f"There is a baseline {new.name!r} already.",
            "Choose another name, or replace it with --replace.",
        )
    if root is not None:
        path = file(root, baseline.checked_name(new.name))
        with disk.translated(f"write {path}"):
            disk.make_folder(path.parent)
            disk.write_whole(path, msgspec.json.format(content, indent=2) + b"\n")
    _put(db, new, content.decode())


def _put(db: sa.Connection, new: Baseline, content: str) -> None:
    db.execute(sa.delete(BASELINES).where(BASELINES.c.name == new.name))
    row = {"name": new.name, "saved_at": new.saved_at, "content": content}
    db.execute(sa.insert(BASELINES).values(row))


def load(db: sa.Connection) -> list[Baseline]:
    """Read all baselines, by name."""
    wanted = sa.select(BASELINES.c.name, BASELINES.c.content).order_by(BASELINES.c.name)
    return [
        artifacts.decoded(row.content, Baseline, f"The baseline {row.name}")
        for row in db.execute(wanted)
    ]


def remove(db: sa.Connection, root: Path | None, name: str) -> None:
    """Remove a baseline, also one that cannot be read; :class:`NotFound` where there is none."""
    known = list(db.scalars(sa.select(BASELINES.c.name)))
    if name not in known:
        action = did_you_mean(name, known) + "k8sbench baseline list shows them."
        raise NotFound(f"There is no baseline {name!r}.", action)
    if root is not None:
        path = file(root, name)
        with disk.translated(f"remove {path}"):
            path.unlink(missing_ok=True)
    db.execute(sa.delete(BASELINES).where(BASELINES.c.name == name))


def restore(db: sa.Connection, root: Path, wrong: Callable[[Path, StoreError], None]) -> None:
    """Bring the rows up to the files; ``wrong`` takes the files that cannot be read."""
    with disk.translated(f"read {root / FOLDER}"):
        paths = sorted((root / FOLDER).glob(f"[!.]*{_SUFFIX}"))
    for path in paths:
        try:
            with disk.translated(f"read {path}"):
                content = path.read_bytes()
            found = artifacts.decoded(content, Baseline, str(path))
            if found.name != path.name.removesuffix(_SUFFIX):
                raise StoreError(f"{path} holds the baseline {found.name!r}.")
            baseline.checked_name(found.name)
        except BenchError as fault:
            wrong(path, StoreError(fault.message, fault.action))
        else:
            _put(db, found, artifacts.encoded(found).decode())


def file(root: Path, name: str) -> Path:
    """Return the file of a baseline."""
    return root / FOLDER / f"{name}{_SUFFIX}"
