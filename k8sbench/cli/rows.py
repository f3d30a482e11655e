"""Printing of report rows in the requested format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError
from k8sbench.report import formats

if TYPE_CHECKING:
    from k8sbench.app.results import RunRows
    from k8sbench.measure.group.selection import Report
    from k8sbench.report.columns import Form
    from k8sbench.report.tables import Table


def write(rows: RunRows, output_format: str) -> None:
    """Print the rows that some runs belong to, or the runs' names."""
    write_report(rows.report, output_format, [run.run_id for run in rows.runs])


def write_report(
    report: Report, output_format: str, run_ids: Sequence[str] = (), *, lang: str = "en"
) -> None:
    """Print a report in one of the formats of :mod:`k8sbench.report.formats`."""
    from k8sbench.report import document, layout, report_tables, tables, words

    parts = (report.results, report.parities)

    def made(form: Form) -> list[Table]:
        in_english = layout.tables(*parts, form)
        return words.translated(in_english) if lang == "zh" else in_english

    def as_reports() -> str:
        for sentence in report_tables.left_out(report.results):
            output.note(sentence)
        return tables.markdown(report_tables.tables(report.results, lang))

    view: formats.View = {
        "report": as_reports,
        "table": lambda: text_of(made("table")),
        "wide": lambda: tables.text(made("wide"), paint=output.paint()),
        "markdown": lambda: tables.markdown(made("document")),
        "csv": lambda: document.flat(report.results),
        "json": lambda: document.document(*parts),
        "name": lambda: run_ids,
    }
    output.write(formats.written(output_format, view))


def text_of(shown: Sequence[Table]) -> str:
    """Lay out tables for people: terminal width, colour if wanted."""
    from k8sbench.report import tables

    return tables.text(shown, width=output.terminal_width(), paint=output.paint())


def _plot_checked(_: click.Context, __: click.Parameter, plot: str | None) -> str | None:
    if plot is not None and not plot.lower().endswith(".svg"):
        raise UsageError(f"--plot {plot!r} is no SVG file.", "End its name in .svg.")
    return plot


plot_option = click.option(
    "--plot", metavar="FILE", callback=_plot_checked, help="Also draw it, as an .svg file."
)


def write_plot(plot: str, report: Report) -> None:
    """Draw the rows into a file, and report the file."""
    from k8sbench.report.plot import draw

    if not report.results:
        raise UsageError("--plot has nothing to draw: no row.", "Leave out filters, or --plot.")
    try:
        Path(plot).write_bytes(draw(report.results))
    except OSError as error:
        raise UsageError(
            f"Cannot write {plot}: {error.strerror}.", "Give a file in a folder that exists."
        ) from error
    output.note(f"plot: {plot}")
