"""The whole output for a small store, as reviewed text. Renewed by ``make golden``."""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.report import document, formats, layout, noted_tables
from k8sbench.results.report.columns import Form
from tests.results.groups.grouped import report
from tests.results.report import example
from tests.unit import goldens

FOLDER = pathlib.Path(__file__).parent / "golden"


def _text(made: Report, form: Form = "table", width: int | None = None) -> str:
    return noted_tables.text(layout.tables(made.results, made.parities, form), width=width)


def _markdown(made: Report) -> str:
    return noted_tables.markdown(layout.tables(made.results, made.parities, "document"))


def _trained(_: Report) -> str:
    return _markdown(report(example.trained(), Wanted()))


def _document(made: Report) -> str:
    """Write each value of the JSON document as JSON, those of a row together."""
    whole = document.document(made.results, made.parities)
    rows = [("document", whole | {"rows": len(whole["rows"])})]
    for number, row in enumerate(whole["rows"]):
        rows.append((f"{number} {row['benchmark']} {row['framework']} {row['case']}", row))
    return goldens.table((name, dict(_values(row))) for name, row in rows)


def _values(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    nested = isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value)
    inner = dict(enumerate(value)) if nested else value
    if isinstance(inner, dict) and inner:
        for key, each in inner.items():
            yield from _values(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, json.dumps(value, ensure_ascii=False)


FORMS: dict[str, Callable[[Report], str]] = {
    "table.txt": _text,
    "wide.txt": lambda made: _text(made, "wide"),
    "terminal-80.txt": lambda made: _text(made, width=80),
    "table.md": _markdown,
    "trained.md": _trained,
    "document.txt": _document,
    "results.csv": lambda made: formats.csv_text(document.flat(made.results)),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_output_is_the_golden_one(name: str) -> None:
    goldens.check(FOLDER / name, FORMS[name](example.made()))
