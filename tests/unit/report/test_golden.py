"""The whole output for a small store, as reviewed text. Renewed by ``make golden``."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest

from k8sbench.lifecycle.reporting import Report, Wanted, report
from k8sbench.report import document, formats, layout, tables
from k8sbench.report.columns import Form
from tests.unit.report import example

FOLDER = pathlib.Path(__file__).parent / "golden"


def _text(made: Report, form: Form = "table", width: int | None = None) -> str:
    return tables.text(layout.tables(made.results, made.parities, form), width=width)


def _markdown(made: Report) -> str:
    return tables.markdown(layout.tables(made.results, made.parities, "document"))


def _trained(_: Report) -> str:
    return _markdown(report(example.trained(), Wanted()))


FORMS: dict[str, Callable[[Report], str]] = {
    "table.txt": _text,
    "wide.txt": lambda made: _text(made, "wide"),
    "terminal-80.txt": lambda made: _text(made, width=80),
    "table.md": _markdown,
    "trained.md": _trained,
    "results.json": lambda made: (
        json.dumps(document.document(made.results, made.parities), indent=1, ensure_ascii=False)
        + "\n"
    ),
    "results.csv": lambda made: formats.csv_text(document.flat(made.results)),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_output_is_the_golden_one(name: str) -> None:
    _compare(name, FORMS[name](example.made()))


def _compare(name: str, text: str) -> None:
    file = FOLDER / name
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
