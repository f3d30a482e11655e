"""Golden files with rows of short values.

A row is the name of a case and its values. The file shows all values of the first row, and of each
other its differences from the most similar row above it. Values of one struct share a line.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

WIDTH = 120
Row = Mapping[str, Any]


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of a struct, without empty ones."""
    value = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict | msgspec.Struct):
        for number, each in enumerate(value):
            yield from flat(each, f"{name}.{number}")
    elif isinstance(value, str) and " " in value and value.endswith("."):
        yield name, f"sentence {numbers(value)}"
    elif value is not None and value not in ((), []):
        yield name, value


def numbers(sentence: str) -> str:
    """Keep the numbers of a sentence: its words may change."""
    return " ".join(re.findall(r"(?<![\w-])\d+(?:[.,:]\d+)*", sentence)) or "-"


def table(rows: Iterable[tuple[str, Row]]) -> str:
    """Write rows, each as what differs from the most alike of those before it."""
    before: dict[str, Row] = {"": {}}
    lines: list[str] = []
    for name, row in rows:
        assert name not in before, name
        different = {like: list(_differences(other, row)) for like, other in before.items()}
        like = min(different, key=lambda each: sum(map(len, different[each])))
        lines += [f"{name}, as {like}:" if like else f"{name}:", *different[like]]
        before[name] = row
    return "\n".join(lines) + "\n"


def _differences(whole: Row, found: Row) -> Iterator[str]:
    """Write what differs, the values of one struct beside each other."""
    all_names = sorted(whole.keys() | found.keys(), key=lambda name: (_parent(name), name))
    for parent, names in itertools.groupby(all_names, _parent):
        keys = list(names)
        head = f"{parent}:" if parent else ""
        if parent and not found.keys() & keys:
            yield f"  {head} none"
            continue
        changed = [key for key in keys if found.get(key) != whole.get(key)]
        line = f"  {head}" if head else " "
        for key in changed:
            part = f" {key.rpartition('.')[2]}={_shown(found.get(key))}"
            if len(line) + len(part) > WIDTH and line.strip() != head:
                yield line
                line = "   "
            line += part
        if changed:
            yield line


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _shown(value: Any) -> str:
    """Format a value: six decimals, unquoted texts with spaces quoted."""
    if isinstance(value, float):
        return str(round(value, 6))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({', '.join(map(_shown, value))})"
    is_text = isinstance(value, str) and " " in value and not value.startswith(('"', "["))
    return repr(value) if is_text else str(value)


def objects(manifests: Iterable[Any]) -> str:
    """Write Kubernetes objects as YAML, their innermost parts on a line each."""
    return yaml.safe_dump_all(manifests, default_flow_style=None, sort_keys=False, width=WIDTH)


def check(file: Path, text: str) -> None:
    """Compare with a golden file, or write it."""
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "K8SBENCH_UPDATE_GOLDEN=1 writes it anew"
