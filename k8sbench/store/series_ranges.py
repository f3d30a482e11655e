"""Ranges of series: one file in the store's folder, one range for each case.

The file is no part of the index: a rebuilt index, older sets that are imported later and removed
runs change no range.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from k8sbench.model.measurement import SCHEMA
from k8sbench.model.series import SeriesRange
from k8sbench.store import disk, json_files

FILE = "series-ranges.json"


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    ranges: tuple[SeriesRange, ...] = ()


def read(root: Path) -> tuple[SeriesRange, ...]:
    """Read the ranges; none if there is no file."""
    path = root / FILE
    content = disk.read(path) if root.is_dir() else None
    if content is None:
        return ()
    return decode(content, path, f"Remove {path}: the ranges are then fixed anew.")


def decode(
    content: bytes, source: object, action: str = json_files.DAMAGED_OR_OTHER
) -> tuple[SeriesRange, ...]:
    """Decode a file of ranges; raises :class:`StoreError` if damaged or of a newer version."""
    return json_files.decode_json(content, _Document, f"{source}", action).ranges


def add(root: Path, ranges: Iterable[SeriesRange], *, replaces: bool) -> None:
    """Add ranges; the earlier one of a case stays unless they replace it."""
    by_line = {each.line: each for each in read(root)}
    for each in ranges:
        if replaces or each.line not in by_line:
            by_line[each.line] = each
    disk.write_whole(root / FILE, json_files.encode_file(_Document(ranges=tuple(by_line.values()))))
