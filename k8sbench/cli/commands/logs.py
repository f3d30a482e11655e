"""``k8sbench logs``: what a run's replicas printed, as it was archived line by line."""

from __future__ import annotations

import contextlib
import heapq
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import reading
from k8sbench.cli.commands.submit import opened_store
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Interrupted, NotFound
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, LogLine
from k8sbench.runs import collecting, records
from k8sbench.runs.following import Manner

if TYPE_CHECKING:
    from k8sbench.adapters.store.artifacts import LogTail
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.ports import Store

POLL_SECONDS = 0.5
READER = Manner(wait=True)
"""Whoever reads logs ends no job because it waits."""


class Selection(msgspec.Struct, frozen=True):
    """Which lines are wanted, and what is put before them."""

    replica: str | None
    since: float | None
    timestamps: bool
    prefix: bool
    """Whether each line names its replica: when there are several."""


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--replica", metavar="NAME", help="Only this replica: master-0, worker-1, …")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it came.")
@reading.since_option("Only lines that came since: 30m, 2026-11-20T08:15Z, …")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@access_options
@reading.store_option
def command(
    run: str,
    replica: str | None,
    timestamps: bool,
    since: float | None,
    follow: bool,
    access: Access,
    where: str | None,
) -> None:
    """Print the logs that a run left.

    RUN is a run id or a unique beginning of one, in the store or, submitted by somebody else, on
    the cluster alone. Several replicas are printed in the order of time, each line after its
    replica's name. Of a run that goes on on a cluster, and that nobody here follows, the lines come
    from there; with -f they are archived, too, and the run is closed at its end.
    """
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(reading.opened(where))
        found, recorded = clusters.look_up(store, run, access)
        selection = Selection(
            replica=replica,
            since=since,
            timestamps=timestamps,
            prefix=replica is None and found.plan.replicas > 1,
        )
        if not recorded and follow:
            store = stack.enter_context(opened_store(where))
            found = clusters.run_of(store, found.run_id, access)
        elif not recorded:
            _print_from_cluster(found, selection, access)
            return
        alone = reading.is_alone(store, found)
        if alone and not follow:
            _print_from_cluster(found, selection, access)
        elif alone and store.claims.claim(found.run_id):
            _follow_on_cluster(store, found, selection, access)
        elif not follow or found.phase.final:
            _print_all(store, found, selection)
        else:
            _follow(store, found, selection, sleep=time.sleep)


class _Lines:
    """Prints the lines of a run that is followed; implements Reporter."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def planned(self, run: Run) -> None:
        """Say nothing: what is archived was printed before."""

    def happened(self, run: Run, event: JobEvent) -> None:  # noqa: ARG002
        """Print a line."""
        if event.line is not None:
            _put(event.line, self._selection)
        elif event.note is not None:
            output.note(event.note)

    def ended(self, run: Run) -> None:
        """Say nothing: the run's state is told at the end."""

    def note(self, text: str) -> None:
        """Say something that is no line."""
        output.note(text)


def _follow_on_cluster(store: SqlStore, run: Run, selection: Selection, access: Access) -> None:
    if store.log_files(run.run_id):
        _print_all(store, run, selection)
    with (
        clusters.cluster_of(run, access, store=store) as cluster,
        clusters.stopping() as stop,
    ):
        world = clusters.world(store, cluster, location=run.location)
        taken = collecting.collect([run], world, _Lines(selection), stop, READER, follow=True)
    if stop.cause is not None and taken.going_on:
        raise Interrupted(
            f"{stop.cause}: {run.run_id} goes on.", f"Come back with: k8sbench watch {run.run_id}"
        )
    run = store.run(run.run_id)
    output.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")


def _print_from_cluster(run: Run, selection: Selection, access: Access) -> None:
    replicas: dict[str, None] = {}

    def chosen(printed: Iterator[LogLine]) -> Iterator[LogLine]:
        for line in printed:
            if selection.replica in replicas and selection.replica != line.replica:
                return  # they come one after the other
            replicas.setdefault(line.replica)
            if selection.replica in {None, line.replica}:
                yield line

    with clusters.glimpse_of(run, access) as cluster:
        lines: Iterable[LogLine] = chosen(cluster.printed(run))
        if selection.prefix:
            lines = sorted(lines, key=lambda line: line.at)
        for line in lines:
            _put(line, selection)
    if replicas and selection.replica in {None, *replicas}:
        return
    planned = _planned(run)
    if selection.replica not in {None, *planned}:
        raise _no_such_replica(run, str(selection.replica), planned)
    output.note(f"Nothing was printed yet. See: k8sbench status {run.run_id}")


def _put(line: LogLine, selection: Selection) -> None:
    if selection.replica in {None, line.replica}:
        text = line.text.encode("utf-8", "surrogateescape")
        _write(line.at, line.replica, text, selection)
        sys.stdout.buffer.flush()


def _print_all(store: Store, run: Run, selection: Selection) -> None:
    from k8sbench.adapters.store.artifacts import LogTail

    files = _chosen(store.log_files(run.run_id), run, selection)
    if not files:
        what = "no logs" if selection.replica is None else f"no log of {selection.replica}"
        state = f"it is {run.phase}. {run.history[-1].cause}"
        left = "left" if run.phase.final else "has until now left"
        output.note(f"Run {run.run_id} {left} {what}: {state}")
        return
    tails = [LogTail(path) for path in files]
    try:
        _emit(tails, selection, to_end=True)
    finally:
        for tail in tails:
            tail.close()


def _follow(
    store: Store, run: Run, selection: Selection, *, sleep: Callable[[float], None]
) -> None:
    """Print what comes until the run is final; a run whose process is killed ends here too."""
    from k8sbench.adapters.store.artifacts import LogTail

    tails: dict[Path, LogTail] = {}
    try:
        while True:
            # The state first and the files after it: nothing is written once it is final.
            final = run.phase.final
            for path in store.log_files(run.run_id):
                if path not in tails and selection.replica in {None, path.stem}:
                    tails[path] = LogTail(path)
            _emit(list(tails.values()), selection, to_end=final)
            sys.stdout.flush()
            if final:
                break
            sleep(POLL_SECONDS)
            run = records.find(store, run.run_id, alive=reading.alive(), now=reading.now())
    finally:
        for tail in tails.values():
            tail.close()
    output.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")


def _emit(tails: list[LogTail], selection: Selection, *, to_end: bool) -> None:
    """Print the lines that have come, of several files in the order of time, as bytes.

    A log may hold what is no text at all, and it is printed as the program wrote it.
    """
    sys.stdout.flush()
    for at, replica, text in heapq.merge(*[_lines(tail, to_end) for tail in tails], key=_time):
        _write(at, replica, text, selection)
    sys.stdout.buffer.flush()


def _write(at: float, replica: str, text: bytes, selection: Selection) -> None:
    target = sys.stdout.buffer
    if selection.since is not None and at < selection.since:
        return
    if selection.timestamps:
        target.write(_stamp(at))
    if selection.prefix:
        target.write(f"[{replica}] ".encode())
    target.write(text + b"\n")


def _lines(tail: LogTail, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
    return ((at, tail.replica, text) for at, text in tail.lines(to_end=to_end))


def _time(line: tuple[float, str, bytes]) -> float:
    return line[0]


def _stamp(at: float) -> bytes:
    from k8sbench.adapters.store.artifacts import stamp

    return stamp(at) + b" "


def _chosen(files: list[Path], run: Run, selection: Selection) -> list[Path]:
    if selection.replica is None:
        return files
    chosen = [path for path in files if path.stem == selection.replica]
    if not chosen and files and selection.replica not in _planned(run):
        raise _no_such_replica(run, selection.replica, [path.stem for path in files])
    return chosen


def _planned(run: Run) -> list[str]:
    from k8sbench.render.kinds import KINDS

    return KINDS[run.plan.framework].names(run.plan.replicas)


def _no_such_replica(run: Run, replica: str, there: Iterable[str]) -> NotFound:
    return NotFound(
        f"Run {run.run_id} has no log of a replica {replica!r}.", f"Replicas: {', '.join(there)}."
    )
