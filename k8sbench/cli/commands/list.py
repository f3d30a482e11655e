"""``k8sbench list``: the runs, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING

import click
import msgspec

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import reading
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.output import Column
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter, Store
from k8sbench.runs import collecting, records, unrecorded
from k8sbench.runs.records import ListedRun

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore

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
NOT_RECORDED = "not recorded"
"""In the place of the verdict of a run that this store does not know."""


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
@access_options
@reading.store_option
def command(
    form: str,
    set_name: str | None,
    benchmark: str | None,
    since: float | None,
    limit: int | None,
    access: Access,
    where: str | None,
) -> None:
    """List the recorded runs, or all of a namespace.

    Oldest first. A run whose process was killed is listed as Lost; one that went on on a cluster
    without a k8sbench that follows it, as the cluster says it is now. With -n, --context or
    --kubeconfig only the runs of that namespace are listed, and beside the recorded ones those
    that other people have submitted.
    """
    # Of one namespace the newest are known only when its jobs are, too.
    most = None if access.named else limit
    wanted = RunFilter(benchmark=benchmark, set_name=set_name, since=since, limit=most)
    now = reading.now()
    with reading.opened(where) as store:
        runs = records.listing(store, wanted, alive=reading.alive(), now=now)
        if access.named:
            rows = _of_namespace(store, runs, wanted, access)
        else:
            rows = _rows(runs, _on_clusters(store, runs))
            _say_what_there_is(store, rows)
    _print(rows if limit is None else rows[-limit:], form, now)


def _of_namespace(
    store: Store, runs: Sequence[Run], wanted: RunFilter, access: Access
) -> list[ListedRun]:
    """Make the rows of one namespace, of jobs without a record, too; the cluster must answer."""
    with clusters.glimpsed(clusters.connect(access)) as cluster:
        place, jobs = cluster.api.place, cluster.jobs()
    here = [run for run in runs if collecting.same_place(run.location, place)]
    there = {job.plan.run_id: job.phase for job in jobs}
    alone = [run.run_id for run in here if reading.is_alone(store, run)]
    phases = {run_id: there.get(run_id, Phase.LOST) for run_id in alone}
    strangers = unrecorded.fitting(unrecorded.among(jobs, store.ids()), wanted)
    rows = _rows(here, phases) + [unrecorded.listed(job, place) for job in strangers]
    if not rows:
        output.note(f"No run matches in namespace {place.namespace} of {place.server}.")
    elif strangers:
        output.note(f"{_count(strangers)} not recorded in this store; k8sbench watch records one.")
    return sorted(rows, key=lambda row: row.created_at)


def _say_what_there_is(store: SqlStore, rows: Sequence[ListedRun]) -> None:
    if rows:
        return
    if not store.ids():
        reading.say_empty(store)
        return
    everything = store.runs(RunFilter())
    output.note(f"No run matches. {_known('Sets', [run.plan.set_name for run in everything])}")
    output.note(_known("Benchmarks", [run.plan.benchmark for run in everything]))


def _rows(runs: Sequence[Run], phases: Mapping[str, Phase]) -> list[ListedRun]:
    over = [run_id for run_id, phase in phases.items() if phase.final]
    if over:
        output.note(
            f"{_count(over)} over on the cluster, and not collected: k8sbench collect --all"
        )
    return [
        msgspec.structs.replace(records.listed(run), on_cluster=phases.get(run.run_id))
        for run in runs
    ]


def _on_clusters(store: Store, runs: Sequence[Run]) -> dict[str, Phase]:
    """Ask for the phases of runs that nobody here follows; none where a cluster does not answer."""
    alone = [run for run in runs if run.location and reading.is_alone(store, run)]
    phases: dict[str, Phase] = {}
    for location in dict.fromkeys(run.location for run in alone):
        assert location is not None
        here = {run.run_id for run in alone if run.location == location}
        try:
            with clusters.glimpsed(clusters.of_location(location, Access())) as cluster:
                place = cluster.api.place
                there = {job.plan.run_id: job.phase for job in cluster.jobs()}
        except BenchError as wrong:
            output.note(f"warning: {_count(here)} shown as last seen: {wrong.message}")
            continue
        if collecting.same_place(location, place):
            phases |= {run_id: there.get(run_id, Phase.LOST) for run_id in here}
            continue
        # By another URL it may be the same cluster or not: what is not there is not lost.
        phases |= {run_id: phase for run_id, phase in there.items() if run_id in here}
        if unseen := here - there.keys():
            output.note(
                f"warning: {_count(unseen)} shown as last seen: submitted to {location.server},"
                f" and that kubeconfig now leads to {place.server}."
            )
    return phases


def _print(rows: Sequence[ListedRun], form: str, now: float) -> None:
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
    # Of a job that is over there, its end is not known here.
    is_over = row.ended_at is None and (row.on_cluster or row.phase).final
    cells: list[str | None] = [
        row.run_id,
        row.benchmark,
        row.framework,
        row.case,
        row.precision,
        row.on_cluster or row.phase,
        row.verdict if row.recorded else NOT_RECORDED,
        output.ABSENT if is_over else output.duration(until - begun),
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
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _count(runs: Sized) -> str:
    return "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"


def _known(what: str, names: Sequence[str]) -> str:
    """Name what there is, the latest first."""
    latest = list(dict.fromkeys(reversed(names)))
    more = f" and {len(latest) - records.FEW} more" if len(latest) > records.FEW else ""
    return f"{what} in the store: {', '.join(latest[: records.FEW])}{more}."
