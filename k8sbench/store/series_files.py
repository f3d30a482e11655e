"""Files of series in the store's folder: accepted levels, and ranges of iterations.

The files are no part of the index: a rebuilt index, older sets that are imported later and removed
runs change neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from k8sbench.model.measurement import SCHEMA
from k8sbench.model.series import AcceptedLevel, Line, SeriesRange
from k8sbench.store import disk, json_files


class _OfCase(Protocol):
    """An entry of a file."""

    @property
    def line(self) -> Line:
        """Values that the sets of the case share."""


Entry = TypeVar("Entry", bound=_OfCase)


class SeriesFile(Generic[Entry]):
    """A file in the store's folder with at most one entry for each case."""

    def __init__(self, name: str, document: type[Any], remedy: str) -> None:
        self.name = name
        self._document = document
        """A document whose last field is the entries."""
        self._remedy = remedy
        """End of the advice to remove a damaged file."""

    def read(self, root: Path) -> tuple[Entry, ...]:
        """Read the entries; none if there is no file."""
        path = root / self.name
        content = disk.read(path) if root.is_dir() else None
        if content is None:
            return ()
        return self.decode(content, path, f"Remove {path}{self._remedy}")

    def decode(
        self, content: bytes, source: object, action: str = json_files.DAMAGED_OR_OTHER
    ) -> tuple[Entry, ...]:
        """Decode the file; raises :class:`StoreError` if damaged or of a newer version."""
        document = json_files.decode_json(content, self._document, f"{source}", action)
        entries: tuple[Entry, ...] = getattr(document, self._document.__struct_fields__[-1])
        return entries

    def add(self, root: Path, entries: Iterable[Entry], *, replaces: bool) -> None:
        """Add entries; the earlier one of a case stays unless they replace it."""
        by_line = {entry.line: entry for entry in self.read(root)}
        for entry in entries:
            if replaces or entry.line not in by_line:
                by_line[entry.line] = entry
        document = self._document(**{self._document.__struct_fields__[-1]: tuple(by_line.values())})
        disk.write_whole(root / self.name, json_files.encode_file(document))


class _Levels(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    levels: tuple[AcceptedLevel, ...] = ()


class _Ranges(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    ranges: tuple[SeriesRange, ...] = ()


LEVELS = SeriesFile[AcceptedLevel](
    "accepted-levels.json", _Levels, ", and accept the levels again."
)
"""Accepted levels, the newest of each case."""
RANGES = SeriesFile[SeriesRange]("series-ranges.json", _Ranges, ": the ranges are then fixed anew.")
"""Ranges of iterations over which the sets of a case are compared."""
