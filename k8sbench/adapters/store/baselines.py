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


class BaselineFiles:
    """Baselines of a SQLite store, as files by their names."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def contents(self) -> dict[str, bytes]:
        """Read all of them, by name."""
        with disk.translated(f"read {self._folder}"):
            paths = sorted(self._folder.glob(f"[!.]*{_SUFFIX}"))
            return {path.name.removesuffix(_SUFFIX): path.read_bytes() for path in paths}

    def put(self, new: Baseline, content: bytes) -> None:
        """Write one, replacing another of its name."""
        path = self._folder / f"{new.name}{_SUFFIX}"
        with disk.translated(f"write {path}"):
            disk.make_folder(self._folder)
            disk.write_whole(path, msgspec.json.format(content, indent=2) + b"\n")

    def remove(self, name: str) -> None:
        """Remove one."""
        with disk.translated(f"remove the baseline {name}"):
            (self._folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


class BaselineRows:
    """Baselines of a PostgreSQL store, within a transaction."""

    def __init__(self, db: sa.Connection) -> None:
        self._db = db

    def contents(self) -> dict[str, bytes]:
        """Read all of them, by name."""
        rows = self._db.execute(sa.select(BASELINES).order_by(BASELINES.c.name))
        return {row.name: row.content.encode() for row in rows}

    def put(self, new: Baseline, content: bytes) -> None:
        """Write one, replacing another of its name."""
        self.remove(new.name)
        row = {"name": new.name, "saved_at": new.saved_at, "content": content.decode()}
        self._db.execute(sa.insert(BASELINES).values(row))

    def remove(self, name: str) -> None:
        """Remove one."""
        self._db.execute(sa.delete(BASELINES).where(BASELINES.c.name == name))


def save(kept: BaselineFiles | BaselineRows, new: Baseline, *, replace: bool) -> None:
    """Keep a baseline."""
    name, content = baseline.checked_name(new.name), artifacts.encoded(new)
    known = kept.contents().get(name)
    if known is not None and not replace and _read(name, known) != new:
        raise UsageError(
            f"There is a baseline {name!r} already.",
            "Choose another name, or replace it with --replace.",
        )
    kept.put(new, content)


def load(kept: BaselineFiles | BaselineRows) -> list[Baseline]:
    """Read all baselines, by name."""
    return [_read(name, content) for name, content in kept.contents().items()]


def _read(name: str, content: bytes) -> Baseline:
    try:
        kept = artifacts.decoded(content, Baseline, f"The baseline {name}")
    except StoreError as error:
        action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
        raise StoreError(error.message, action) from error
    return msgspec.structs.replace(kept, name=name)


def remove(kept: BaselineFiles | BaselineRows, name: str) -> None:
    """Remove a baseline, also one that cannot be read; :class:`NotFound` where there is none."""
    names = list(kept.contents())
    if name not in names:
        action = did_you_mean(name, names) + "k8sbench baseline list shows them."
        raise NotFound(f"There is no baseline {name!r}.", action)
    kept.remove(name)
