"""``k8sbench compare``, ``history`` and ``baseline``: changes between sets."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from k8sbench.app import results
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
from k8sbench.measure.group.comparison import FLOOR
from k8sbench.model.errors import (
    REGRESSION_EXIT_CODE,
    REJECTED_EXIT_CODE,
    UNDECIDED_EXIT_CODE,
    UsageError,
    few,
)
from k8sbench.model.group import GroupFilter
from k8sbench.model.plain_text import counted
from k8sbench.report import formats
from k8sbench.report.tables import Column

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison


BASELINES = (
    Column("NAME", lambda baseline: baseline.name, whole=True),
    Column("SAVED", lambda baseline: output.stamp(baseline.saved_at), whole=True),
    Column("BENCHMARKS", lambda baseline: ", ".join(baseline.benchmarks)),
    Column("SETS", lambda baseline: ", ".join(baseline.sets)),
    Column("RUNS", lambda baseline: str(baseline.runs), right=True),
    Column("SOURCE", lambda baseline: baseline.source),
)


def _share(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Read a share in percent; the limit of a regression is above 0 %."""
    if value is None:
        return None
    share = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,4})?) ?%", value.strip())
    least = "" if option.name == "floor" else "above 0% and "
    if share is None or (least and not float(share[1])):
        raise UsageError(
            f"{option.opts[0]} {value!r} is not a percentage.",
            f"Write a share such as 3% or 0.5%, {least}below 100%.",
        )
    return float(share[1]) / 100


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@format_option("table", "markdown", "github", "csv", "json", "junit")
@filter_options()
@click.option(
    "--fail-on-regression",
    "limit",
    metavar="PERCENT",
    callback=_share,
    help="Exit code 7 if a case of B is found slower by more than this (3%); 9 if these runs cannot"
    " show such a change.",
)
@click.option(
    "--floor",
    metavar="PERCENT",
    default=f"{100 * FLOOR:g}%",
    show_default=True,
    callback=_share,
    help="Smallest change of a case of which the store has fewer than four earlier sets.",
)
@accept_option
@access_options
@store_option
def command(
    a: str,
    b: str,
    output_format: str,
    chosen: GroupFilter,
    limit: float | None,
    floor: float,
    **scope: Any,
) -> int:
    """Compare two sides: changes with their significance.

    A is the old side, B the new one. A side is a set, a group, a run, a baseline, or several of
    them with commas between. Write set:NAME if several things have that name. The first line says
    which cases differ. A line for each of these follows: both medians with their spread, the
    change with its 95 % interval by a t-test, and a verdict; ~ if no change is shown. Three runs on
    each side decide; where the store has four earlier sets of a case, their spread counts.
    """
    compared = results.compare(
        a, b, StoresRead(**scope), output.note, limit=limit, floor=floor, chosen=chosen
    )
    from k8sbench.report import comparing as report

    width, paint = output.terminal_width(), output.paint()
    view: formats.View = {
        "table": lambda: report.text(compared, width=width, paint=paint),
        "markdown": lambda: report.markdown(compared),
        "github": lambda: report.github(compared),
        "json": lambda: report.document(compared),
        "csv": lambda: report.flat(compared),
        "junit": lambda: report.junit(compared),
    }
    output.write(formats.written(output_format, view))
    if limit is None:
        return 0
    if output_format not in formats.FOR_PEOPLE:
        # CI's log has it, too, where the document goes to a file.
        output.note(report.summary(compared))
    return _exit_code(compared)


def _exit_code(compared: Comparison) -> int:
    """Return the exit code of a comparison with a limit.

    A comparison that cannot show a change is not a success.
    """
    from k8sbench.report.comparing import case_names, lacks_figure

    if compared.regressions:
        return REGRESSION_EXIT_CODE
    if lacking := sum(lacks_figure(case) for case in compared.cases):
        output.note(f"{counted(lacking, 'case', ('has', 'have'))} no valid run in B.")
        return REJECTED_EXIT_CODE
    if all(case.ratio is None for case in compared.cases):
        raise UsageError(
            "Nothing could be compared, so no regression could be seen.",
            "The lines below the table say why.",
        )
    limit = compared.limit or 0.0
    undecided = [
        f"{name}: {'one run on a side' if case.least is None else formats.percent(case.least)}"
        for case, name in zip(compared.cases, case_names(compared), strict=True)
        if case.finding in ("no-difference", "undecided") and not 0 < (case.least or 1) <= limit
    ]
    if undecided:
        output.note(
            f"undecided: a change of {100 * limit:g} % is less than these runs can show"
            f" ({few(undecided)}). Repeat more, or raise the limit."
        )
        return UNDECIDED_EXIT_CODE
    return 0


@click.command()
@click.argument("benchmark", metavar="BENCHMARK")
@format_option("table", "markdown", "csv", "json")
@filter_options("framework", "precision", "case")
@since_option("Only sets with a run since: 2h, 3d, 2026-11-20, …")
@accept_option
@access_options
@store_option
def history_command(
    benchmark: str, output_format: str, since: float | None, chosen: GroupFilter, **scope: Any
) -> None:
    """Show a benchmark over its sets, and mark its changes.

    One table for each case: its sets, oldest first, each with its median and interval. A set is
    marked if it lies outside the 95 % prediction interval of at least four sets before it, over all
    cases of its night. If the next set does, too, the level has changed, and later sets are held
    against the new one.
    """
    chosen = msgspec.structs.replace(chosen, benchmark=benchmark)
    series = results.history(chosen, StoresRead(**scope), output.note, since=since)
    from k8sbench.report import history, tables

    shown = history.tables(series)
    view: formats.View = {
        "table": lambda: rows.text_of(shown),
        "markdown": lambda: tables.markdown(shown),
        "json": lambda: history.document(series),
        "csv": lambda: history.flat(series),
    }
    output.write(formats.written(output_format, view))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def baseline_command() -> None:
    """Save, list and remove baselines for compare."""


@baseline_command.command()
@click.argument("name", metavar="NAME")
@click.argument("what", metavar="SET|GROUP|RUN...", nargs=-1, required=True)
@click.option("--replace", is_flag=True, help="Replace a baseline of that name.")
@store_option
def save(name: str, what: tuple[str, ...], replace: bool, where: str | None) -> None:
    """Keep runs under a name.

    It keeps a copy of the runs that count, with plan and measurement: the baseline does not change
    when the runs are removed or measured again.
    """
    made = results.save_baseline(name, what, where, output.note, replace=replace, at=time.time())
    cases = len({run.group_key.only("series") for run in made.as_runs()})
    output.note(
        f"baseline {name}: {counted(len(made.runs), 'run')} of {counted(cases, 'case')}."
        f" Compare with: k8sbench compare baseline:{name} SET"
    )


@baseline_command.command("list")
@format_option("table", "json", "name")
@access_options
@store_option
def list_(output_format: str, **scope: Any) -> None:
    """List the baselines; those of an operator in the namespace, too."""
    known = results.list_baselines(StoresRead(**scope), output.note)
    if output_format == "table" and not known:
        output.note("There is no baseline; k8sbench baseline save NAME SET makes one.")
    else:
        output.write_items(output_format, BASELINES, known, known, [one.name for one in known])


@baseline_command.command()
@click.argument("name", metavar="NAME")
@store_option
def remove(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    results.remove_baseline(name, where)
    output.note(f"baseline {name}: removed.")
