"""``k8sbench list``: the runs, oldest first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from k8sbench.app import listing
from k8sbench.cli.options import access_options, since_option, store_option
from k8sbench.cli.output_format import format_option
from k8sbench.cli.terminal import output
from k8sbench.lifecycle.records import ListedRun
from k8sbench.model import times
from k8sbench.model.counts import ABSENT
from k8sbench.model.request import ClusterAccess
from k8sbench.ports import RunFilter
from k8sbench.report import formats, numbers
from k8sbench.report.text_table import Column

COLUMNS = (
    Column("RUN", whole=True),
    Column("BENCHMARK", optional=2),  # most ids begin with it
    Column("FRAMEWORK", optional=3),
    Column("CASE", whole=True),
    Column("PRECISION", optional=5),
    Column("PHASE", states=True),
    Column("THROUGHPUT", right=True),
    Column("VERDICT", optional=4, states=True),
    Column("TOOK", right=True, whole=True, optional=6),
    Column("AGE", right=True, whole=True),
)
"""Those that a narrow terminal has no room for are in the wide table all the same."""
WIDE = (
    Column("SET", whole=True),
    Column("REPEAT", right=True),
    Column("VARIANT"),
    Column("IMPL"),
    Column("PRESET"),
    Column("BACKEND"),
    Column("GROUP", whole=True),
    Column("CAUSE"),
)
WIDE_FIELDS = ("set_name", "repeat", "variant", "impl", "preset", "backend", "group", "cause")
RESTARTS = Column("RESTARTS", right=True, optional=7)
"""Shown where a run has any."""
SOURCE = Column("SOURCE", optional=1)
"""Shown where any is not of this store."""
NOT_RECORDED = "not recorded"
"""In the place of the verdict of a run that this store does not know."""


@click.command()
@format_option(*formats.offered("table", "wide", "flat", "document", "names"))
@click.option("--set", "set_name", metavar="SET", help="Only runs of this set.")
@click.option("--benchmark", metavar="NAME", help="Only runs of this benchmark.")
@since_option("Only runs created since: 2h, 3d, 2026-11-20, …")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@access_options
@store_option
def command(
    output_format: str,
    access: ClusterAccess,
    where: str | None,
    **wanted: Any,
) -> None:
    """List the recorded runs, or all runs of a namespace.

    Oldest first, each with its throughput, or the reason why it has none. A run whose process was
    killed is Lost. A run on a cluster that no k8sbench follows has its present state there. With
    -n, --context or --kubeconfig only the runs of that namespace are listed, including those that
    other people have submitted. The runs of a collector in the namespace are among them where it
    answers within two seconds; --store cluster lists only those, and fails without a collector.
    """
    rows = listing.list_runs(RunFilter(**wanted), where, access, output.note)
    _print(rows, output_format, time.time())


def _print(rows: Sequence[ListedRun], output_format: str, now: float) -> None:
    fields = [field.name for field in msgspec.structs.fields(ListedRun)]
    csv_rows = ([_csv_value(getattr(row, name)) for name in fields] for row in rows)

    def text(*, wide: bool) -> str:
        columns: tuple[Column, ...] = COLUMNS
        if wide:
            whole = (msgspec.structs.replace(column, optional=0) for column in COLUMNS)
            columns = (*whole, *WIDE)
        cells = [_cells(row, now, wide=wide) for row in rows]
        if any(row.restarts for row in rows):
            columns = (*columns, RESTARTS)
            again = [str(row.restarts) if row.restarts else None for row in rows]
            cells = [[*row_cells, count] for row_cells, count in zip(cells, again, strict=True)]
        if any(row.source != "here" for row in rows):
            columns = (*columns, SOURCE)
            cells = [[*row_cells, row.source] for row_cells, row in zip(cells, rows, strict=True)]
        return output.table_text(columns, cells, is_whole=wide)

    view: formats.View = {
        "table": lambda: text(wide=False) if rows else "",
        "wide": lambda: text(wide=True) if rows else "",
        "flat": lambda: (fields, csv_rows),
        "document": lambda: rows,
        "names": lambda: [row.run_id for row in rows],
    }
    output.write(formats.written(output_format, view))


def _cells(row: ListedRun, now: float, *, wide: bool) -> list[str | None]:
    begun = row.started_at if row.started_at is not None else row.created_at
    until = row.ended_at if row.ended_at is not None else now
    # Of a job that is over there, its end is not known here; of an imported run, its beginning.
    is_over = row.ended_at is None and (row.on_cluster or row.phase).final
    is_over = is_over or row.backend == "imported"
    cells: list[str | None] = [
        row.run_id,
        row.benchmark,
        row.framework,
        row.case,
        row.precision,
        row.on_cluster or row.phase,
        row.verdict if row.throughput is None else f"{numbers.rate(row.throughput)} {row.unit}",
        row.verdict if row.recorded else NOT_RECORDED,
        ABSENT if is_over else times.duration(until - begun),
        times.duration(now - row.created_at),
    ]
    if not wide:
        return cells
    more = (getattr(row, name) for name in WIDE_FIELDS)
    return [*cells, *(ABSENT if value is None else str(value) for value in more)]


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
