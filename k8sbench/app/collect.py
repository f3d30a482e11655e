"""``collect``: close runs whose jobs went on without anybody who follows them, and make their rows.

``collect --all --follow``, which goes on with new jobs, is :mod:`k8sbench.app.serve`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import connections, context, lookup, results, stores
from k8sbench.app.connections import ClusterAccess
from k8sbench.app.results import Rows
from k8sbench.model.errors import UsageError
from k8sbench.model.run import Location, Run
from k8sbench.runs import collecting, foreign_jobs
from k8sbench.runs.collecting import CollectResult
from k8sbench.runs.context import Reporter, RunContext, Stop
from k8sbench.runs.following import FollowOptions

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.ports import Store


class CollectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are to be collected, and how."""

    runs: tuple[str, ...] = ()
    """Ids, or unique beginnings of them; none: all of the namespace that need collection."""
    until_over: bool = False
    """Whether to wait for jobs that are not over."""
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""
    follow: FollowOptions = FollowOptions()
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the runs, and the rows of those that are closed."""

    result: CollectResult
    rows: Rows


def collect(options: CollectOptions, reporter: Reporter, stop: Stop) -> Collected:
    """Collect the runs that were named, or every one of the namespace that needs it.

    Asked to stop it returns early, with the runs that go on.
    """
    result = CollectResult()
    with stores.to_write(options.store) as store:
        for location, names in _by_location(store, options).items():
            with opened(store, location, options, reporter) as here, stop:
                if options.runs:
                    wanted = [store.run(name) for name in names]
                else:
                    wanted = pending_runs(here, reporter.note)
                for run in wanted:
                    if collecting.needs_collection(run):
                        collecting.check_place(run, here.cluster, here.location)
                result.add(
                    collecting.collect(
                        wanted, here, reporter, stop, options.follow, follow=options.until_over
                    )
                )
            if stop.cause is not None:
                break
        return collected(store, result, options, reporter)


@contextlib.contextmanager
def opened(
    store: SqlStore, location: Location | None, options: CollectOptions, reporter: Reporter
) -> Iterator[RunContext]:
    """Open the cluster of a location, or the one that was named or is current."""
    access = options.access
    api = connections.connect_to(location, access) if location else connections.connect(access)
    connections.note_silence(api, reporter.note)
    with connections.opened(api, keep=options.follow.keep, store=store) as cluster:
        yield context.run_context(store, cluster, location=api.place, accept=options.accept)


def pending_runs(here: RunContext, note: Callable[[str], None]) -> list[Run]:
    """Record the foreign jobs of the namespace; returns all runs there that need collection."""
    foreign_jobs.record_all(here, note)
    return collecting.open_runs(here)


def collected(
    store: Store, result: CollectResult, options: CollectOptions, reporter: Reporter
) -> Collected:
    """Make the rows of the runs that were closed."""
    rows = results.rows(store, result.closed, reporter.note, accept=options.accept)
    return Collected(result=result, rows=rows)


def _by_location(store: Store, options: CollectOptions) -> dict[Location | None, list[str]]:
    """Sort the named runs by the cluster they are on; None: the one named or current."""
    if not options.runs:
        return {None: []}
    locations: dict[Location | None, list[str]] = {}
    for text in options.runs:
        run = lookup.run_of(store, text, options.access)
        if run.plan.backend != "kubernetes":
            raise UsageError(
                f"Run {run.run_id} is a local one; there is nothing to collect.",
                f"See: k8sbench status {run.run_id}",
            )
        names = locations.setdefault(None if options.access.named else run.location, [])
        if run.run_id not in names:
            names.append(run.run_id)
    return locations
