"""``watch`` and ``logs``; following runs to their ends, and ending them.

What is wished is recorded before the cluster is asked: without a store that can be written no job
is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, objects, results, stored_objects, stores
from k8sbench.app.answers import StoresRead
from k8sbench.app.connections import now
from k8sbench.app.find import find_recorded, find_run_to_change, run_seen
from k8sbench.app.results import RunRows
from k8sbench.app.run_contexts import on_cluster
from k8sbench.lifecycle import collecting, job_requests
from k8sbench.lifecycle.context import Note, Reporter, RunContext
from k8sbench.lifecycle.decide import is_final
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import times
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    NotFound,
    OwnedElsewhere,
    StoreError,
    Unreachable,
    UsageError,
    is_refused,
)
from k8sbench.model.kinds import replica_names
from k8sbench.model.masking import Masking
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.request import NO_OPTIONS, ClusterAccess, FollowOptions
from k8sbench.model.run import Run, Wish, by_name
from k8sbench.model.times import FILE_SECONDS
from k8sbench.ports.cluster import JobEvent
from k8sbench.results.report import group_words

if TYPE_CHECKING:
    from k8sbench.store.sql_store import SqlStore

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
    """Follow a run, or a Benchmark object or one of its runs; return rows."""
    if not stored_objects.is_here(where, text):
        with objects.served(access) as place:
            wanted = None if place is None else objects.named(place[0], text)
            if place is not None and wanted is not None:
                return objects.follow(
                    place[0], wanted.benchmark, access, reporter, stop, wanted.run_id
                )
    with stores.open_writable(where, note=reporter.note) as store:
        run = find_run_to_change(store, text, access, reporter.note, records=True)
        if run.source == stores.SOURCE:
            return results.operator_rows(access, [run], reporter.note)
        run = Follower(store, access, reporter, stop, options).follow(run)
        stored_objects.write_statuses(store, reporter.note, [run])
        return results.rows(store, [run], reporter.note)


def to_cancel() -> Wish:
    """Return the wish of a user to cancel a run."""
    return Wish(kind="cancel", at=now(), cause=CAUSE, cause_id=CAUSE_ID)


class Follower(msgspec.Struct, frozen=True):
    """Follows runs of a store, ends them, and deletes their jobs."""

    store: SqlStore
    access: ClusterAccess
    reporter: Reporter
    stop: Stop
    options: FollowOptions = FollowOptions(prometheus=connections.NONE)

    def opened(self, run: Run) -> contextlib.AbstractContextManager[RunContext]:
        """Open the cluster of a run; rejects local runs and other clusters."""
        return on_cluster(
            self.store,
            connections.connect_to_run(run, self.access),
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
        if run.plan.backend == "kubernetes" and not run.is_closed:
            stored_objects.check_place(store, run)
        owes = bool(run.wishes)
        is_ours = False
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
                with self.opened(run) as here:
                    result = collecting.collect(
                        [run], here, self.reporter, stop, self.options, follow=True
                    )
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
            run = find_recorded(self.store, run.run_id)

    def cancel(self, run: Run, wish: Wish) -> None:
        """End a run; of one that is over, delete what is to be deleted."""
        if run.planned is None:
            connections.check_on_cluster(run)
        if not run.phase.final:
            self._end(run, wish)
            return
        self.reporter.note(f"Nothing to cancel: run {run.run_id} is {run.phase}.")
        if run.wishes:
            self._delete_rest(run, by_name(now()))

    def delete(self, run: Run, wish: Wish) -> None:
        """Delete what is left of a run; cancel an active one first."""
        connections.check_on_cluster(run)
        if not run.is_closed:
            stored_objects.check_place(self.store, run)
        run = self.store.wish(run.run_id, wish)
        if not run.phase.final:
            self._end(run, to_cancel())
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
                elsewhere = stored_objects.held_elsewhere(store, run)
                is_ours = elsewhere is None and store.claims.claim(run_id)
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
                if elsewhere is not None:
                    one, _ = elsewhere
                    self.reporter.note(
                        f"Run {run_id} is cancelled; the machine of Benchmark {one.name} records"
                        f" its end. If it is gone: k8sbench collect --take-over {one.name}"
                    )
                    return
                if not is_ours:
                    # The process that follows it archives its logs and closes it.
                    run = self.follow(run)
        self.reporter.note(f"Run {run_id} is {run.phase}. {run.history[-1].cause}")

    def _delete_rest(self, run: Run, wish: Wish) -> None:
        run_id = run.run_id
        opened = self.opened(run)
        with self._on_record(run_id, wish), opened as here:
            collecting.own_job(run_id, here)
            _, why = job_requests.delete(here, run_id)
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
                self.store.remove_wish(run_id, "cancel")
                self.store.remove_wish(run_id, "delete")
            raise


def _is_left_unmeasured(run: Run) -> bool:
    """Return True if a finished local run lost its measuring process."""
    process = run.process if run.plan.backend == "local" else None
    is_over = run.phase.final and not run.is_closed
    return is_over and process is not None and processes.alive(process) is False


def _end_process(run: Run) -> None:
    process = run.process
    if process is None or not processes.alive(process):
        host = f" ({process.host})" if process is not None else ""
        raise UsageError(f"Run {run.run_id} runs on another machine{host}.", "End it there.")
    if process.pid == os.getpid():
        raise UsageError(
            f"Run {run.run_id} runs in this process.", "Name it by its whole id, or interrupt it."
        )
    os.kill(process.pid, signal.SIGTERM)


# -- logs: what the replicas printed, from the archive or from the cluster -------------------------


MASKED_TOGETHER = 500
"""Most lines that are read before they are masked."""


class PrintedLine(NamedTuple):
    """One line of a run's logs."""

    at: float
    """Unix seconds at which it was received; 0 for an imported log."""
    replica: str
    """Name of its replica; empty if the lines of one replica are read."""
    text: bytes
    """The line without its end."""


def logs(
    text: str,
    scope: StoresRead,
    note: Note,
    stop: Stop,
    *,
    replica: str | None = None,
    follows: bool = False,
) -> Generator[PrintedLine | None, None, None]:
    """Yield a run's lines, in the order of time; None while no more come.

    ``replica`` is one alone. With ``follows`` it goes on until the run has ended. The lines of a
    run on a cluster that no process of this store follows come from there, and are not archived.
    Credentials in the lines are masked.
    """
    yield from _masked(_as_printed(text, scope, note, stop, replica, follows=follows))


def _masked(
    lines: Generator[PrintedLine | None, None, None],
) -> Generator[PrintedLine | None, None, None]:
    """Mask lines, many at a time."""
    masking = Masking()
    held: list[PrintedLine] = []

    def released() -> Iterator[PrintedLine]:
        texts = masking.lines([line.text for line in held])
        yield from (line._replace(text=text) for line, text in zip(held, texts, strict=True))
        held.clear()

    with contextlib.closing(lines):
        try:
            for line in lines:
                if line is not None:
                    held.append(line)
                if line is None or len(held) == MASKED_TOGETHER:
                    yield from released()
                if line is None:
                    yield None
        except Exception:
            yield from released()
            raise
        yield from released()


def _as_printed(
    text: str,
    scope: StoresRead,
    note: Note,
    stop: Stop,
    replica: str | None,
    *,
    follows: bool,
) -> Generator[PrintedLine | None, None, None]:
    """Yield the lines of :func:`logs` as the program printed them."""
    with run_seen(text, scope, note) as (run, store):
        names = replica_names(run.plan)
        if run.facts.backend == "imported" and store is not None:
            # It has as many logs as were given, whatever its replicas were.
            names = [path.stem for path in store.log_files(run.run_id)]
        if replica not in {None, *names}:
            raise NotFound(
                f"Run {run.run_id} has no log of a replica {replica!r}.",
                f"Replicas: {', '.join(names)}.",
            )
        reader = _LogReader(
            run, scope.access, note, replica, several=replica is None and len(names) > 1
        )
        is_theirs = run.source == stores.SOURCE
        is_observed = run.facts.job is not None
        if is_theirs and (run.phase.final or is_observed or scope.insists):
            yield from reader.from_operator()
        elif store is not None and not stores.is_alone(store, run):
            yield from reader.archived(store, follow=follows)
        elif follows:
            yield from reader.from_pods(stop)
        else:
            yield from reader.from_cluster()
            return
        if follows and (is_theirs or not run.phase.final):
            note(f"Run {run.run_id} is {reader.run.phase}. {reader.run.history[-1].cause}")


class _LogReader:
    """Reads the lines of one run."""

    def __init__(
        self, run: Run, access: ClusterAccess, note: Note, replica: str | None, *, several: bool
    ) -> None:
        self.run = run
        self._access, self._note, self._replica, self._several = access, note, replica, several

    def from_cluster(self) -> Iterator[PrintedLine]:
        """Yield what the cluster has of the run's logs."""
        is_printed = False
        api = connections.connect_to_run(self.run, self._access)
        with connections.glance(api, self.run) as cluster:
            lines: Iterable[LogLine] = cluster.printed(self.run)
            if self._several:
                lines = sorted(lines, key=lambda line: line.at)
            for line in lines:
                if self._replica in {None, line.replica}:
                    yield self._printed(line)
                    is_printed = True
                elif is_printed:
                    break  # the replicas' logs come one after the other
        if not is_printed:
            self._note(f"Nothing was printed yet. See: k8sbench status {self.run.run_id}")

    def from_pods(self, stop: Stop) -> Iterator[PrintedLine | None]:
        """Yield what a job prints, until its end or a stop."""
        api = connections.connect_to_run(self.run, self._access)
        with connections.glance(api, self.run) as cluster, stop:
            cluster.resume(self.run, {})
            while stop.cause is None and not is_final(self.run.history[-1]):
                for event in cluster.wait(FILE_SECONDS):
                    if event.line is not None and self._replica in {None, event.line.replica}:
                        yield self._printed(event.line)
                    elif event.note is not None:
                        self._note(event.note)
                    elif event.transition is not None:
                        history = (*self.run.history, event.transition)
                        self.run = msgspec.structs.replace(self.run, history=history)
                yield None

    def from_operator(self) -> Iterator[PrintedLine | None]:
        """Yield what the operator has of the run's logs."""
        run_id = self.run.run_id
        self._note(f"The logs of {run_id} are the operator's.")
        with tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as folder:
            paths = stores.operator_files(self._access, run_id, Path(folder), "logs")
            is_found = yield from self._read_files(lambda: paths)
            if not is_found and self.run.facts.job is not None:
                self._note("It serves no logs of observed jobs, unless observe.serveLogs is set.")
            elif not is_found:
                self._note(f"Run {run_id} has no logs there.")

    def archived(self, store: SqlStore, *, follow: bool) -> Iterator[PrintedLine | None]:
        """Yield what is archived; with ``follow`` until the run is final."""
        from k8sbench.store import exchange

        is_found = yield from self._read_files(
            lambda: store.log_files(self.run.run_id), store if follow else None
        )
        run = self.run
        pruned = (
            None if is_found or not run.artifacts else exchange.read_pruned(Path(run.artifacts))
        )
        if pruned is not None:
            at = times.utc(pruned.at)
            self._note(
                f"The logs of run {run.run_id} were removed at {at} by {pruned.rule}; its"
                " measurement stays."
            )
        elif not is_found:
            what = "no logs" if self._replica is None else f"no log of {self._replica}"
            left = "left" if run.phase.final else "has until now left"
            state = f"it is {run.phase}. {run.history[-1].cause}"
            self._note(f"Run {run.run_id} {left} {what}: {state}")

    def _read_files(
        self, files: Callable[[], Sequence[Path]], followed: SqlStore | None = None
    ) -> Generator[PrintedLine | None, None, bool]:
        """Yield the lines of files.

        With a ``followed`` store it goes on until the run is final. Returns False if there is no
        file of the replica.
        """
        from k8sbench.store.log_archive import LogTails

        with contextlib.closing(LogTails(self._replica)) as tails:
            while True:
                # The state first and the files after it: nothing is written once it is final.
                is_last = followed is None or self.run.phase.final
                for at, replica, text in tails.lines(files(), to_end=is_last):
                    yield PrintedLine(at, replica if self._several else "", text)
                if followed is None or is_last:
                    return tails.is_found
                yield None
                time.sleep(FILE_SECONDS)
                self.run = find_recorded(followed, self.run.run_id)

    def _printed(self, line: LogLine) -> PrintedLine:
        text = line.text.encode("utf-8", "surrogateescape")
        return PrintedLine(line.at, line.replica if self._several else "", text)


def stamp(at: float) -> bytes:
    """Write a time as archived lines begin with it."""
    from k8sbench.store.log_archive import format_stamp as written

    return written(at)
