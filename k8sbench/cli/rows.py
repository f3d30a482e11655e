"""Printing the rows of a report in the format that was asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from k8sbench.cli.terminal import color, output
from k8sbench.cli.terminal.progress import Progress
from k8sbench.model import times
from k8sbench.model.run import Run
from k8sbench.report import formats

if TYPE_CHECKING:
    from k8sbench.app.results import Rows
    from k8sbench.lifecycle.reporting import Report
    from k8sbench.report.columns import Form
    from k8sbench.report.tables import Table


class Printed:
    """The rows of one command: at once, and the GPU metrics after them where they come later.

    A document for programs is printed whole, at the end.
    """

    def __init__(self, output_format: str, reporter: Progress) -> None:
        self._output_format, self._reporter = output_format, reporter
        self._shown = False

    def early(self, rows: Rows, seconds: float | None) -> None:
        """Print rows whose GPU metrics follow in so many seconds, and say so."""
        if formats.FORMATS[self._output_format].for_people:
            self._reporter.close()
            self._shown = True
            write(rows, self._output_format)
        left = f" in {times.duration(seconds)}" if seconds else ""
        self._reporter.note(f"  GPU metrics follow{left}; Ctrl-C leaves them out.")

    def at_the_end(self, rows: Rows) -> None:
        """Print the rows, and below them what was not known when they were printed first.

        Rows that come with their GPU metrics have these below them, too, where their own columns
        have none.
        """
        if not self._shown:
            write(rows, self._output_format)
            if formats.FORMATS[self._output_format].shape != "table" or not any(
                map(_has_gpus, rows.runs)
            ):
                return
        from k8sbench.report import gpu_columns, tables

        made = gpu_columns.tables(rows.runs, rows.rejected)
        markdown = formats.FORMATS[self._output_format].shape == "markdown"
        output.write("\n" + (tables.markdown(made) if markdown else text_of(made)))


def _has_gpus(run: Run) -> bool:
    return run.measurement is not None and run.measurement.gpu_metrics is not None


def write(rows: Rows, output_format: str) -> None:
    """Print the rows that some runs belong to, or the runs' names."""
    write_report(rows.report, output_format, [run.run_id for run in rows.runs])


def write_report(
    report: Report, output_format: str, run_ids: Sequence[str] = (), *, lang: str = "en"
) -> None:
    """Print a report in one of the formats of :mod:`k8sbench.report.formats`."""
    from k8sbench.report import chinese, document, layout, report_tables, tables

    parts = (report.results, report.parities)

    def made(form: Form) -> list[Table]:
        in_english = layout.tables(*parts, form)
        return chinese.translated(in_english) if lang == "zh" else in_english

    def dlperf() -> object:
        content, left_out = document.dlperf(report.results)
        for reason in left_out:
            output.note(f"left out of the DLPerf file: {reason}")
        return content

    def as_reports() -> str:
        found = report_tables.tables(report.results, lang)
        if output_format == "report-markdown":
            return tables.markdown(found)
        if output_format == "report-html":
            return tables.html(found, "测试结果" if lang == "zh" else "Results", lang)
        return tables.text(found)

    view: formats.View = {
        "report": as_reports,
        "table": lambda: text_of(made("table")),
        "wide": lambda: tables.text(made("wide"), paint=color.paint()),
        "markdown": lambda: tables.markdown(made("document")),
        "flat": lambda: document.flat(*parts),
        "document": lambda: document.document(*parts),
        "dlperf": dlperf,
        "names": lambda: run_ids,
    }
    output.write(formats.written(output_format, view))


def write_by(report: ModuleType, content: object, output_format: str) -> None:
    """Print what a command has found by a module of :mod:`k8sbench.report`."""
    from k8sbench.report import tables

    view: formats.View = {
        "table": lambda: text_of(report.tables(content)),
        "markdown": lambda: tables.markdown(report.tables(content)),
        "document": lambda: report.document(content),
        "flat": lambda: report.flat(content),
    }
    output.write(formats.written(output_format, view))


def text_of(shown: Sequence[Table]) -> str:
    """Lay tables out for people: fitted to the terminal, with colour where that is wanted."""
    from k8sbench.report import tables

    return tables.text(shown, width=terminal_width(), paint=color.paint())


def terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none: a pipe gets everything."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
