"""Counts imports between the parts of the house: ``python -m tests.parts [PART PART]``.

Each module has a part, that of the longest name in :data:`PLACES` which it begins with. The table
has a row for each part that imports and a column for each that is imported. ``!`` marks arrows that
:data:`ALLOWED` does not allow; given two parts, their arrows are named. Imports inside functions
and under ``TYPE_CHECKING`` count, too, as in :mod:`tests.import_cycles`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import grimp

PARTS = ("model", "catalog", "store", "reader", "runner", "results", "app", "cli", "trainers")
PLACES = {
    "": "model",
    "__main__": "cli",
    "adapters": "runner",
    "app": "app",
    "app.connections": "runner",
    "catalog": "catalog",
    "cli": "cli",
    "client": "cli",
    "diagnose": "runner",
    "lifecycle": "runner",
    "messages": "model",
    "model": "model",
    "operator": "app",
    "ports": "runner",
    "reader": "reader",
    "render": "runner",
    "results": "results",
    "store": "store",
    "trainers": "trainers",
}
"""Beginning of a module's name → its part."""
ALLOWED = {
    "model": (),
    "catalog": ("model",),
    "reader": ("model", "catalog"),
    "store": ("model", "catalog"),
    "runner": ("model", "catalog", "store"),
    "results": ("model", "catalog", "store"),
    "app": ("model", "catalog", "store", "reader", "runner", "results"),
    "cli": ("model", "catalog", "app"),
    "trainers": (),
}
"""Part → parts that it may import."""


def part_of(module: str) -> str:
    """Return the part of a module, by its whole name."""
    words = module.split(".")[1:]
    beginnings = (".".join(words[:count]) for count in range(len(words), -1, -1))
    return next(PLACES[beginning] for beginning in beginnings if beginning in PLACES)


def arrows(package: str) -> list[tuple[str, str]]:
    """Return the imports between modules of different parts: who imports, and what."""
    graph = grimp.build_graph(package, cache_dir=None)
    found = [
        (module, imported)
        for module in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(module))
    ]
    return [arrow for arrow in found if part_of(arrow[0]) != part_of(arrow[1])]


def table(found: Iterable[tuple[str, str]]) -> str:
    """Return the counts as text, with a mark for those that are not allowed."""
    counts = Counter((part_of(module), part_of(imported)) for module, imported in found)
    lines = ["".join(f"{name:>10}" for name in ("", *PARTS))]
    for part in PARTS:
        cells = []
        for other in PARTS:
            count = counts[part, other]
            mark = "" if not count or other in ALLOWED[part] else "!"
            cells.append(f"{mark}{count or '.'}")
        lines.append("".join(f"{cell:>10}" for cell in (part, *cells)))
    wrong = sum(count for (a, b), count in counts.items() if b not in ALLOWED[a])
    return "\n".join([*lines, f"{wrong} of {sum(counts.values())} arrows are not allowed"])


if __name__ == "__main__":
    every = arrows("k8sbench")
    if asked := sys.argv[1:]:
        named = [one for one in every if [part_of(one[0]), part_of(one[1])] == asked]
        print("\n".join(f"{module} -> {imported}" for module, imported in named))
    else:
        print(table(every))
