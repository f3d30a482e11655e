"""``watch``: follow a run to its end, whoever follows it besides."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import connections, context, lookup, metric_sources, results, stores
from k8sbench.app.results import Rows
from k8sbench.lifecycle import collecting, watching
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.lifecycle.gathering import Gathering, is_attended, is_owed
from k8sbench.model.errors import Interrupted, StoreError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore


def watch(
    text: str,
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    show: results.Show,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = metric_sources.AUTO,
) -> Rows:
    """Follow the run of an id, or of a unique beginning of one, and make its row."""
    with stores.to_write(where) as store:

        def rows(runs: Sequence[Run]) -> Rows:
            return results.rows(store, runs, reporter.note)

        def closed(runs: Sequence[Run], gathering: Gathering) -> None:
            gathering.to_the_end(stop, lambda seconds: show(rows(runs), seconds))

        def owed(run: Run) -> None:
            show(rows([run]), None)

        run = lookup.run_of(store, text, access)
        run = follow(
            *(store, run, access, reporter, stop, closed, owed),
            keep=keep,
            wait=wait,
            prometheus=prometheus,
        )
        return rows([run])


def follow(
    store: SqlStore,
    run: Run,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Sequence[Run], Gathering], None] = lambda *_: None,
    owed: Callable[[Run], None] = lambda _: None,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = metric_sources.NONE,
) -> Run:
    """Follow a run until it is closed, or watch its record while another process follows it.

    One whose logs cannot be read now is left alone, and not final. The deletion of its job, where
    that is owed, is tried once. ``closed`` is called with a run that this process has closed, and
    ``owed`` with one whose GPU metrics another process fetches, which are then waited for. Asked to
    stop before that it raises :class:`Interrupted`; the run goes on.
    """
    owes = bool(run.wishes)
    closed_at = run.history[-1].at if watching.is_closed(run) else None
    is_ours = False
    with stop:
        while (owes or not watching.is_closed(run)) and stop.cause is None:
            owes = is_ours = False
            if run.plan.backend == "kubernetes" and store.claims.claim(run.run_id):
                with (
                    connections.cluster_of(
                        run, access, reporter.note, keep=keep, store=store
                    ) as cluster,
                    metric_sources.opened(prometheus, cluster.api, store) as sources,
                ):
                    here = context.run_context(
                        store,
                        cluster,
                        location=run.location,
                        metric_sources=sources,
                        access=access,
                    )
                    gathering, is_ours = Gathering(here, reporter), True
                    result = collecting.collect(
                        *([run], here, reporter, stop),
                        follow=True,
                        keep=keep,
                        wait=wait,
                        gathering=gathering,
                    )
                    closed(result.closed, gathering)
                for wrong in result.failed.values():
                    if isinstance(wrong, StoreError):
                        raise wrong
                    return store.run(run.run_id)  # left alone, which was reported
                if result.going_on and stop.cause is None:
                    return store.run(run.run_id)  # another store has its job, which was reported
                (run,) = (*result.closed, *result.going_on, *result.followed)
                run = gathering.completed.get(run.run_id, run)
            else:
                reporter.planned(run)
                run = watching.watch_record(
                    store,
                    run,
                    reporter,
                    stop,
                    refreshed=lambda run_id: context.find(store, run_id),
                    sleep=time.sleep,
                )
        until = (closed_at or time.time()) + watching.GPU_METRICS_SECONDS
        if is_owed(run) and not is_ours and time.time() < until:
            if is_attended(store, run.run_id):
                owed(run)
            run = watching.watch_gpu_metrics(
                store, run, stop, left=lambda: until - time.time(), sleep=time.sleep
            )
    if stop.cause is not None and not watching.is_closed(run):
        raise Interrupted(
            f"{stop.cause}: {run.run_id} goes on; it is {run.phase}.",
            f"Come back with: k8sbench watch {run.run_id}",
        )
    if stop.cause is not None:
        reporter.note(f"{stop.cause}")
    return run
