"""``k8sbench compare``: two sides beside each other, and how sure the difference is."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from k8sbench.app import comparing
from k8sbench.app.sides import StoresRead
from k8sbench.cli import rows
from k8sbench.cli.options import accept_option, access_options, duration_option, store_option
from k8sbench.cli.output_format import format_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.errors import REGRESSION_EXIT_CODE, REJECTED_EXIT_CODE, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.report import formats

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison


def _limit(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read ``--fail-on-regression``: a share in percent."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,4})?) ?%", value.strip())
    if found is None or not float(found[1]):
        raise UsageError(
            f"--fail-on-regression {value!r} is not a percentage.",
            "Write by how much B may be slower: 3% or 0.5%, above 0% and below 100%.",
        )
    return float(found[1]) / 100


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@format_option(*formats.offered("table", "markdown", "document", "flat", "junit"))
@click.option(
    "--fail-on-regression",
    "limit",
    metavar="PERCENT",
    callback=_limit,
    help="Exit code 7 if B is slower than A by more than this (3%), and separated from it.",
)
@duration_option("--wait", "wait_s", "Wait until every run of B is measured, at most this long.")
@accept_option
@access_options
@store_option
def command(
    a: str,
    b: str,
    output_format: str,
    limit: float | None,
    wait_s: float | None,
    accept: tuple[str, ...],
    access: ClusterAccess,
    where: str | None,
) -> int:
    """Compare two sides: how much they differ, and how surely.

    A is the old side, B the new one. A side is a set, a group, a run, a baseline, or several of
    them with commas between. Write set:NAME if several things have that name. For each case it
    prints the ratio with its interval, an exact test, and in words what this number of runs can
    show and what it cannot; below, the other differences. Cases that are not comparable have no
    ratio.
    """
    scope = StoresRead(where=where, access=access, accept=accept)

    def make() -> Comparison:
        return comparing.compare(a, b, scope, output.note, limit=limit)

    if wait_s is None:
        compared = make()
    else:
        stop = SignalStop()
        with stop:
            compared = comparing.compare_when_complete(
                make,
                lambda: comparing.open_runs(b, scope, lambda _: None),
                wait_s,
                stop,
                clock=time.monotonic,
                pause=time.sleep,
            )
    from k8sbench.report import comparing as report

    rows.write_by(report, compared, output_format)
    return 0 if limit is None else _exit_code(compared)


def _exit_code(compared: Comparison) -> int:
    """Judge a comparison that has a limit: one that held nothing against anything is no success."""
    from k8sbench.report.comparing import lacks_figure

    lost = sum(one.b is None for one in compared.cases)
    if lost:
        cases = counted(lost, "case", ("is", "are"))
        output.note(f"note: {cases} only in A, without a counterpart in B.")
    if compared.regressions:
        cases = counted(len(compared.regressions), "case", ("is", "are"))
        output.note(f"{cases} slower beyond the limit, and separated.")
        return REGRESSION_EXIT_CODE
    lacking = sum(lacks_figure(one) for one in compared.cases)
    if lacking:
        output.note(f"{counted(lacking, 'case', ('has', 'have'))} no valid run in B.")
        return REJECTED_EXIT_CODE
    if all(one.ratio is None for one in compared.cases):
        raise UsageError(
            "Nothing could be compared, so no regression could be seen.",
            "The verdicts say why of each case.",
        )
    undecided = sum(one.finding == "undecided" for one in compared.cases)
    if undecided:
        cases = counted(undecided, "case", ("has", "have"))
        output.note(f"note: {cases} too few runs to show a regression; repeat them.")
    return 0
