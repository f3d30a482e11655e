"""Values of the chart with their comments, and the generated table."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.tiers import ROOT

CHART = ROOT / "charts"
BEGIN, END = "<!-- values: written by make golden -->", "<!-- values: end -->"
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][A-Za-z0-9]*):")


class Value(NamedTuple):
    """One value that can be set."""

    path: str
    default: Any
    about: str
    """The comment before its key that begins with ``# --``."""


@functools.cache
def defaults() -> dict[str, Any]:
    """The values as Helm reads them."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


@functools.cache
def described() -> list[Value]:
    """Return every value with a description, in the file's order."""
    found: list[Value] = []
    comment: list[str] = []
    above: list[tuple[int, str]] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment = (
                [text[4:].strip()] if text.startswith("# --") else [*comment, text[1:].strip()]
            )
            continue
        if key := _KEY.match(line):
            indent = len(key["indent"])
            above = [
                *((depth, name) for depth, name in above if depth < indent),
                (indent, key["key"]),
            ]
            if comment:
                path = ".".join(name for _, name in above)
                found.append(Value(path, at(defaults(), path), " ".join(comment)))
        comment = []
    return found


def undescribed() -> list[str]:
    """Return the paths that have neither a description nor anything described in them."""
    known = {value.path for value in described()}

    def missing(values: dict[str, Any], above: str) -> Iterator[str]:
        for key, value in values.items():
            path = f"{above}{key}"
            if path in known:
                continue
            if isinstance(value, dict) and value:
                yield from missing(value, f"{path}.")
            else:
                yield path

    return list(missing(defaults(), ""))


def required() -> set[str]:
    """Return the paths that the schema refuses to do without."""

    def names(part: dict[str, Any], above: str) -> Iterator[str]:
        yield from (f"{above}{key}" for key in part.get("required", ()))
        for key, inner in part.get("properties", {}).items():
            yield from names(inner, f"{above}{key}.")

    return set(names(json.loads((CHART / "values.schema.json").read_text()), ""))


def at(values: Any, path: str) -> Any:
    """Return what is at a path."""
    for key in path.split("."):
        values = values[key]
    return values


def table() -> str:
    """Return the table of the README, as Markdown."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for value in described():
        about = value.about.replace("|", "\\|")
        rows.append(f"| `{value.path}` | `{json.dumps(value.default)}` | {about} |")
    return "\n".join(rows)
