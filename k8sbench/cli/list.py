"""``k8sbench list``: the runs, oldest first."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from k8sbench.cli import output, reading
from k8sbench.cli.output import Column
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter
from k8sbench.runs import records
from k8sbench.runs.records import ListedRun

COLUMNS = (
    Column("RUN", whole=True),
    Column("BENCHMARK"),
    Column("FRAMEWORK"),
    Column("CASE", whole=True),
    Column("PRECISION"),
    Column("PHASE"),
    Column("VERDICT"),
    Column("TOOK", right=True, whole=True),
    Column("AGE", right=True, whole=True),
)
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


@click.command()
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "csv", "name"]),
    default="table",
    help="Format.",
)
@click.option("--set", "set_name", metavar="SET", help="Only runs of this set.")
@click.option("--benchmark", metavar="NAME", help="Only runs of this benchmark.")
@reading.since_option("Only runs created since: 2h, 3d, 2026-11-20, …")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@reading.store_option
def command(
    form: str,
    set_name: str | None,
    benchmark: str | None,
    since: float | None,
    limit: int | None,
    where: str | None,
) -> None:
    """List the recorded runs.

    Oldest first. A run whose process was killed is listed as Lost.
    """
    wanted = RunFilter(benchmark=benchmark, set_name=set_name, since=since, limit=limit)
    now = reading.now()
    with reading.opened(where) as store:
        runs = records.listing(store, wanted, alive=reading.alive(), now=now)
        if not runs and not store.ids():
            reading.say_empty(store)
        elif not runs:
            everything = store.runs(RunFilter())
            output.note(f"No run matches. {_known('Sets', [r.plan.set_name for r in everything])}")
            output.note(_known("Benchmarks", [run.plan.benchmark for run in everything]))
    _print(runs, form, now)


def _print(runs: Sequence[Run], form: str, now: float) -> None:
    rows = [records.listed(run) for run in runs]
    if form == "json":
        output.write_json(rows)
    elif form == "name":
        output.write_names(row.run_id for row in rows)
    elif form == "csv":
        fields = msgspec.structs.fields(ListedRun)
        output.write_csv(
            [field.name for field in fields],
            [[_csv_value(getattr(row, field.name)) for field in fields] for row in rows],
        )
    elif rows:
        wide = form == "wide"
        output.write_table(
            (*COLUMNS, *WIDE) if wide else COLUMNS, [_cells(row, now, wide=wide) for row in rows]
        )


def _cells(row: ListedRun, now: float, *, wide: bool) -> list[str | None]:
    begun = row.started_at if row.started_at is not None else row.created_at
    until = row.ended_at if row.ended_at is not None else now
    cells: list[str | None] = [
        row.run_id,
        row.benchmark,
        row.framework,
        row.case,
        row.precision,
        row.phase,
        row.verdict,
        output.duration(until - begun),
        output.duration(now - row.created_at),
    ]
    if wide:
        cells += [
            row.set_name,
            str(row.repeat),
            row.variant,
            row.impl,
            row.preset,
            row.backend,
            row.group,
            row.cause,
        ]
    return cells


def _csv_value(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _known(what: str, names: Sequence[str]) -> str:
    """Name what there is, the latest first."""
    latest = list(dict.fromkeys(reversed(names)))
    more = f" and {len(latest) - records.FEW} more" if len(latest) > records.FEW else ""
    return f"{what} in the store: {', '.join(latest[: records.FEW])}{more}."
