"""``k8sbench history``: a benchmark over its sets."""

from __future__ import annotations

import click
import msgspec

from k8sbench.app import comparing
from k8sbench.app.sides import StoresRead
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
from k8sbench.model.filters import GroupFilter
from k8sbench.model.request import ClusterAccess
from k8sbench.report import formats


@click.command()
@click.argument("benchmark", metavar="BENCHMARK")
@format_option(*formats.offered("table", "markdown", "document", "flat"))
@filter_options("framework", "precision", "case")
@since_option("Only sets with a run since: 2h, 3d, 2026-11-20, …")
@accept_option
@access_options
@store_option
def command(
    benchmark: str,
    output_format: str,
    accept: tuple[str, ...],
    access: ClusterAccess,
    where: str | None,
    since: float | None,
    chosen: GroupFilter,
) -> None:
    """Show a benchmark over its sets, and mark its changes.

    One table for each case: its sets, oldest first, each with its median and interval. A change is
    marked if three to six sets from there on differ from those before by more than 1.5 % and an
    exact test has p ≤ 0.8 %. A single unusual set is not marked.
    """
    scope = StoresRead(where=where, access=access, accept=accept)
    chosen = msgspec.structs.replace(chosen, benchmark=benchmark)
    series = comparing.history(chosen, scope, output.note, since=since)
    from k8sbench.report import history

    rows.write_by(history, series, output_format)
