"""Words of reports and tables in English and Chinese (``--lang``).

Figures, names, ids and reasons stay in English, so that users find them in the documentation.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from k8sbench.report.tables import Cell, Table

Lang = Literal["en", "zh"]


@functools.cache
def texts() -> dict[str, dict[str, Any]]:
    """Return the content of ``words.yaml``."""
    from k8sbench.model import yaml_text  # noqa: PLC0415 - most commands print no such word

    read: dict[str, dict[str, Any]] = yaml_text.load(
        importlib.resources.files(__package__).joinpath("words.yaml").read_text("utf-8")
    )
    return read


def say(lang: Lang, word: str, **values: object) -> str:
    """Return a text of a published report, its placeholders filled."""
    return str(texts()["readme"][word][lang == "zh"]).format(**values)


def title(text: str) -> str:
    """Translate a title; an unknown one stays."""
    titles = texts()["titles"]
    name, bracket, unit = text.partition(" (")
    if text.endswith("/s"):  # the default table names throughput by its unit
        return f"{titles['throughput']}({text})"
    if text not in titles and bracket and name in titles:
        return f"{titles[name]}({unit}"
    return str(titles.get(text, text))


def heading(text: str) -> str:
    """Translate a title of the published reports' tables."""
    found: str = texts()["report"].get(text) or title(text)
    return found


def translated(tables: Sequence[Table]) -> list[Table]:
    """Return tables with Chinese titles of tables and columns.

    Notes name columns by these titles.
    """
    return [
        msgspec.structs.replace(
            table,
            title=table.title and title(table.title),
            columns=tuple(
                msgspec.structs.replace(column, title=title(column.title))
                for column in table.columns
            ),
            rows=tuple(
                tuple(Cell(cell.text, tuple(map(_note, cell.notes))) for cell in row)
                for row in table.rows
            ),
            notes=tuple(map(_note, table.notes)),
        )
        for table in tables
    ]


def _note(text: str) -> str:
    """Translate the column's name at the beginning of a note."""
    name, colon, rest = text.partition(": ")
    titles = texts()["titles"]
    found = titles.get(name) or titles.get(name.lower())
    return f"{found}{colon}{rest}" if found and colon else text
