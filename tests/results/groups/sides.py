"""Two sets that are compared."""

from collections.abc import Iterable
from typing import Any

from k8sbench.model.compared import Comparison
from k8sbench.model.group import Group
from k8sbench.model.run import Run
from k8sbench.results.groups import comparison
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.sides import Side
from tests.results.groups.grouped import Grouped
from tests.results.report.factory import START, repeats

A, B = (100.0, 101.0, 102.0, 100.5, 101.5), (90.0, 91.0, 92.0, 90.5, 91.5)

NOT_COMPARABLE = (
    *("smoke", "cpu", "no-figure", "benchmark", "case", "precision", "batch", "gpu-model"),
    *("device", "settings", "estimator", "model", "arithmetic", "data", "backend", "mode"),
    *("metric", "target", "weights", "length", "schedule", "too-short", "no-profile"),
)
"""Ids of everything that can forbid a ratio."""


def side(name: str, runs: Iterable[Run]) -> Side:
    found = list(runs)
    return Side(name=name, groups=tuple(groups(found)), runs={one.run_id: one for one in found})


def old(rates: Iterable[float] = A, **fields: Any) -> list[Run]:
    return repeats(rates, set_name="old", at=START, **fields)


def new(rates: Iterable[float] = B, **fields: Any) -> list[Run]:
    return repeats(rates, set_name="new", at=START + 1e6, **fields)


def compared(
    a: Iterable[Run],
    b: Iterable[Run],
    limit: float | None = None,
    among: Iterable[Group] = (),
    **fields: Any,
) -> Comparison:
    one = side("a", a)
    two = side("b", b)
    known = Grouped([*among, *one.groups, *two.groups])
    return comparison.compare(one, two, limit=limit, earlier=known, **fields)
