"""``collect``: close finished runs that no process follows, and make their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from k8sbench.app import connections, find, results, stored_benchmark, stored_objects, stores
from k8sbench.app.results import RunRows
from k8sbench.app.run_contexts import on_cluster
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Agree, Note, Reporter, RunContext
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import UsageError
from k8sbench.model.request import CollectOptions
from k8sbench.model.run import Location, Run
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.store.sql_store import SqlStore

Collected = tuple[CollectResult, RunRows]
"""Collected runs, and the rows of the closed ones."""


def collect(options: CollectOptions, reporter: Reporter, stop: Stop, agree: Agree) -> Collected:
    """Collect the named runs and Benchmarks, or every run of the namespace that needs it.

    The statuses of their Benchmarks are written. Asked to stop it returns early, with the runs that
    go on. ``agree`` is asked before a job or a Benchmark is taken over.
    """
    results.check_accepted(options.accept)
    result = CollectResult()
    with stores.open_writable(options.store, note=reporter.note) as store:
        for location, run_ids in _by_location(store, options, result, reporter, agree).items():
            api = connections.connect(options.access, location)
            with on_cluster(store, api, reporter.note, options) as context, stop:
                for run_id in run_ids if options.take_over else ():
                    collecting.take_over(run_id, context, agree, reporter.note)
                runs = [_known(run_id, context) for run_id in run_ids]
                if not options.runs:
                    runs = collecting.pending_runs(context, reporter.note)
                    runs += collecting.owed_runs(context)
                for run in runs:
                    if run.needs_collection:
                        collecting.check_place(run, context.cluster, context.location)
                away = _away(store, runs)
                if away and options.runs:
                    raise next(iter(away.values()))
                for message in dict.fromkeys(
                    f"{one.message} {one.action}" for one in away.values()
                ):
                    reporter.note(message)
                result.followed += [run for run in runs if run.run_id in away]
                runs = [run for run in runs if run.run_id not in away]
                collected = collecting.collect(
                    runs, context, reporter, stop, options, follow=options.until_over
                )
                result.add(collected)
            if stop.cause is not None:
                break
        done = [*result.closed, *result.going_on, *result.followed]
        which = done if options.runs else None
        stored_objects.write_statuses(store, reporter.note, which, options.runs)
        for run_id, error in (stores.damaged(store) if not options.runs else {}).items():
            reporter.note(f"warning: run {run_id} is left out: {error.message} {error.action}")
            result.failed.setdefault(run_id, error)
        return result, _rows(store, result.closed, options, reporter.note)


def _rows(store: SqlStore, closed: Iterable[Run], options: CollectOptions, note: Note) -> RunRows:
    """Return the rows of runs, each of the store that has it."""
    closed = list(closed)
    theirs = [run for run in closed if run.source == stores.SOURCE]
    ours = [run for run in closed if run.source != stores.SOURCE]
    made = []
    if ours or not theirs:
        made.append(results.rows(store, ours, note, accept=options.accept))
    if theirs:
        made.append(results.operator_rows(options.access, theirs, note, accept=options.accept))
    return results.joined(*made)


def _away(store: SqlStore, runs: Iterable[Run]) -> dict[str, UsageError]:
    """Return the errors for the runs that another machine may go on with, by run id."""
    objects = stored_objects.elsewhere(store)
    return {
        run.run_id: error
        for run in runs
        for one, error in objects
        if run.needs_collection and stored_objects.is_of(run, one)
    }


def _known(run_id: str, context: RunContext) -> Run:
    """Return the record of a run; a missing one is made."""
    store = context.store
    if run_id in store.ids():
        job = collecting.job_of(run_id, context)
        if job is None or not collecting.is_late(job, context):
            return store.run(run_id)
    return collecting.adopted(run_id, context)


def _by_location(
    store: SqlStore,
    options: CollectOptions,
    result: CollectResult,
    reporter: Reporter,
    agree: Agree,
) -> dict[Location | None, list[str]]:
    """Group the named runs by cluster; runs that the operator alone has are closed.

    The key None stands for the named or current cluster, the only one if no run is named; where
    none is configured, runs of clusters that are not over ask for it. Runs of named Benchmarks that
    need no cluster are taken as they are.
    """
    locations: dict[Location | None, dict[str, None]] = {}
    if not options.runs and (connections.configured(options.access) or _has_jobs(store)):
        locations[None] = {}
    for run in _named(store, options, result, reporter, agree):
        place = None if options.access.is_given else run.location
        locations.setdefault(place, {})[run.run_id] = None
    return {place: list(names) for place, names in locations.items()}


def _has_jobs(store: SqlStore) -> bool:
    """Return True if runs that are not over may have jobs on a cluster."""
    unfinished = store.runs(RunFilter(unfinished=True))
    return any(run.plan.backend == "kubernetes" for run in unfinished)


def _named(
    store: SqlStore,
    options: CollectOptions,
    result: CollectResult,
    reporter: Reporter,
    agree: Agree,
) -> Iterator[Run]:
    """Yield the named runs that are on clusters, and put the others into the result."""
    for text in options.runs:
        benchmark = stored_objects.of_store(store).find(text)
        if benchmark is not None:
            if options.take_over:
                stored_benchmark.take_over(store, benchmark, agree, reporter.note)
            stores.reconcile(store)
            for run in stored_objects.runs_of(store, benchmark):
                if run.plan.backend == "kubernetes" and not (options.take_over and run.phase.final):
                    yield run
                else:
                    (result.closed if run.is_closed else result.going_on).append(run)
            continue
        run = find.find_run_to_change(store, text, options.access, reporter.note)
        if run.source == stores.SOURCE:
            (result.closed if run.is_closed else result.going_on).append(run)
            continue
        connections.check_on_cluster(run)
        yield run
