"""Patterns for lines with JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_OBJECT = re.compile(r"\{\s*\"")
_JSON = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class JsonMatch(NamedTuple):
    """A match of the fields of a JSON object; item 0 is its text."""

    text: str
    at: int
    """Its end in the line."""
    named: dict[str, str | None]

    def end(self) -> int:
        """Return the place behind it."""
        return self.at

    def groupdict(self) -> dict[str, str | None]:
        """Return the values, by the names of their groups."""
        return self.named


class JsonFields:
    """A pattern for JSON objects, whose groups are values at paths.

    A path has keys and list indexes: ``data.train.rate``, ``step.1``. Only objects whose text holds
    the expression ``where`` match.
    """

    def __init__(self, paths: Mapping[str, str], where: str = "") -> None:
        self._paths = paths
        self._where = re.compile(where)
        self.groupindex = {name: number for number, name in enumerate(paths, 1)}

    def search(self, text: str, start: int = 0, /) -> JsonMatch | None:
        """Return the first object from a place on with a value besides a stamp."""
        return next(self.finditer(text, start), None)

    def finditer(self, text: str, start: int = 0, /) -> Iterator[JsonMatch]:
        """Yield all such objects; one that is torn is skipped."""
        while begin := _OBJECT.search(text, start):
            try:
                found, start = _JSON.raw_decode(text, begin.start())
            except ValueError:
                start = begin.end()
                continue
            except RecursionError:
                return
            named = {name: _at(found, path) for name, path in self._paths.items()}
            own = text[begin.start() : start]
            known = any(value for name, value in named.items() if name != "stamp")
            if known and self._where.search(own):
                yield JsonMatch(own, start, named)


def _at(value: object, path: str) -> str | None:
    """Return the text or number at a path; keys may hold dots themselves."""
    if isinstance(value, list):
        value = {str(place): each for place, each in enumerate(value)}
    if not isinstance(value, dict):
        return None
    if isinstance(found := value.get(path), str):
        return found
    inner = (
        _at(each, path[len(key) + 1 :]) for key, each in value.items() if path.startswith(f"{key}.")
    )
    return next(filter(None, inner), None)
