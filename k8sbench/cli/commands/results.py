"""``k8sbench results``: summary tables of what was measured."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from k8sbench.cli.commands import reading
from k8sbench.cli.commands.plan_options import not_available
from k8sbench.cli.terminal import output
from k8sbench.model.errors import BenchError, NotAvailableYet, NotFound, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.ports import RunFilter, Store
from k8sbench.runs import records, reporting
from k8sbench.runs.reporting import Find, Report, Wanted

FORMS = ("table", "wide", "markdown", "csv", "json", "dlperf")
PLANNED_FORMS = ("html", "latex")


class Form(click.Choice[str]):
    """The formats; one that is planned answers "not available yet" instead of "no such"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the name."""
        if value in PLANNED_FORMS:
            raise NotAvailableYet(f"-o {value}", f"This version has: {', '.join(FORMS)}.")
        return super().convert(value, param, ctx)


@click.command()
@click.option(
    "-o", "--output", "form", type=Form(FORMS), default="table", help="Format of the rows."
)
@click.option("--benchmark", metavar="NAME", help="Only this benchmark.")
@click.option("--framework", type=click.Choice(["pytorch", "paddle"]), help="Only this framework.")
@click.option("--set", "set_name", metavar="SET", help="Only this set.")
@click.option("--all", "every", is_flag=True, help="All sets of each case, not only the latest.")
@reading.since_option("All sets with a run created since: 2h, 3d, 2026-11-20, …")
@click.option("--published", is_flag=True, help="Put the published figures beside ours.")
@click.option(
    "--accept", multiple=True, metavar="REASON", help="Overrule a rejection by its id; marked."
)
@click.option(
    "--plot", metavar="FILE", help="Also draw the rows: .svg, .png or .pdf; needs [report]."
)
@reading.store_option
@not_available("--lang")
def command(
    form: str,
    benchmark: str | None,
    framework: str | None,
    set_name: str | None,
    every: bool,
    since: float | None,
    published: bool,
    accept: tuple[str, ...],
    plot: str | None,
    where: str | None,
) -> None:
    """Print summary tables of what was measured.

    One row per case: the median of its valid runs, of the latest set. A figure that is not there
    is –, and a footnote says why.
    """
    _check_accepted(accept)
    plot_form = None if plot is None else _plot_form(plot)
    wanted = Wanted(
        benchmark=benchmark, framework=framework, set_name=set_name, since=since, every=every
    )
    with reading.opened(where) as store:
        runs = records.listing(store, RunFilter(), alive=reading.alive(), now=reading.now())
        if not runs:
            reading.say_empty(store)
    made = reporting.report(runs, wanted, accept=accept, published=published, find=catalog_finder())
    if runs and not made.results:
        output.note(_nothing_fits(runs, benchmark))
    _print(made, form)
    if made.older and form in ("table", "wide", "markdown"):
        output.note(f"{made.older} rows of older sets are not shown; --all shows them.")
    if plot is not None and plot_form is not None:
        _draw(made, plot, plot_form)


def print_runs(
    store: Store, run_ids: Sequence[str], form: str, *, accept: Collection[str] = ()
) -> set[str]:
    """Print the rows that some runs belong to, or the runs' names: the end of ``submit``.

    Returns those of the runs that are rejected, also where only their group shows it (an outlier).
    """
    benchmarks = {store.run(run_id).plan.benchmark for run_id in run_ids}
    runs = [run for name in sorted(benchmarks) for run in store.runs(RunFilter(benchmark=name))]
    made = reporting.report_of_runs(runs, run_ids, accept=accept, find=catalog_finder())
    if form == "name":
        output.write_names(run_ids)
    else:
        _print(made, form)
    return {
        member.run_id
        for row in made.results
        for member in row.group.members
        if member.verdict == "rejected" and member.run_id in run_ids
    }


def catalog_finder() -> Find:
    """A function that finds a plan's catalog entry, reading each file once, when first asked."""
    known: dict[str, BenchmarkSpec | None] = {}

    def find(plan: RunPlan) -> BenchmarkSpec | None:
        name = plan.benchmark if plan.spec_source == "built-in" else plan.spec_source
        if name not in known:
            known[name] = _read(name)
        spec = known[name]
        # A user's file may hold another benchmark by now.
        return spec if spec is not None and spec.name == plan.benchmark else None

    return find


def _read(name: str) -> BenchmarkSpec | None:
    from k8sbench.adapters.files import catalog

    try:
        return catalog.find(name).spec
    except BenchError as wrong:
        output.note(f"warning: the catalog entry {name} cannot be used: {wrong.message}")
        return None


def _print(made: Report, form: str) -> None:
    from k8sbench.report import document, layout, tables

    if form == "json":
        output.write_json(document.document(made.results, made.parities))
    elif form == "csv":
        header, rows = document.flat(made.results, made.parities)
        output.write_csv(header, rows)
    elif form == "dlperf":
        file = document.dlperf(made.results)
        output.write_json(file.content)
        for text in file.left_out:
            output.note(f"left out of the DLPerf file: {text}")
    elif form == "markdown":
        output.write(tables.markdown(layout.tables(made.results, made.parities, airank=True)))
    else:
        shown = layout.tables(made.results, made.parities, wide=form == "wide")
        output.write(tables.text(shown, width=_terminal_width()))


def _terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none: a pipe gets everything."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _nothing_fits(runs: Sequence[Run], benchmark: str | None) -> str:
    names = sorted({run.plan.benchmark for run in runs})
    near = difflib.get_close_matches(benchmark or "", names, n=1)
    hint = f" Did you mean {near[0]}?" if near and benchmark not in names else ""
    return f"No run matches.{hint} Benchmarks in the store: {', '.join(names)}."


def _check_accepted(accept: Collection[str]) -> None:
    """A mistyped id would otherwise overrule nothing, in silence."""
    from k8sbench.measure.group import grouping
    from k8sbench.measure.run import reasons

    known = [*reasons.RULES, *grouping.REASONS]
    for name in accept:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise NotFound(
                f"--accept {name}: there is no such reason.",
                (f"Did you mean {near[0]}? " if near else "")
                + "docs/integrity.md and docs/results.md list them.",
            )


def _plot_form(plot: str) -> str:
    from k8sbench.report.plot import FORMATS

    form = Path(plot).suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise UsageError(
            f"--plot {plot!r} has no known ending.", f"End it in .{', .'.join(FORMATS)}."
        )
    return form


def _draw(made: Report, plot: str, form: str) -> None:
    from k8sbench.report import plot as plots

    if not made.results:
        raise UsageError("--plot has nothing to draw: no row.", "Leave out filters, or --plot.")
    data = plots.draw(made.results, form)
    try:
        Path(plot).write_bytes(data)
    except OSError as wrong:
        raise UsageError(
            f"Cannot write {plot}: {wrong.strerror}.", "Give a file in a folder that exists."
        ) from wrong
    output.note(f"plot: {plot}")
