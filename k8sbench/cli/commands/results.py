"""``k8sbench results``, ``report`` and ``explain``: rows, a folder of them, and their reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from k8sbench.app import imports, results
from k8sbench.app import report as reports
from k8sbench.app.stores import StoresRead
from k8sbench.cli import rows
from k8sbench.cli.options import (
    accept_option,
    access_options,
    filter_options,
    format_option,
    since_option,
    store_option,
)
from k8sbench.cli.terminal import output
from k8sbench.measure.group.selection import Sort, Wanted
from k8sbench.model.errors import UsageError
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.report import explanation, formats


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@format_option(
    "table", "wide", "markdown", "csv", "json", "report", "html", about="Format of the rows."
)
@filter_options()
@click.option("--set", "set_name", metavar="SET", help="Only this set.")
@click.option("--all", "every", is_flag=True, help="All sets of each case, not only the latest.")
@click.option(
    "--sort", type=click.Choice(get_args(Sort)), default="case", help="Order of the rows."
)
@since_option("All sets with a run created since: 2h, 3d, 2026-11-20, …")
@click.option(
    "--published", is_flag=True, help="Show the published figures beside those of the rows."
)
@accept_option
@rows.plot_option
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    default="en",
    help="Language of the titles, for table, wide, report, markdown and html.",
)
@click.option("--title", metavar="TEXT", help="Title of the page of -o html.")
@access_options
@store_option
def command(
    output_format: str,
    lang: str,
    title: str | None,
    published: bool,
    accept: tuple[str, ...],
    plot: str | None,
    where: str | None,
    access: ClusterAccess,
    **wanted: Any,
) -> None:
    """Print tables of the measured results.

    One row per case: the median of its valid runs in the latest set; with RUN (ids, or unique
    beginnings of them) the rows of these runs. A missing figure is –, and a line says why. The
    runs of an operator in the namespace are among them where it answers within two seconds; --store
    cluster prints only those, and fails without an operator.
    """
    if lang != "en" and output_format not in formats.FOR_PEOPLE:
        raise UsageError(
            f"--lang is for formats that people read, not for {output_format}.",
            "Leave it out, or choose table, wide, report, markdown or html.",
        )
    scope = StoresRead(where=where, access=access, accept=accept)
    is_published = published or output_format == "html"
    report = results.results(Wanted(**wanted), scope, output.note, published=is_published)
    if plot is not None:
        rows.write_plot(plot, report)
    if output_format == "html":
        named = wanted["runs"]
        output.write(reports.page(report, named, where, output.note, lang=lang, title=title))
    else:
        rows.write_report(report, output_format, lang=lang)
    if report.older and output_format in formats.FOR_PEOPLE:
        older = counted(report.older, "older row", ("is", "are"))
        output.note(f"{older} not shown; --all shows all sets.")


@click.command()
@click.argument("sets", metavar="SET...", nargs=-1, required=True)
@click.option("-o", "--output", "folder", metavar="FOLDER", required=True, help="Where to.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the README."
)
@click.option("--title", metavar="TEXT", help="Title; default: the benchmarks' names.")
@click.option("--published", is_flag=True, help="Compare the rows with the published figures.")
@click.option(
    "--environment",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="YAML with facts that logs do not state; default: FOLDER/environment.yaml.",
)
@click.option(
    "--notes",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Markdown with your own chapters; default: FOLDER/notes.md.",
)
@click.option("--force", is_flag=True, help="Overwrite files that were changed by hand.")
@accept_option
@store_option
@access_options
def report_command(
    sets: tuple[str, ...],
    folder: str,
    where: str | None,
    access: ClusterAccess,
    accept: tuple[str, ...],
    **given: Any,
) -> None:
    """Write a publishable report of sets.

    FOLDER gets a README with environment, commands, method, tables and charts, as the published
    reports have them, and beside it the data, the manifests and the logs of all runs. Written
    again, it replaces the report that is there, and changes nothing where nothing has changed.

    \b
    k8sbench report nightly -o report
    k8sbench report fp32 amp -o report --lang zh --published
    """
    scope = StoresRead(where=where, access=access, accept=accept)
    made = reports.publish(sets, Path(folder), scope, output.note, **given)
    output.note(f"{folder}: {made.valid}.")
    output.note("Before you publish it: logs and manifests hold names of hosts, users and folders.")


@click.command()
@click.argument("target", metavar="RUN|GROUP|ID|FILE.yaml")
@click.argument("log", metavar="[LOG]", required=False)
@accept_option
@access_options
@store_option
def explain_command(target: str, log: str | None, **scope: Any) -> None:
    """Explain a figure, an id such as gpu-count, or a log format.

    For a run: the lines that count, the window and what was left out, the figure by each
    estimator, and every reason with its evidence and what to do. For a group (results -o wide shows
    its id): its runs, interval and speedup. For the ID of a reason, of a cause or of a check of
    doctor: what it means and what to do; '*' lists all. For a benchmark's file and a LOG: the lines
    that each expression matches.

    \b
    k8sbench explain gpu-count
    k8sbench explain resnet50-261120-081500-x7k2qd
    k8sbench explain mine.yaml train.log
    """
    if log is not None:
        made = imports.explain_format(target, log)
    elif target.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{target} is a benchmark file: explain also needs a log.",
            f"Name one: k8sbench explain {target} LOG",
        )
    else:
        made = results.explain(target, StoresRead(**scope), output.note)
    output.write(explanation.text(made, output.terminal_width() or explanation.WIDTH))
