"""Printing the rows of a report in the format that was asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from k8sbench.cli.terminal import output
from k8sbench.report import formats

if TYPE_CHECKING:
    from k8sbench.app.results import Rows
    from k8sbench.runs.reporting import Report


def write(rows: Rows, form: str) -> None:
    """Print the rows that some runs belong to, or the runs' names."""
    write_report(rows.report, form, [run.run_id for run in rows.runs])


def write_report(report: Report, form: str, run_ids: Sequence[str] = ()) -> None:
    """Print a report in one of the formats of :mod:`k8sbench.report.formats`."""
    from k8sbench.report import document, layout, tables

    found = (report.results, report.parities)

    def text(*, wide: bool) -> str:
        return tables.text(layout.tables(*found, wide=wide), width=_terminal_width())

    def dlperf() -> object:
        content, left_out = document.dlperf(report.results)
        for reason in left_out:
            output.note(f"left out of the DLPerf file: {reason}")
        return content

    view: formats.View = {
        "table": lambda: text(wide=False),
        "wide": lambda: text(wide=True),
        "markdown": lambda: tables.markdown(layout.tables(*found, airank=True)),
        "flat": lambda: document.flat(*found),
        "document": lambda: document.document(*found),
        "dlperf": dlperf,
        "names": lambda: run_ids,
    }
    output.write(formats.written(form, view))


def _terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none: a pipe gets everything."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
