"""Accepted levels: one file in the store's folder, the newest of each case."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from k8sbench.model.measurement import SCHEMA
from k8sbench.model.series import AcceptedLevel
from k8sbench.store import disk, json_files

FILE = "accepted-levels.json"


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    levels: tuple[AcceptedLevel, ...] = ()


def read(root: Path) -> tuple[AcceptedLevel, ...]:
    """Read the accepted levels; none if there is no file."""
    path = root / FILE
    content = disk.read(path) if root.is_dir() else None
    if content is None:
        return ()
    return decode(content, path, f"Remove {path}, and accept the levels again.")


def decode(
    content: bytes, source: object, action: str = json_files.DAMAGED_OR_OTHER
) -> tuple[AcceptedLevel, ...]:
    """Decode a file of levels; raises :class:`StoreError` if damaged or of a newer version."""
    return json_files.decode_json(content, _Document, f"{source}", action).levels


def add(root: Path, levels: Iterable[AcceptedLevel], *, replaces: bool = True) -> None:
    """Add levels; each replaces the earlier one of its case, unless that stays."""
    known = read(root)
    both = (*known, *levels) if replaces else (*levels, *known)
    by_line = {level.line: level for level in both}
    document = _Document(levels=tuple(by_line.values()))
    disk.write_whole(root / FILE, json_files.encode_file(document))
