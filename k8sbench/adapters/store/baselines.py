"""Baselines: a file each in the store's folder, on PostgreSQL a row each: they are the team's."""

from __future__ import annotations

from pathlib import Path

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, disk
from k8sbench.adapters.store.index import BASELINES
from k8sbench.model import baseline
from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import NotFound, StoreError, UsageError, did_you_mean

FOLDER = "baselines"
_SUFFIX = ".json"


def save(root: Path, db: sa.Connection, new: Baseline, *, replace: bool) -> None:
    """Keep a baseline."""
    name, content = baseline.checked_name(new.name), artifacts.encoded(new)
    known = _contents(root, db).get(name)
    if known is not None and not replace and _read(name, known) != new:
        raise UsageError(
            f"There is a baseline {name!r} already.",
            "Choose another name, or replace it with --replace.",
        )
    if db.dialect.name == "postgresql":
        row = {"name": name, "saved_at": new.saved_at, "content": content.decode()}
        db.execute(sa.delete(BASELINES).where(BASELINES.c.name == name))
        db.execute(sa.insert(BASELINES).values(row))
        return
    disk.write_whole(_path(root, name), msgspec.json.format(content, indent=2) + b"\n")


def load(root: Path, db: sa.Connection) -> list[Baseline]:
    """Read all baselines, by name."""
    return [_read(name, content) for name, content in _contents(root, db).items()]


def remove(root: Path, db: sa.Connection, name: str) -> None:
    """Remove a baseline, also one that cannot be read; :class:`NotFound` where there is none."""
    names = list(_contents(root, db))
    if name not in names:
        action = did_you_mean(name, names) + "k8sbench baseline list shows them."
        raise NotFound(f"There is no baseline {name!r}.", action)
    if db.dialect.name == "postgresql":
        db.execute(sa.delete(BASELINES).where(BASELINES.c.name == name))
        return
    with disk.translated(f"remove the baseline {name}"):
        _path(root, name).unlink(missing_ok=True)


def _contents(root: Path, db: sa.Connection) -> dict[str, bytes]:
    if db.dialect.name == "postgresql":
        rows = db.execute(sa.select(BASELINES).order_by(BASELINES.c.name))
        return {row.name: row.content.encode() for row in rows}
    with disk.translated(f"read {root / FOLDER}"):
        paths = sorted((root / FOLDER).glob(f"[!.]*{_SUFFIX}"))
        return {path.name.removesuffix(_SUFFIX): path.read_bytes() for path in paths}


def _path(root: Path, name: str) -> Path:
    return root / FOLDER / f"{name}{_SUFFIX}"


def _read(name: str, content: bytes) -> Baseline:
    try:
        kept = artifacts.decoded(content, Baseline, f"The baseline {name}")
    except StoreError as error:
        action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
        raise StoreError(error.message, action) from error
    return msgspec.structs.replace(kept, name=name)
