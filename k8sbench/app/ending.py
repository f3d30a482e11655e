"""``cancel`` and ``delete``: end runs and Benchmark objects, and delete what is left of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from k8sbench.app import objects, stored_objects, stores
from k8sbench.app.connections import now
from k8sbench.app.find import find_run_to_change
from k8sbench.app.follow import LOOK_SECONDS, Follower, to_cancel
from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.benchmark_object import Benchmark, claim_name
from k8sbench.model.errors import Interrupted, Unreachable, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, by_name

if TYPE_CHECKING:
    from k8sbench.store.sql_store import SqlStore

Kind = Literal["cancel", "delete"]


def end(
    texts: Sequence[str],
    kind: Kind,
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> None:
    """Cancel runs and objects, or delete their cluster resources, which cancels them first.

    Those of an operator are ended by it: their objects are changed.
    """
    here = [text for text in texts if stored_objects.is_here(where, text)]
    others = [text for text in texts if text not in here]
    with objects.served(access) if others else contextlib.nullcontext() as place:
        if place is not None:
            api, operator = place
            asked = {text: objects.named(api, text) for text in others}
            work = objects.cancel if kind == "cancel" else objects.delete
            for wanted in asked.values():
                if wanted is not None:
                    work(api, operator, wanted, reporter.note)
            texts = [text for text in texts if asked.get(text) is None]
    if texts:
        with stores.open_writable(where, note=reporter.note) as store:
            store.check_writable()
            _end_own(texts, kind, Follower(store, access, reporter, stop))


def _end_own(texts: Sequence[str], kind: Kind, follower: Follower) -> None:
    """End runs and objects of this store."""
    store = follower.store
    note = follower.reporter.note
    # All are found before the first one is touched.
    found: dict[str, Run | Benchmark] = {}
    for text in texts:
        benchmark = _object_of(store, text)
        if benchmark is not None:
            found[f"object {benchmark.name}"] = benchmark
            continue
        run = find_run_to_change(store, text, follower.access, note, records=True)
        found[run.run_id] = run
    for one in found.values():
        if isinstance(one, Benchmark):
            _end_object(one, kind, follower)
        else:
            _end_run(one, kind, follower)


def _object_of(store: SqlStore, text: str) -> Benchmark | None:
    """Return the object of a name, unless the name is also that of its only run."""
    benchmark = stored_objects.of_store(store).find(text)
    if benchmark is None:
        return None
    runs = stored_objects.runs_of(store, benchmark)
    return None if [run.run_id for run in runs] == [text] else benchmark


def _end_run(run: Run, kind: Kind, follower: Follower) -> None:
    if run.source == stores.SOURCE and run.is_closed:
        return  # which was noted
    if run.source == stores.SOURCE:
        raise Unreachable(
            f"The operator still follows run {run.run_id}, whose Benchmark is gone.",
            f"It ends by itself; see: k8sbench status {run.run_id}",
        )
    if kind == "cancel":
        follower.cancel(run, to_cancel())
    else:
        follower.delete(run, by_name(now()))
    stored_objects.write_statuses(follower.store, follower.reporter.note, [run])


def _end_object(benchmark: Benchmark, kind: Kind, follower: Follower) -> None:
    """Cancel an object; then delete it, if that is asked for, and the jobs of its runs."""
    store = follower.store
    note = follower.reporter.note
    name = benchmark.name
    if benchmark.is_over and kind == "cancel":
        note(f"Nothing to cancel: Benchmark {name} is {benchmark.status.get('phase')}.")
        return
    _check_reachable(store, benchmark)
    if not benchmark.is_over:
        _cancel_object(benchmark, follower)
    if kind == "cancel":
        return
    for run in stored_objects.runs_of(store, benchmark):
        if run.plan.backend == "kubernetes":
            follower.delete(run, by_name(now()))
    stored_objects.of_store(store).delete(benchmark)
    note(f"Benchmark {name} is deleted; the records of its runs stay.")


def _check_reachable(store: SqlStore, benchmark: Benchmark) -> None:
    """Reject an object whose local runs only another machine can end."""
    stored = stored_objects.of_store(store).read_stored(benchmark)
    process = stored_objects.process_elsewhere(store, benchmark)
    if stored is not None and stored.place.backend == "local" and process is not None:
        raise UsageError(
            f"Benchmark {benchmark.name} runs on another machine ({process.host}).",
            f"End it there; if that machine is gone: k8sbench collect --take-over {benchmark.name}",
        )


def _cancel_object(benchmark: Benchmark, follower: Follower) -> None:
    """Have the process of an object cancel it; without one, end its runs here."""
    store = follower.store
    note = follower.reporter.note
    name = benchmark.name
    changed = stored_objects.of_store(store).change(
        benchmark, lambda current: {} if current.spec.cancel else {"cancel": True}
    )
    if changed is None:
        note(f"Benchmark {name} is gone.")
        return
    with follower.stop:
        _await_process(changed, follower)
    stores.reconcile(store)  # a killed process cannot tell the end of its runs
    for run in stored_objects.runs_of(store, changed):
        if not run.phase.final:
            follower.cancel(run, to_cancel())
    with stored_objects.held(store, changed) as is_ours:
        current = stored_objects.write_status(store, changed, note) if is_ours else None
    if current is not None:
        note(f"Benchmark {name} is {current.status.get('phase')}.")
    elif not is_ours:
        note(f"Benchmark {name} is cancelled; its process writes its status.")


def _await_process(benchmark: Benchmark, follower: Follower) -> None:
    """Wait until no process reconciles an object any more: it cancels the runs."""
    claims = follower.store.claims
    claim = claim_name(benchmark.name)
    while claims.is_taken(claim):
        if follower.stop.cause is not None:
            raise Interrupted(
                f"{follower.stop.cause}: Benchmark {benchmark.name} is cancelled by its process.",
                f"See: k8sbench list --set {benchmark.set_name}",
            )
        time.sleep(LOOK_SECONDS)
