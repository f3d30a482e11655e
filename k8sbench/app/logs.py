"""``logs``: what a run's replicas printed, from the archive or from the cluster."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from k8sbench.app import connections, runs, stores
from k8sbench.app.follow import Follower
from k8sbench.lifecycle.context import Stop
from k8sbench.model import times
from k8sbench.model.errors import NotFound
from k8sbench.model.kinds import kind_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import ClusterAccess, FollowOptions
from k8sbench.model.run import Run
from k8sbench.model.times import FILE_SECONDS
from k8sbench.ports import JobEvent, LogLine, Store


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
    ``follows`` those of an own run are archived, too, and the run is closed at its end.
    """
    with contextlib.ExitStack() as stack:
        seen = runs.run_seen(text, where, access, sink.note)
        store, run, recorded, there = stack.enter_context(seen)
        names = kind_of(run.plan).names(run.plan.replicas)
        if run.is_imported and recorded:
            # It has as many logs as were given, whatever its replicas were.
            names = [path.stem for path in store.log_files(run.run_id)]
        if replica not in {None, *names}:
            raise NotFound(
                f"Run {run.run_id} has no log of a replica {replica!r}.",
                f"Replicas: {', '.join(names)}.",
            )
        is_theirs = run.source == stores.SOURCE
        reader = _LogReader(run, access, sink, replica, several=replica is None and len(names) > 1)
        alone = not recorded or stores.is_alone(store, run)
        if is_theirs and (run.phase.final or where == stores.CLUSTER):
            reader.from_operator(there)
        elif alone and not follows:
            reader.from_cluster()
            return
        elif not recorded:
            reader.from_pods(stop)
        elif alone and store.claims.claim(run.run_id):
            reader.follow_on_cluster(store, stop)
        else:
            reader.archived(store, follow=follows)
        if follows and (is_theirs or not run.phase.final):
            sink.note(f"Run {run.run_id} is {reader.run.phase}. {reader.run.history[-1].cause}")


class _LogReader:
    """Hands over the lines of one run; implements Reporter for one that is followed."""

    def __init__(
        self, run: Run, access: ClusterAccess, sink: Sink, replica: str | None, *, several: bool
    ) -> None:
        self.run = run
        self.note = sink.note
        self._sink, self._replica, self._access = sink, replica, access
        self._several = several

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

    def from_pods(self, stop: Stop) -> None:
        """Pass on what another store's job prints, until its end or a stop."""
        api = connections.of_run(self.run, self._access)
        with connections.glance(api, self.run) as cluster, stop:
            cluster.resume(self.run, {})
            while stop.cause is None and not self.run.phase.final:
                for event in cluster.wait(FILE_SECONDS):
                    self.on_event(self.run, event)
                    if event.transition is not None:
                        history = (*self.run.history, event.transition)
                        self.run = msgspec.structs.replace(self.run, history=history)

    def from_operator(self, there: ClusterAccess) -> None:
        """Hand over what the operator has of the run's logs."""
        run_id = self.run.run_id
        self.note(f"The logs of {run_id} are the operator's.")
        with tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as folder:
            paths = stores.operator_files(there, run_id, Path(folder), "logs")
            if not self._print(lambda: paths):
                self.note(f"Run {run_id} has no logs there.")

    def follow_on_cluster(self, store: Store, stop: Stop) -> None:
        """Pass on log lines as they are archived; close the run."""
        if store.log_files(self.run.run_id):
            self.archived(store)
        # Reading logs must not end a job that waits.
        options = FollowOptions(wait=True, prometheus=connections.NONE)
        self.run = Follower(store, self._access, self, stop, options).follow(self.run)

    def archived(self, store: Store, *, follow: bool = False) -> None:
        """Hand over what is archived; with ``follow`` until the run is final."""
        from k8sbench.adapters.store import exchange

        is_found = self._print(lambda: store.log_files(self.run.run_id), store if follow else None)
        run = self.run
        pruned = None if is_found or not run.artifacts else exchange.pruned(Path(run.artifacts))
        if pruned is not None:
            at = times.utc(pruned.at)
            self.note(
                f"The logs of run {run.run_id} were removed at {at} by {pruned.rule}; its"
                " measurement stays."
            )
        elif not is_found:
            what = "no logs" if self._replica is None else f"no log of {self._replica}"
            left = "left" if run.phase.final else "has until now left"
            state = f"it is {run.phase}. {run.history[-1].cause}"
            self.note(f"Run {run.run_id} {left} {what}: {state}")

    def _print(self, files: Callable[[], Sequence[Path]], followed: Store | None = None) -> bool:
        """Hand over the lines of files.

        With a ``followed`` store it goes on until the run is final. Returns False if there is no
        file of the replica.
        """
        from k8sbench.adapters.store.artifacts import LogTails

        with contextlib.closing(LogTails(self._replica)) as tails:
            while True:
                # The state first and the files after it: nothing is written once it is final.
                is_last = followed is None or self.run.phase.final
                for at, replica, text in tails.lines(files(), to_end=is_last):
                    self._sink.line(at, replica, text, several=self._several)
                self._sink.flush()
                if followed is None or is_last:
                    return tails.is_found
                time.sleep(FILE_SECONDS)
                self.run = runs.find(followed, self.run.run_id)

    def _put(self, line: LogLine) -> None:
        if self._replica in {None, line.replica}:
            text = line.text.encode("utf-8", "surrogateescape")
            self._sink.line(line.at, line.replica, text, several=self._several)
            self._sink.flush()


def stamp(at: float) -> bytes:
    """Write a time as archived lines begin with it."""
    from k8sbench.adapters.store.artifacts import stamp as written

    return written(at)
