"""``store remove`` and ``store prune``: take runs, or the logs of old ones, out of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import connections, context, lookup, stores
from k8sbench.lifecycle import collecting, records
from k8sbench.model import times
from k8sbench.model.errors import Interrupted, StoreError, Unreachable, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.stores import Note

KEEP_OPTION = "--keep-logs-for"


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed of old runs, or would be."""

    runs: tuple[str, ...]
    files: int
    bytes: int
    kept: dict[str, str]
    """Old runs whose logs are still needed, by run id: why."""


def remove(
    texts: Sequence[str],
    where: str | None,
    access: ClusterAccess,
    note: Note,
    confirm: Callable[[Sequence[str]], bool],
    *,
    ask_clusters: bool = True,
) -> list[str]:
    """Remove runs, or those of whole sets, with all that is kept of them: all, or none.

    Refuses runs that go on and runs that still have a job on a cluster. Of a damaged run, named by
    its id, neither is known.
    """
    from k8sbench.adapters.store import removal

    stores.check_exists(where)
    with stores.to_write(where) as store, ExitStack() as stack:
        store.runs(RunFilter())
        damaged = [text for text in texts if text in store.unreadable]
        readable = [text for text in texts if text not in damaged]
        runs = [store.run(run_id) for run_id in lookup.chosen(store, readable)]
        on = [run for run in runs if not run.phase.final]
        if on:
            raise UsageError(
                f"{_named(on)} not over: {on[0].run_id} is {on[0].phase}. Nothing was removed.",
                f"End it first with: k8sbench cancel {on[0].run_id}",
            )
        for run in runs:
            stack.enter_context(_claimed(store, run))
        if ask_clusters:
            _check_no_jobs(runs, access)
        if not confirm([*damaged, *(run.run_id for run in runs)]):
            raise Interrupted("Nothing was removed.")
        for run_id in damaged:
            removal.remove(store, run_id)
            note(f"If {run_id} has a job on a cluster: k8sbench delete {run_id}")
        for run in runs:
            removal.remove(store, run.run_id)
            if run.artifacts is None:
                note(f"{run.artifacts_missing} That folder stays; delete it there.")
    return [*damaged, *(run.run_id for run in runs)]


def _named(runs: Sequence[Run]) -> str:
    names = records.few([run.run_id for run in runs])
    return f"Run {names} is" if len(runs) == 1 else f"Runs {names} are"


@contextmanager
def _claimed(store: SqlStore, run: Run) -> Iterator[None]:
    if not store.claims.claim(run.run_id):
        raise UsageError(
            f"Another k8sbench process follows run {run.run_id}. Nothing was changed.",
            "Wait for it, or end it.",
        )
    try:
        yield
    finally:
        store.claims.release(run.run_id)


def _check_no_jobs(runs: Sequence[Run], access: ClusterAccess) -> None:
    """Check that no cluster has a job of the runs any more."""
    places: dict[Location, list[Run]] = {}
    for run in runs:
        if run.plan.backend == "kubernetes":
            place = Location(server="", namespace=access.namespace or "default")
            places.setdefault(run.location or place, []).append(run)
    for place, there in places.items():
        try:
            with connections.glimpsed(connections.connect_to(place, access)) as cluster:
                collecting.check_place(there[0], cluster, cluster.api.place)
                ids = [run.run_id for run in there]
                left = {job.run_id for job in cluster.jobs(ids)} & set(ids)
        except Unreachable as error:
            raise Unreachable(
                f"Whether {_named(there)} on a cluster still is not known: {error.message}",
                f"{error.action} For a cluster that is gone for ever add --without-cluster.",
            ) from error
        if left:
            some = [run for run in there if run.run_id in left]
            raise UsageError(
                f"{_named(some)} on the cluster still, with a job. Nothing was removed.",
                f"Delete that first with: k8sbench delete {some[0].run_id}",
            )


def keep_seconds(text: str) -> float:
    """Read for how long logs are kept."""
    seconds = times.seconds(text)
    if not seconds:
        raise UsageError(
            f"{KEEP_OPTION} {text!r} is not a length of time.", "Write 90d, 12w or 36h."
        )
    return seconds


def prune(store: SqlStore, keep_s: float, *, dry_run: bool = False) -> PruneReport:
    """Remove logs and GPU series, as far as they are here, of runs that ended ``keep_s`` ago.

    Rows and measurements stay. Kept are also the logs of what is not measured, of what its cluster
    is still to be asked for, and of a run that another process follows.
    """
    from k8sbench.adapters.store import removal

    now, rule = context.now(), f"{KEEP_OPTION} {times.duration(keep_s)}"
    done, kept = dict[str, removal.Pruned](), dict[str, str]()
    for run_id in removal.logged(store.root):
        try:
            run = store.run(run_id)
            if run.ended_at is None or run.ended_at > now - keep_s:
                continue
            if run.owes_measurement:
                kept[run_id] = "It is not measured yet."
            elif run.wishes:
                kept[run_id] = "What is left of its job is to be deleted."
            else:
                with _claimed(store, run):
                    done[run_id] = removal.prune(store, run_id, at=now, rule=rule, dry_run=dry_run)
        except (StoreError, UsageError) as error:
            kept[run_id] = error.message
    return PruneReport(
        runs=tuple(done),
        files=sum(removed.files for removed in done.values()),
        bytes=sum(removed.bytes for removed in done.values()),
        kept=kept,
    )
