"""``logs``: what a run's replicas printed, from the archive or from the cluster."""

from __future__ import annotations

import contextlib
import datetime
import heapq
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from k8sbench.app import collectors, connections, follow, lookup, stores
from k8sbench.lifecycle.context import Stop
from k8sbench.model.errors import NotFound
from k8sbench.model.kinds import kind_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.model.times import FILE_SECONDS
from k8sbench.ports import JobEvent, LogLine, Store

if TYPE_CHECKING:
    from k8sbench.adapters.store.run_logs import LogTail


class Sink(Protocol):
    """Receiver of log lines."""

    def line(self, at: float, replica: str, text: bytes, *, several: bool) -> None:
        """Take one line as the program wrote it; ``several`` replicas' lines are mixed."""

    def flush(self) -> None:
        """No more lines come for now."""

    def note(self, text: str) -> None:
        """Take what is no line."""


def logs(
    text: str,
    where: str | None,
    access: ClusterAccess,
    sink: Sink,
    stop: Stop,
    *,
    replica: str | None = None,
    follows: bool = False,
) -> None:
    """Hand over a run's lines, those of several replicas in the order of time.

    ``replica`` is one alone. With ``follows`` it goes on until the run has ended.
    The lines of a run on a cluster that no process of this store follows come from there; with
    ``follows`` they are archived, too, and the run is closed at its end.
    """
    with contextlib.ExitStack() as stack:
        store, run, recorded = stack.enter_context(stores.run_seen(text, where, access, sink.note))
        reader = _Reader(run, access, sink, replica, follows)
        if run.source == collectors.SOURCE:
            reader.from_collector()
            return
        if not recorded and follows:
            store = stack.enter_context(stores.to_write(where))
            run = reader.run = lookup.run_of(store, run.run_id, access)
        alone = not recorded or stores.is_alone(store, run)
        if alone and not follows:
            reader.from_cluster()
        elif alone and store.claims.claim(run.run_id):
            reader.follow_on_cluster(store, stop)
        else:
            reader.archived(store, follow=follows and not run.phase.final)


class _Reader:
    """Hands over the lines of one run; implements Reporter for one that is followed."""

    def __init__(
        self, run: Run, access: ClusterAccess, sink: Sink, replica: str | None, follows: bool
    ) -> None:
        self.run = run
        self.note = sink.note
        self._sink, self._replica, self._access = sink, replica, access
        self._location = None if run.source == collectors.SOURCE else run.location
        self._follow = follows
        self._several = replica is None and run.plan.replicas > 1
        planned = kind_of(run.plan).names(run.plan.replicas)
        # An imported run has as many logs as were given, whatever its replicas were.
        if replica not in {None, *planned} and not run.is_imported:
            raise NotFound(
                f"Run {run.run_id} has no log of a replica {replica!r}.",
                f"Replicas: {', '.join(planned)}.",
            )

    def plan(self, plan: RunPlan) -> None:
        """Do nothing: nothing is planned."""

    def planned(self, run: Run) -> None:
        """Do nothing: what is archived was handed over before."""

    def on_event(self, run: Run, event: JobEvent) -> None:  # noqa: ARG002
        """Hand over a line."""
        if event.line is not None:
            self._put(event.line)
        elif event.note is not None:
            self.note(event.note)

    def ended(self, run: Run) -> None:
        """Do nothing: the run's state is noted at the end."""

    def from_cluster(self) -> None:
        """Hand over what the cluster has of the run's logs."""
        is_printed = False
        api = connections.of_run(self.run, self._access)
        with connections.glance(api, self.run) as cluster:
            lines: Iterable[LogLine] = cluster.printed(self.run)
            if self._several:
                lines = sorted(lines, key=lambda line: line.at)
            for line in lines:
                if self._replica in {None, line.replica}:
                    self._put(line)
                    is_printed = True
                elif is_printed:
                    break  # the replicas' logs come one after the other
        if not is_printed:
            self.note(f"Nothing was printed yet. See: k8sbench status {self.run.run_id}")

    def from_collector(self) -> None:
        """Hand over what a collector has of the run's logs."""
        run = self.run
        self.note(f"The logs of {run.run_id} are the collector's.")
        there = connections.access_to(self._location, self._access)
        tails: dict[Path, LogTail] = {}
        with (
            tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as folder,
            contextlib.ExitStack() as stack,
        ):
            paths = collectors.copied(there, run.run_id, Path(folder), "logs")
            self._open(stack, tails, paths)
            self._emit(list(tails.values()), to_end=True)
        if not tails:
            self.note(f"Run {run.run_id} has no logs there.")
        if self._follow:
            self._note_end(run)

    def _open(
        self, stack: contextlib.ExitStack, tails: dict[Path, LogTail], paths: Sequence[Path]
    ) -> None:
        """Open the wanted logs that are not open yet."""
        from k8sbench.adapters.store.run_logs import LogTail

        for path in paths:
            if path not in tails and self._replica in {None, path.stem}:
                tails[path] = stack.enter_context(contextlib.closing(LogTail(path)))

    def follow_on_cluster(self, store: Store, stop: Stop) -> None:
        """Pass on log lines as they are archived; close the run."""
        run = self.run
        if store.log_files(run.run_id):
            self.archived(store)
        # Reading logs must not end a job that waits.
        run = follow.follow(store, run, self._access, self, stop, wait=True)
        self._note_end(run)

    def archived(self, store: Store, *, follow: bool = False) -> None:
        """Hand over what is archived; with ``follow`` until the run is final."""
        from k8sbench.adapters.store import exchange

        run = self.run
        tails: dict[Path, LogTail] = {}
        with contextlib.ExitStack() as stack:
            while True:
                # The state first and the files after it: nothing is written once it is final.
                is_last = run.phase.final or not follow
                self._open(stack, tails, store.log_files(run.run_id))
                self._emit(list(tails.values()), to_end=is_last)
                if is_last:
                    break
                time.sleep(FILE_SECONDS)
                run = lookup.find(store, run.run_id)
        pruned = None
        others = [] if tails or not run.is_imported else store.log_files(run.run_id)
        if others:
            raise NotFound(
                f"Run {run.run_id} has no log of a replica {self._replica!r}.",
                f"Replicas: {', '.join(path.stem for path in others)}.",
            )
        if not tails and run.artifacts is not None:
            pruned = exchange.pruned(Path(run.artifacts))
        if pruned is not None:
            at = datetime.datetime.fromtimestamp(pruned.at, datetime.UTC)
            self.note(
                f"The logs of run {run.run_id} were removed at {at:%Y-%m-%dT%H:%M:%SZ} by"
                f" {pruned.rule}; its measurement stays."
            )
        elif not tails:
            what = "no logs" if self._replica is None else f"no log of {self._replica}"
            left = "left" if run.phase.final else "has until now left"
            state = f"it is {run.phase}. {run.history[-1].cause}"
            self.note(f"Run {run.run_id} {left} {what}: {state}")
        elif follow:
            self._note_end(run)

    def _put(self, line: LogLine) -> None:
        if self._replica in {None, line.replica}:
            text = line.text.encode("utf-8", "surrogateescape")
            self._sink.line(line.at, line.replica, text, several=self._several)
            self._sink.flush()

    def _emit(self, tails: list[LogTail], *, to_end: bool) -> None:
        lines = [_stamped(tail, to_end) for tail in tails]
        several = len(tails) > 1 if self.run.is_imported else self._several
        for at, replica, text in heapq.merge(*lines, key=lambda line: line[0]):
            self._sink.line(at, replica, text, several=several)
        self._sink.flush()

    def _note_end(self, run: Run) -> None:
        self.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")


def stamp(at: float) -> bytes:
    """Write a time as archived lines begin with it."""
    from k8sbench.adapters.store.run_logs import stamp as written

    return written(at)


def _stamped(tail: LogTail, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
    return ((at, tail.replica, text) for at, text in tail.lines(to_end=to_end))
