"""``k8sbench compare``: two sides beside each other, and how sure the difference is."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from k8sbench.app import comparing
from k8sbench.app.sides import StoresRead
from k8sbench.cli import rows
from k8sbench.cli.options import (
    accept_option,
    access_options,
    duration_option,
    filter_options,
    format_option,
    store_option,
)
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.measure.group import permutation
from k8sbench.model.counts import counted
from k8sbench.model.errors import REGRESSION_EXIT_CODE, REJECTED_EXIT_CODE, UsageError
from k8sbench.model.filters import GroupFilter
from k8sbench.model.request import ClusterAccess
from k8sbench.report import formats

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison


def _limit(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read ``--fail-on-regression``: a share in percent."""
    if value is None:
        return None
    share = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,4})?) ?%", value.strip())
    if share is None or not float(share[1]):
        raise UsageError(
            f"--fail-on-regression {value!r} is not a percentage.",
            "Write by how much B may be slower: 3% or 0.5%, above 0% and below 100%.",
        )
    return float(share[1]) / 100


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@format_option(*formats.offered("table", "markdown", "document", "flat", "junit"))
@filter_options()
@click.option(
    "--fail-on-regression",
    "limit",
    metavar="PERCENT",
    callback=_limit,
    help="Exit code 7 if a case of B is slower by more than this (3%), with p up to 5%.",
)
@duration_option("--wait", "wait_s", "Wait until every run of B is measured, at most this long.")
@accept_option
@access_options
@store_option
def command(
    a: str,
    b: str,
    output_format: str,
    chosen: GroupFilter,
    limit: float | None,
    wait_s: float | None,
    accept: tuple[str, ...],
    access: ClusterAccess,
    where: str | None,
) -> int:
    """Compare two sides: how much they differ, and how surely.

    A is the old side, B the new one. A side is a set, a group, a run, a baseline, or several of
    them with commas between. Write set:NAME if several things have that name. There is one line for
    each case: both medians with their spread, the change, the p of an exact test, and a verdict; ~
    if no change is shown. The last line names the cases that differ.
    """
    scope = StoresRead(where=where, access=access, accept=accept)
    if wait_s is not None:
        stop = SignalStop()
        with stop:
            comparing.wait_until_complete(
                lambda: comparing.open_runs(b, scope, lambda _: None),
                wait_s,
                stop,
                clock=time.monotonic,
                pause=time.sleep,
            )
    compared = comparing.compare(a, b, scope, output.note, limit=limit, chosen=chosen)
    from k8sbench.report import comparing as report

    width, paint = rows.terminal_width(), output.paint()
    view: formats.View = {
        "table": lambda: report.text(compared, width=width, paint=paint),
        "markdown": lambda: report.markdown(compared),
        "document": lambda: report.document(compared),
        "flat": lambda: report.flat(compared),
        "junit": lambda: report.junit(compared),
    }
    output.write(formats.written(output_format, view))
    if limit is None:
        return 0
    if not formats.FORMATS[output_format].for_people:
        # CI's log has it, too, where the document goes to a file.
        output.note(report.summary(compared))
    return _exit_code(compared)


def _exit_code(compared: Comparison) -> int:
    """Judge a comparison that has a limit: one that could show nothing is no success."""
    from k8sbench.report.comparing import case_names, lacks_figure

    if compared.regressions:
        return REGRESSION_EXIT_CODE
    lacking = sum(lacks_figure(case) for case in compared.cases)
    if lacking:
        output.note(f"{counted(lacking, 'case', ('has', 'have'))} no valid run in B.")
        return REJECTED_EXIT_CODE
    if all(case.ratio is None for case in compared.cases):
        raise UsageError(
            "Nothing could be compared, so no regression could be seen.",
            "The lines below the table say why.",
        )
    few = [
        name
        for case, name in zip(compared.cases, case_names(compared), strict=True)
        if case.finding == "undecided"
    ]
    if few:
        raise UsageError(
            f"Too few runs to ever show a regression: {', '.join(few)}.",
            f"Repeat them, {permutation.fewest()} runs on each side are the fewest; or leave them"
            " out with --case, --benchmark, --framework or --precision.",
        )
    return 0
