"""Checks k8sbench's files for import cycles: ``make imports``.

Imports inside functions and under ``TYPE_CHECKING`` count, too. import-linter checks folders; this
checks files, by the same graph.
"""

from __future__ import annotations

import sys

import grimp


def cycles(package: str) -> list[list[str]]:
    """Return one circle of imports for each file that is in any, shortest first."""
    graph = grimp.build_graph(package, cache_dir=None)
    found: dict[frozenset[str], list[str]] = {}
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            way = graph.find_shortest_chain(imported, module)
            if way is not None:
                found.setdefault(frozenset(way), [module, *way])
    return sorted(found.values(), key=len)


if __name__ == "__main__":
    circles = cycles("k8sbench")
    for circle in circles:
        print(" -> ".join(circle))
    sys.exit(bool(circles))
