"""``k8sbench list``: the runs, oldest first."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from k8sbench.app import runs
from k8sbench.cli.options import access_options, format_option, since_option, store_option
from k8sbench.cli.terminal import output
from k8sbench.model import times
from k8sbench.model.request import ClusterAccess
from k8sbench.ports import RunFilter
from k8sbench.report import formats
from k8sbench.report.run_document import ListedRun
from k8sbench.report.tables import Column

WIDE = ("set", "repeat", "variant", "impl", "preset", "backend", "group", "cause")
"""Titles of the columns that a wide table has besides."""
NOT_RECORDED = "not recorded"
"""Verdict of a run that this store has no record of."""


@click.command()
@format_option("table", "wide", "csv", "json", "name")
@click.option("--set", "set_name", metavar="SET", help="Only runs of this set.")
@click.option("--benchmark", metavar="NAME", help="Only runs of this benchmark.")
@since_option("Only runs created since: 2h, 3d, 2026-11-20, …")
@access_options
@store_option
def command(output_format: str, access: ClusterAccess, where: str | None, **wanted: Any) -> None:
    """List the recorded runs, or all runs of a namespace.

    Oldest first, each with its throughput, or the reason why it has none. A run whose process was
    killed is Lost. A run on a cluster that no k8sbench follows has its present state there. With
    -n, --context or --kubeconfig only the runs of that namespace are listed, including those that
    other people have submitted. The runs of an operator in the namespace are among them where it
    answers within two seconds; --store cluster lists only those, and fails without an operator.
    """
    rows = runs.list_runs(RunFilter(**wanted), where, access, output.note)
    _print(rows, output_format, time.time())


def _print(rows: Sequence[ListedRun], output_format: str, now: float) -> None:
    fields = [field.name for field in msgspec.structs.fields(ListedRun)]
    csv_rows = ([_csv_value(getattr(row, name)) for name in fields] for row in rows)

    view: formats.View = {
        "table": lambda: _table(rows, now, wide=False) if rows else "",
        "wide": lambda: _table(rows, now, wide=True) if rows else "",
        "csv": lambda: (fields, csv_rows),
        "json": lambda: rows,
        "name": lambda: [row.run_id for row in rows],
    }
    output.write(formats.written(output_format, view))


def _table(rows: Sequence[ListedRun], now: float, *, wide: bool) -> str:
    """Lay out runs; ``wide`` keeps columns that narrow terminals drop."""
    duration = functools.partial(Column, right=True, whole=True)
    columns = [
        Column("RUN", lambda row: row.run_id, whole=True),
        Column("BENCHMARK", lambda row: row.benchmark, optional=2),  # most ids begin with it
        Column("FRAMEWORK", lambda row: row.framework, optional=3),
        Column("CASE", lambda row: row.case, whole=True),
        Column("PRECISION", lambda row: row.precision, optional=5),
        Column("PHASE", lambda row: row.on_cluster or row.phase, states=True),
        Column("THROUGHPUT", _throughput, right=True),
        Column("VERDICT", _verdict, optional=4, states=True),
        duration("TOOK", lambda row: _took(row, now), optional=6),
        duration("AGE", lambda row: times.duration(now - row.created_at)),
    ]
    if wide:
        columns = [msgspec.structs.replace(column, optional=0) for column in columns]
        for title in WIDE:
            cell = functools.partial(_text, "set_name" if title == "set" else title)
            is_whole, is_number = title in {"set", "group"}, title == "repeat"
            columns.append(Column(title.upper(), cell, right=is_number, whole=is_whole))
    columns.append(Column("RESTARTS", _restarts, right=True, optional=7))
    if any(row.source != "here" for row in rows):
        columns.append(Column("SOURCE", lambda row: row.source, optional=1))
    return output.table_text(columns, rows, is_whole=wide)


def _restarts(row: ListedRun) -> str | None:
    return str(row.restarts) if row.restarts else None


def _verdict(row: ListedRun) -> str | None:
    return row.verdict if row.recorded else NOT_RECORDED


def _throughput(row: ListedRun) -> str | None:
    return row.verdict if row.throughput is None else f"{formats.rate(row.throughput)} {row.unit}"


def _took(row: ListedRun, now: float) -> str | None:
    begun = row.started_at if row.started_at is not None else row.created_at
    # Of a job that is over there, its end is not known here; of an imported run, its beginning.
    is_over = row.ended_at is None and (row.on_cluster or row.phase).final
    if is_over or row.backend == "imported":
        return None
    return times.duration((now if row.ended_at is None else row.ended_at) - begun)


def _text(field: str, row: ListedRun) -> str | None:
    value = getattr(row, field)
    return None if value is None else str(value)


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
