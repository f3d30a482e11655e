"""Patterns for JSON objects in lines, whose groups are values at paths."""

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
    named: dict[str, str | None]

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

    def search(self, text: str, /) -> JsonMatch | None:
        """Return the first object with a value besides a stamp."""
        return next(self.finditer(text), None)

    def finditer(self, text: str, /) -> Iterator[JsonMatch]:
        """Yield all such objects."""
        for own, values in json_objects(text):
            named = {name: values.get(path) for name, path in self._paths.items()}
            known = any(value for name, value in named.items() if name != "stamp")
            if known and self._where.search(own):
                yield JsonMatch(own, named)


def json_objects(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the JSON objects in a text.

    Of each its part of the text, and its texts and numbers by path. One that is torn is skipped.
    """
    start = 0
    while begin := _OBJECT.search(text, start):
        try:
            found, start = _JSON.raw_decode(text, begin.start())
        except ValueError:
            start = begin.end()
            continue
        except RecursionError:
            return
        yield text[begin.start() : start], dict(_leaves(found, ""))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, value
