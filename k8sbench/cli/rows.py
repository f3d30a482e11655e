"""Printing the rows of a report in the format that was asked for."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from k8sbench.cli.terminal import output

if TYPE_CHECKING:
    from k8sbench.app.results import Rows
    from k8sbench.runs.reporting import Report


def write(rows: Rows, form: str) -> None:
    """Print the rows that some runs belong to, or the runs' names."""
    if form == "name":
        output.write_names(run.run_id for run in rows.runs)
    else:
        write_report(rows.report, form)


def write_report(report: Report, form: str) -> None:
    """Print a report: table, wide, markdown, csv, json or dlperf."""
    from k8sbench.report import document, layout, tables

    if form == "json":
        output.write_json(document.document(report.results, report.parities))
    elif form == "csv":
        header, rows = document.flat(report.results, report.parities)
        output.write_csv(header, rows)
    elif form == "dlperf":
        file = document.dlperf(report.results)
        output.write_json(file.content)
        for text in file.left_out:
            output.note(f"left out of the DLPerf file: {text}")
    elif form == "markdown":
        output.write(tables.markdown(layout.tables(report.results, report.parities, airank=True)))
    else:
        shown = layout.tables(report.results, report.parities, wide=form == "wide")
        output.write(tables.text(shown, width=_terminal_width()))


def _terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none: a pipe gets everything."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
