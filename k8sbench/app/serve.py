"""Serving: every run of some namespaces is collected, until a stop.

``collect --all --follow`` and the collector are this. It ends with an error where the store cannot
be used; the collector begins again then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import collect, connections, metric_sources, stores
from k8sbench.app.collect import Collected, CollectOptions
from k8sbench.app.context import run_context
from k8sbench.lifecycle import serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.lifecycle.serving import Serving
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.store.sql_store import SqlStore

PRUNE_SECONDS = 6 * 3600.0
"""Between two looks for trainers' sources that nothing has referred to for long."""
MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one sees who looks while namespaces are served."""

    listed_at: float | None
    """When the jobs of the last of them were listed, Unix seconds; None: not yet."""
    runs: Sequence[Run]
    """Those that are followed."""
    api_errors: dict[str, int]
    """By HTTP status, or ``none``: requests that API servers refused or did not answer."""


def serve(options: CollectOptions, reporter: Reporter, stop: Stop) -> Collected:
    """Collect every run of a namespace, and new ones, until asked to stop.

    New are jobs that are created there, and runs that another process of the store abandons.
    Returns what was collected, and which runs go on.
    """
    closed: dict[str, Run] = {}

    def keep(run: Run) -> None:
        closed[run.run_id] = run

    with stores.to_write(options.store) as store:
        result = serve_all(store, [options.access], options, reporter, stop, keep)
        result.closed = list(closed.values())
        return collect.with_rows(store, result, options, reporter)


def serve_all(
    store: SqlStore,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Look], None] | None = None,
) -> CollectResult:
    """Collect every run of several namespaces into an open store, until asked to stop.

    With ``look`` it is the collector that does so: patient with API servers, and for everybody.
    """
    apis: list[Api] = []
    is_all = look is not None
    noted: set[str] = set()

    def note_once(text: str) -> None:
        if len(noted) >= MOST_NOTES:
            noted.clear()
        if text not in noted:
            noted.add(text)
            reporter.note(text)

    with contextlib.ExitStack() as stack:
        served = []
        for access in places:
            api = connections.connect(access)
            apis.append(api)
            connections.await_answer(api, reporter.note)
            cluster = stack.enter_context(
                connections.opened(api, keep=options.keep, store=store, is_collector=is_all)
            )
            sources = stack.enter_context(metric_sources.opened(options.prometheus, api, store))
            context = run_context(
                store,
                cluster,
                location=api.place,
                clock=api.time,
                accept=options.accept,
                metric_sources=sources,
                access=None if is_all else access,
            )
            find = partial(
                collect.pending_runs,
                *(context, note_once),
                adopts=is_all or options.adopt,
                renumber=is_all,
            )
            place = Serving(
                *(find, context, reporter),
                keep=options.keep,
                wait=options.wait,
                patient=is_all,
            )
            served.append(stack.enter_context(place))
        stack.enter_context(stop)

        prune_at = 0.0

        def seen(places: Sequence[Serving]) -> None:
            nonlocal prune_at
            times = [place.listed_at for place in places]
            if is_all and None not in times and time.monotonic() >= prune_at:
                prune_at = time.monotonic() + PRUNE_SECONDS
                for api in apis:
                    _prune(api, note_once)
            errors: dict[str, int] = {}
            for api in apis:
                for code, count in api.sender.errors.items():
                    errors[code] = errors.get(code, 0) + count
            if look is not None:
                look(
                    Look(
                        listed_at=None if None in times else min(filter(None, times), default=None),
                        runs=[run for place in places for run in place.open_runs()],
                        api_errors=errors,
                    )
                )

        return serving.serve(served, stop, closed, seen)


def _prune(api: Api, note: Callable[[str], None]) -> None:
    from k8sbench.adapters.kubernetes import trainer_pruning
    from k8sbench.adapters.kubernetes.client.faults import ApiFault

    try:
        for name in trainer_pruning.prune(api):
            note(f"The ConfigMap {name} was deleted: nothing has referred to it for 30 days.")
    except ApiFault as fault:  # the next look finds them
        note(f"warning: {api.explained(fault, 'unused trainers be deleted')}")
