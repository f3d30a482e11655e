"""Printing of report rows in the requested format; exit codes of runs and rows.

0 valid, 3 failed, 4 timed out, 5 rejected, 8 target not reached; errors have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from k8sbench.cli.terminal import output
from k8sbench.model.errors import (
    NOT_REACHED_EXIT_CODE,
    REGRESSION_EXIT_CODE,
    REJECTED_EXIT_CODE,
    UNDECIDED_EXIT_CODE,
    BenchError,
    Unreachable,
)
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, failure, out_of_memory_ids
from k8sbench.results.report import formats

if TYPE_CHECKING:
    from k8sbench.app.answers import StoresRead
    from k8sbench.app.results import RunRows
    from k8sbench.messages import Lang
    from k8sbench.results.groups.selection import Report
    from k8sbench.results.report.columns import Form
    from k8sbench.results.report.noted_tables import Table


def write(rows: RunRows, output_format: str) -> None:
    """Print the rows that some runs belong to, or the runs' names."""
    write_report(rows.report, output_format, [run.run_id for run in rows.runs])


def write_report(
    report: Report, output_format: str, run_ids: Sequence[str] = (), *, lang: Lang = "en"
) -> None:
    """Print a report in one of the formats of :mod:`k8sbench.results.report.formats`."""
    from k8sbench.results.report import document, layout, noted_tables, report_tables

    parts = (report.results, report.parities)

    def made(form: Form) -> list[Table]:
        return layout.tables(*parts, form)

    def as_reports() -> str:
        for sentence in report_tables.left_out(report.results):
            output.note(sentence)
        return noted_tables.markdown(report_tables.tables(report.results, lang), lang)

    view: formats.View = {
        "report": as_reports,
        "table": lambda: text_of(made("table"), lang),
        "wide": lambda: noted_tables.text(made("wide"), lang=lang, paint=output.paint()),
        "markdown": lambda: noted_tables.markdown(made("document"), lang),
        "csv": lambda: document.flat(report.results),
        "json": lambda: document.document(*parts),
        "name": lambda: run_ids,
    }
    output.write(formats.written(output_format, view))


def text_of(shown: Sequence[Table], lang: Lang = "en") -> str:
    """Lay out tables for people: terminal width, colour if wanted."""
    from k8sbench.results.report import noted_tables

    width = output.terminal_width()
    return noted_tables.text(shown, lang=lang, width=width, paint=output.paint())


# -- exit codes ------------------------------------------------------------------------------------


ORDER = (
    *(1, 6, REGRESSION_EXIT_CODE, 3, 4, REJECTED_EXIT_CODE, NOT_REACHED_EXIT_CODE),
    *(UNDECIDED_EXIT_CODE, 0),
)
"""Precedence among the exit codes of several runs."""


def exit_code(scope: StoresRead) -> int:
    """Return the exit code of a command that has read stores: 6 if the operator was missed."""
    if scope.missed and output.quiet:
        output.error(scope.missed)
    return Unreachable.exit_code if scope.missed else 0


def note_own_store(where: str | None, access: ClusterAccess) -> None:
    """Note how to see what was written to the own store, if an operator's may answer instead."""
    from k8sbench.app.answers import StoresRead

    scope = StoresRead(where=where, access=access)
    if scope.asks and scope.default == "operator":
        output.note(f"  See it again with: k8sbench results --store {scope.own}")


def code_of_run(run: Run) -> int:
    """Return the exit code of one run.

    The run has ended, or its logs cannot be read.
    """
    if (error := failure(run.phase, run.history[-1].cause_id)) is not None:
        return error.exit_code
    measured = run.measurement
    if measured is None or measured.verdict != "valid":
        return REJECTED_EXIT_CODE
    # An imported log that does not train has the target of its benchmark all the same.
    trains = run.plan.mode == "train" and measured.target is not None
    return NOT_REACHED_EXIT_CODE if trains and measured.time_to_train_s is None else 0


def code_of_runs(runs: Sequence[Run]) -> int:
    """The exit code of a command with these finished runs.

    A batch size that does not fit is no failure of a sweep that measured another one.
    """
    without_memory = out_of_memory_ids(runs)
    return worst_code(code_of_run(run) for run in runs if run.run_id not in without_memory)


def code_of_rows(rows: RunRows) -> int:
    """Return the exit code of a command that prints these rows.

    A group may reject a valid run. A refused run has the code of its error.
    """
    refused = (error.exit_code for error in rows.refusals)
    return worst_code(
        [code_of_runs(rows.runs), REJECTED_EXIT_CODE if rows.rejected else 0, *refused]
    )


def code_of_failures(errors: Iterable[BenchError]) -> int:
    """Return the exit code of a command that could not collect some runs."""
    return worst_code(error.exit_code for error in errors)


def worst_code(codes: Iterable[int]) -> int:
    """Return the exit code of a command that has several; 0 without any."""
    present = set(codes)
    return next((code for code in ORDER if code in present), 0)
