"""``collect``: close finished runs that no process follows, and make rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import connections, lookup, metric_sources, results, stores
from k8sbench.app.context import on_cluster
from k8sbench.app.results import Rows
from k8sbench.lifecycle import collecting, owners
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Agree, Reporter, RunContext, Stop
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run

if TYPE_CHECKING:
    from k8sbench.ports import Store


class CollectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Runs to collect, and options of collecting."""

    runs: tuple[str, ...] = ()
    """Ids, or unique beginnings of them; none: all of the namespace that need collection."""
    take_over: bool = False
    """True to make this store the owner of the jobs of :attr:`runs`."""
    until_over: bool = False
    """True to wait for active jobs."""
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""
    keep: bool = False
    """True to keep finished jobs and pods on the cluster."""
    wait: bool = False
    """True to wait even for problems that cannot recover by themselves."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""
    prometheus: str = metric_sources.AUTO
    """URL, ``auto`` or ``none``."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """Collected runs, and the rows of the closed ones."""

    result: CollectResult
    rows: Rows


def collect(options: CollectOptions, reporter: Reporter, stop: Stop, agree: Agree) -> Collected:
    """Collect the named runs, or every run of the namespace that needs it.

    Asked to stop it returns early, with the runs that go on. ``agree`` is asked before a job is
    taken over.
    """
    results.check_accepted(options.accept)
    result = CollectResult()
    with stores.to_write(options.store) as store:
        places = _by_location(store, options)
        for location, run_ids in places.items():
            access = options.access
            api = connections.connect(connections.access_to(location, access))
            with (
                on_cluster(
                    *(store, api, reporter.note),
                    access=access,
                    prometheus=options.prometheus,
                    keep=options.keep,
                    accept=options.accept,
                ) as context,
                stop,
            ):
                if options.runs:
                    if options.take_over:
                        for run_id in run_ids:
                            owners.take_over(run_id, context, agree, reporter.note)
                    runs = [_known(run_id, context) for run_id in run_ids]
                else:
                    runs = pending_runs(context, reporter.note)
                    runs += collecting.owed_runs(context)
                for run in filter(collecting.needs_collection, runs):
                    collecting.check_place(run, context.cluster, context.location)
                gathering = Gathering(context, reporter)
                collected = collecting.collect(
                    runs,
                    context,
                    reporter,
                    stop,
                    follow=options.until_over,
                    keep=options.keep,
                    wait=options.wait,
                    gathering=gathering,
                )
                collected.closed = results.with_gpu_metrics(
                    collected.closed, gathering, stop, reporter.note
                )
                result.add(collected)
            if stop.cause is not None:
                break
        for run_id, error in (stores.damaged(store) if not options.runs else {}).items():
            reporter.note(f"warning: run {run_id} is damaged: {error.message} {error.action}")
            result.failed.setdefault(run_id, error)
        return with_rows(store, result, options, reporter)


def _known(run_id: str, context: RunContext) -> Run:
    """Return the record of a run named by the user.

    A missing record is made now, also if the job continues the run.
    """
    store = context.store
    if run_id in store.ids():
        job = owners.job_of(run_id, context)
        if job is None or not collecting.is_continued(store.run(run_id), job):
            return store.run(run_id)
    return owners.recorded(run_id, context)


def pending_runs(
    context: RunContext, note: Callable[[str], None], *, claims: bool = False
) -> list[Run]:
    """Return all runs of the namespace that need collection.

    With ``claims`` also those whose jobs name no owner; they become this store's.
    """
    jobs = context.cluster.jobs()
    owners.record_ours(jobs, context, note, claims=claims)
    owners.admit(jobs, context, note)
    return collecting.open_runs(context, {job.run_id for job in jobs})


def with_rows(
    store: Store, result: CollectResult, options: CollectOptions, reporter: Reporter
) -> Collected:
    """Make the rows of the runs that were closed."""
    rows = results.rows(store, result.closed, reporter.note, accept=options.accept)
    return Collected(result=result, rows=rows)


def _by_location(store: Store, options: CollectOptions) -> dict[Location | None, list[str]]:
    """Group the named runs by cluster.

    The key None stands for the named or current cluster.
    """
    if not options.runs:
        return {None: []}
    locations: dict[Location | None, list[str]] = {}
    for text in options.runs:
        run, _ = lookup.look_up(store, text, options.access)
        connections.check_on_cluster(run)
        names = locations.setdefault(None if options.access.named else run.location, [])
        if run.run_id not in names:
            names.append(run.run_id)
    return locations
