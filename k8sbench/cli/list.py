"""``k8sbench list``: the runs, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
import msgspec

from k8sbench.cli import clusters, output, reading
from k8sbench.cli.clusters import Access
from k8sbench.cli.output import Column
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter, Store
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

    Oldest first. A run whose process was killed is listed as Lost; one that went on on a cluster
    without a k8sbench that follows it, as the cluster says it is now.
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
        phases = _on_clusters(store, runs)
    _print(runs, phases, form, now)


def _on_clusters(store: Store, runs: Sequence[Run]) -> dict[str, Phase]:
    """Ask for the phases of runs that nobody here follows; none where a cluster does not answer."""
    alone = [
        run
        for run in runs
        if run.plan.backend == "kubernetes" and run.location and not run.phase.final
    ]
    alone = [run for run in alone if store.claim(run.run_id)]
    phases: dict[str, Phase] = {}
    for location in dict.fromkeys(run.location for run in alone):
        assert location is not None
        here = {run.run_id for run in alone if run.location == location}
        try:
            with clusters.opened(clusters.of_location(location, Access())) as cluster:
                there = {job.plan.run_id: job.phase for job in cluster.jobs()}
        except BenchError as wrong:
            output.note(f"warning: {len(here)} runs are shown as last seen: {wrong.message}")
            continue
        phases |= {run_id: there.get(run_id, Phase.LOST) for run_id in here}
    for run in alone:
        store.release(run.run_id)
    over = [run_id for run_id, phase in phases.items() if phase.final]
    if over:
        what = "1 run is" if len(over) == 1 else f"{len(over)} runs are"
        output.note(f"{what} over on the cluster, and not collected: k8sbench collect --all")
    return phases


def _print(runs: Sequence[Run], phases: Mapping[str, Phase], form: str, now: float) -> None:
    rows = [
        msgspec.structs.replace(records.listed(run), on_cluster=phases.get(run.run_id))
        for run in runs
    ]
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
        row.on_cluster or row.phase,
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
