"""GPU metrics in tables: a column for each figure that any row has.

What a row lacks, also of figures without a column, its first of these cells says in notes, once for
all that lack for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from k8sbench.model.counts import ABSENT
from k8sbench.model.gpu_metrics import ROW_FIGURES
from k8sbench.model.group import Group
from k8sbench.report import formats
from k8sbench.report.tables import Cell

_NAMES = {metric.column: name for name, metric in ROW_FIGURES.items() if metric.column}
"""Heading of a column → id of its figure."""
_CHINESE = {
    "GPU busy": "GPU利用率",
    "tensor active": "Tensor Core利用率",
    "peak memory": "显存峰值",
    "power": "功率",
    "energy per 1,000": "每千样本能耗",
    "throttled": "降频时间占比",
}
CHINESE = {title: _CHINESE.get(title, title) for title in _NAMES}
"""Heading of a column → the one in Chinese, where there is one."""


def of_group(title: str, group: Group) -> Cell:
    """Write a figure of a group, with what the GPU metrics say of it and what it lacks of them."""
    return _cell(title, group.gpu, (*group.judgements, *lacking(group)))


def lacking(group: Group) -> tuple[str, ...]:
    """Say why a group lacks GPU metrics."""
    return _lacking(group.gpu, lambda name: group.missing.get(name, "no valid figure"))


def shown(rows: Iterable[Container[str]]) -> list[str]:
    """Choose the columns, given the names of the figures that each row has."""
    found = list(rows)
    return [title for title, name in _NAMES.items() if any(name in row for row in found)]


def _cell(title: str, figures: Mapping[str, float], notes: tuple[str, ...] = ()) -> Cell:
    name = _NAMES[title]
    return Cell(_text(name, figures[name]) if name in figures else ABSENT, notes)


def _text(name: str, value: float) -> str:
    metric = ROW_FIGURES[name]
    if metric.unit == "ratio":
        return formats.percent(value)
    # A figure per 1,000 samples may be small.
    return metric.text(value) if name == metric.id else f"{formats.plain(value)} {metric.unit}"


def _lacking(figures: Container[str], why: Callable[[str], str]) -> tuple[str, ...]:
    titles: dict[str, list[str]] = {}
    for title, name in _NAMES.items():
        if name not in figures:
            titles.setdefault(why(name), []).append(title)
    return tuple(
        text if len(its) == len(_NAMES) else f"{', '.join(its)}: {text}"
        for text, its in titles.items()
    )
