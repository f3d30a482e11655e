"""Content of the page: its rows and cases, their dates, and the addresses within it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.messages import Lang
from k8sbench.model import times
from k8sbench.model.compared import CaseHistory, Comparison, OpenBegin
from k8sbench.model.group import Group, Parity, Result
from k8sbench.model.plain_text import slug
from k8sbench.results.report import group_words
from k8sbench.results.report.plot import History

MOST_HISTORIES = 8
"""Maximum number of runs whose course is drawn on a page, which is to stay small."""
LONGEST_ID = 60
"""Maximum number of letters that the name of a case gives to its id."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a page."""

    results: Sequence[Result]
    parities: Sequence[Parity] = ()
    histories: Sequence[History] = ()
    """Histories, at most one run per row."""
    series: Sequence[CaseHistory] = ()
    """The cases of the rows over their sets."""
    compared: Comparison | None = None
    """Comparison of the newest two nights; None without two."""
    begins: Sequence[OpenBegin] = ()
    """Sets in which open changes began, and what may explain them."""
    files: Mapping[str, Sequence[str]] = {}
    """Run id → its files, which the operator serves; empty: no links."""
    at: float
    """Time of creation, Unix seconds."""
    version: str
    """Version of k8sbench."""
    lang: Lang = "en"
    title: str | None = None
    """Title; None: the default title."""


def dates_of(page: Page) -> dict[str, str]:
    """Map each set with dates → its begin."""
    begins: dict[str, float] = {}
    groups = [result.group for result in page.results]
    groups += [point.group for one in page.series for point in one.points]
    for group in groups:
        if group.dates is not None:
            name = group.key.set_name
            begins[name] = min(group.began[0], begins.get(name, group.began[0]))
    return {name: times.minute(at) for name, at in begins.items()}


def dated(name: str, dates: Mapping[str, str]) -> str:
    """Write a set with its date, if it has one."""
    return f"{name} ({dates[name]})" if name in dates else name


def case_id(group: Group) -> str:
    """Return the id of a case, which is equal on the pages of all nights."""
    row = group.row
    digest = hashlib.sha256(f"{row.series} {row.gpu_model}".encode()).hexdigest()[:6]
    words = slug(group_words.case_name(group))[:LONGEST_ID].rstrip("-")
    return f"case-{words}-{digest}"


def ids_of(results: Sequence[Result]) -> dict[str, str]:
    """Map group id → id of its row: that of the case for its newest row, else its own."""
    ids: dict[str, str] = {}
    newest_first = sorted(results, key=lambda result: result.group.began, reverse=True)
    for group in (result.group for result in newest_first):
        case = case_id(group)
        ids[group.key.id] = group.key.id if case in ids.values() else case
    return ids


def unbroken(text: str) -> str:
    """Let no line begin with the sign of a share."""
    return text.replace(" %", "\u00a0%")
