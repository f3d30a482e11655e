"""Values as lines of a golden file: each with its name, sentences by their numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Name every value below a struct, with points between the names; leave out None."""
    value = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict | msgspec.Struct):
        for number, each in enumerate(value):
            yield from flat(each, f"{name}.{number}")
    elif isinstance(value, str) and " " in value and value.endswith("."):
        yield name, f"sentence {numbers(value)}"
    elif value is not None:
        yield name, round(value, 6) if isinstance(value, float) else value


def numbers(sentence: str) -> str:
    """Keep the numbers of a sentence: its words may change."""
    return " ".join(re.findall(r"(?<![\w-])\d+(?:[.,:]\d+)*", sentence)) or "-"


def differences(whole: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Write what differs, a line each."""
    for key in sorted(whole.keys() | found.keys()):
        if found.get(key) != whole.get(key):
            yield f"  {key}: {found.get(key)}"


def check(file: Path, text: str) -> None:
    """Compare with a golden file, or write it."""
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
