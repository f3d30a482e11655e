"""``watch``, ``cancel`` and ``delete``: follow runs to their ends, or end them.

What is wished is recorded before the cluster is asked: without a store that can be written no job
is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, objects, results, stores
from k8sbench.app.connections import now, on_cluster
from k8sbench.app.results import RunRows
from k8sbench.app.runs import find, look_up, to_act_on
from k8sbench.lifecycle import collecting, requests
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Reporter, RunContext, Stop
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    OwnedElsewhere,
    StoreError,
    Unreachable,
    UsageError,
    is_refused,
)
from k8sbench.model.request import NO_OPTIONS, ClusterAccess, FollowOptions
from k8sbench.model.run import Run, Wish, by_name
from k8sbench.ports import JobEvent, Store
from k8sbench.report import group_words

LOOK_SECONDS = 0.5
"""Interval of reading the record of a run that another process follows."""
CAUSE, CAUSE_ID = "Cancelled by k8sbench cancel.", "cancelled"


def watch(
    text: str,
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    options: FollowOptions = NO_OPTIONS,
) -> RunRows:
    """Follow the run with this id prefix, and make its row."""
    if (rows := _watched_object(text, where, access, reporter, stop)) is not None:
        return rows
    with stores.to_write(where) as store:
        run = to_act_on(store, text, access, reporter.note, records=True)
        if run.source != stores.SOURCE:
            run = Follower(store, access, reporter, stop, options).follow(run)
        return results.rows(store, [run], reporter.note)


def _watched_object(
    text: str, where: str | None, access: ClusterAccess, reporter: Reporter, stop: Stop
) -> RunRows | None:
    """Follow a Benchmark object or one of its runs; None for another run."""
    if stores.is_recorded(where, text):
        return None
    with objects.served(access) as place:
        wanted = None if place is None else objects.named(place[0], text)
        if place is None or wanted is None:
            return None
        one = [wanted.benchmark]
        return objects.follow(place[0], one, access, reporter, stop, wanted.run_id)


def end(
    runs: Sequence[str],
    kind: Literal["cancel", "delete"],
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> None:
    """Cancel runs, or delete their cluster resources, which cancels active runs first.

    Those of Benchmark objects are the operator's: their objects are changed.
    """
    here = [text for text in runs if stores.is_recorded(where, text)]
    others = [text for text in runs if text not in here]
    with objects.served(access) if others else contextlib.nullcontext() as place:
        if place is not None:
            api, operator = place
            asked = {text: objects.named(api, text) for text in others}
            work = objects.cancel if kind == "cancel" else objects.delete
            for wanted in asked.values():
                if wanted is not None:
                    work(api, operator, wanted, reporter.note)
            runs = [text for text in runs if asked.get(text) is None]
    if runs:
        _end_own(runs, kind, where, access, reporter, stop)


def _end_own(
    runs: Sequence[str],
    kind: Literal["cancel", "delete"],
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> None:
    """End runs of this store."""
    wish = _to_cancel() if kind == "cancel" else by_name(now())
    with stores.to_write(where) as store:
        store.check_writable()
        follower = Follower(store, access, reporter, stop)
        # All are found before the first one is touched.
        found = [to_act_on(store, text, access, reporter.note) for text in runs]
        for run_id, run in {run.run_id: run for run in found}.items():
            if run.source == stores.SOURCE and run.is_closed:
                continue  # which was noted
            if run.source == stores.SOURCE:
                raise Unreachable(
                    f"The operator still follows run {run_id}, whose Benchmark is gone.",
                    f"It ends by itself; see: k8sbench status {run_id}",
                )
            work = follower.cancel if kind == "cancel" else follower.delete
            work(look_up(store, run_id, access, records=True), wish)


def _to_cancel() -> Wish:
    return Wish(kind="cancel", at=now(), cause=CAUSE, cause_id=CAUSE_ID)


class Follower(msgspec.Struct, frozen=True):
    """Follows runs of a store, ends them, and deletes their jobs."""

    store: Store
    access: ClusterAccess
    reporter: Reporter
    stop: Stop
    options: FollowOptions = FollowOptions(prometheus=connections.NONE)

    def opened(self, run: Run) -> contextlib.AbstractContextManager[RunContext]:
        """Open the cluster of a run; rejects local runs and other clusters."""
        return on_cluster(
            self.store,
            connections.of_run(run, self.access),
            self.reporter.note,
            self.options,
            run=run,
        )

    def follow(self, run: Run) -> Run:
        """Follow a run until it is closed.

        If another process follows it, watch its record instead. A run whose logs cannot be read now
        stays open. A pending deletion of its job is tried once. A stop request before the run is
        closed raises :class:`Interrupted`; the run goes on.
        """
        store, stop, note = self.store, self.stop, self.reporter.note
        owes, is_ours = bool(run.wishes), False
        with stop:
            while (owes or not run.is_closed) and stop.cause is None:
                owes = False
                is_ours = run.plan.backend == "kubernetes" and store.claims.claim(run.run_id)
                if not is_ours:
                    self.reporter.planned(run)
                    run = self._watch_record(run)
                    if _is_left_unmeasured(run):
                        note(
                            f"The process of {run.run_id} ended before it had measured the run."
                            f" Resume: {group_words.resuming(run.plan)}"
                        )
                        return run
                    continue
                result = self._collected(run)
                for wrong in result.failed.values():
                    if isinstance(wrong, StoreError):
                        raise wrong
                if result.failed or (result.going_on and stop.cause is None):
                    # It is left alone, or another store has its job, which was reported.
                    return store.run(run.run_id)
                (run,) = (*result.closed, *result.going_on, *result.followed)
        if run.owes_gpu_metrics and not is_ours:
            note(
                f"The GPU metrics of {run.run_id} are not recorded yet."
                f" See them later with: k8sbench results {run.run_id}"
            )
        if stop.cause is not None and not run.is_closed:
            raise Interrupted(
                f"{stop.cause}: {run.run_id} goes on; it is {run.phase}.",
                f"Come back with: k8sbench watch {run.run_id}",
            )
        if stop.cause is not None:
            note(stop.cause)
        return run

    def _collected(self, run: Run) -> CollectResult:
        """Follow a run that no other process follows, and gather its GPU metrics."""
        with self.opened(run) as context:
            return collecting.collect(
                [run], context, self.reporter, self.stop, self.options, follow=True
            )

    def _watch_record(self, run: Run) -> Run:
        """Report state changes of a run that another process follows.

        Returns the run when it is closed, when no process follows it any more, or at a stop.
        """
        reported = len(run.history)
        on_cluster = run.plan.backend == "kubernetes"
        while True:
            for transition in run.history[reported:]:
                self.reporter.on_event(run, JobEvent(run_id=run.run_id, transition=transition))
            reported = len(run.history)
            # Who follows a run on a cluster fetches its GPU metrics after its end.
            is_complete = run.is_closed and not (on_cluster and run.owes_gpu_metrics)
            if is_complete or self.stop.cause is not None or _is_left_unmeasured(run):
                return run
            if on_cluster and self.store.claims.claim(run.run_id):
                return self.store.run(run.run_id)
            time.sleep(LOOK_SECONDS)
            # Of a local run that also shows when its process is gone.
            run = find(self.store, run.run_id)

    def cancel(self, run: Run, wish: Wish) -> None:
        """End a run; of one that is over, delete what is to be deleted."""
        if run.is_imported:
            connections.check_on_cluster(run)
        if not run.phase.final:
            self._end(run, wish)
            return
        self.reporter.note(f"Nothing to cancel: run {run.run_id} is {run.phase}.")
        if run.wishes:
            self._delete_rest(run, by_name(now()))

    def delete(self, run: Run, wish: Wish) -> None:
        """Delete what is left of a run on its cluster; cancel an active run first."""
        connections.check_on_cluster(run)
        run = self.store.wish(run.run_id, wish)
        if not run.phase.final:
            self._end(run, _to_cancel())
        self._delete_rest(run, wish)

    def _end(self, run: Run, wish: Wish) -> None:
        """End a run, and wait for its end."""
        run_id, store = run.run_id, self.store
        if run.plan.backend == "local":
            _end_process(run)
            run = self.follow(run)
        else:
            with self._on_record(run_id, wish):
                run = store.wish(run_id, wish)
                is_ours = store.claims.claim(run_id)
                with self.opened(run) as here:
                    job = collecting.own_job(run_id, here)
                    if is_ours:
                        closed = collecting.cancel(run, here, self.reporter, self.stop)
                        if closed is None:
                            cause = f"{self.stop.cause}: whether {run_id} ends was not waited for."
                            raise Interrupted(cause, f"See: k8sbench status {run_id}")
                        run = closed
                    elif job is not None:
                        here.cluster.cancel(run_id, CAUSE, CAUSE_ID)
                if not is_ours:
                    # The process that follows it archives its logs and closes it.
                    run = self.follow(run)
        self.reporter.note(f"Run {run_id} is {run.phase}. {run.history[-1].cause}")

    def _delete_rest(self, run: Run, wish: Wish) -> None:
        run_id = run.run_id
        opened = self.opened(run)
        with self._on_record(run_id, wish), opened as here:
            collecting.own_job(run_id, here)
            _, why = requests.delete(here, run_id)
        self.reporter.note(
            f"Run {run_id} has nothing on the cluster any more."
            if why is None
            else f"Run {run_id} stays on the cluster: {why}"
        )

    @contextlib.contextmanager
    def _on_record(self, run_id: str, wish: Wish) -> Iterator[None]:
        """Add to errors that the request is recorded and still pending.

        A refused cancel request is withdrawn instead, with that to delete: the run goes on.
        """
        what = "to be cancelled" if wish.kind == "cancel" else "to be deleted"
        again = f"That {run_id} is {what} is recorded; carry it out with: k8sbench collect {run_id}"
        try:
            yield
        except KeyboardInterrupt as wrong:
            raise Interrupted("Interrupted (Ctrl-C).", again) from wrong
        except StoreError:
            raise
        except BenchError as wrong:
            is_refusal = wish.kind == "cancel" and is_refused(wrong)
            is_final = isinstance(wrong, OwnedElsewhere) or is_refusal
            if isinstance(wrong, Interrupted) or (isinstance(wrong, Unreachable) and not is_final):
                wrong.action = f"{wrong.action} {again}".lstrip()
            elif is_final:
                self.store.fulfilled(run_id, "cancel")
                self.store.fulfilled(run_id, "delete")
            raise


def _is_left_unmeasured(run: Run) -> bool:
    """Return True if a finished local run lost its measuring process."""
    owner = run.owner if run.plan.backend == "local" else None
    is_over = run.phase.final and not run.is_closed
    return is_over and owner is not None and processes.alive(owner) is False


def _end_process(run: Run) -> None:
    owner = run.owner
    if owner is None or not processes.alive(owner):
        host = f" ({owner.host})" if owner is not None else ""
        raise UsageError(f"Run {run.run_id} runs on another machine{host}.", "End it there.")
    os.kill(owner.pid, signal.SIGTERM)
