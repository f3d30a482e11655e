"""``k8sbench logs``: what a run's replicas printed, as it was archived line by line."""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from k8sbench.cli import output, reading
from k8sbench.model.errors import NotAvailableYet, NotFound
from k8sbench.model.run import Run
from k8sbench.runs import records

if TYPE_CHECKING:
    from k8sbench.adapters.artifacts import LogTail
    from k8sbench.ports import Store

POLL_SECONDS = 0.5


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
@reading.store_option
def command(
    run: str,
    replica: str | None,
    timestamps: bool,
    since: float | None,
    follow: bool,
    where: str | None,
) -> None:
    """Print the logs that a run left.

    RUN is a run id or a unique beginning of one. Several replicas are printed in the order of
    time, each line after its replica's name.
    """
    with reading.opened(where) as store:
        found = records.find(store, run, alive=reading.alive(), now=reading.now())
        if follow and not found.phase.final and found.plan.backend != "local":
            raise NotAvailableYet("Following a run on a cluster")
        selection = Selection(
            replica=replica,
            since=since,
            timestamps=timestamps,
            prefix=replica is None and found.plan.replicas > 1,
        )
        if not follow or found.phase.final:
            _print_all(store, found, selection)
        else:
            _follow(store, found, selection, sleep=time.sleep)


def _print_all(store: Store, run: Run, selection: Selection) -> None:
    from k8sbench.adapters.artifacts import LogTail

    files = _chosen(store.log_files(run.run_id), run, selection)
    if not files:
        output.note(f"Run {run.run_id} left no logs: it is {run.phase}. {run.history[-1].cause}")
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
    from k8sbench.adapters.artifacts import LogTail

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
    target = sys.stdout.buffer
    for at, replica, text in heapq.merge(*[_lines(tail, to_end) for tail in tails], key=_time):
        if selection.since is not None and at < selection.since:
            continue
        if selection.timestamps:
            target.write(_stamp(at))
        if selection.prefix:
            target.write(f"[{replica}] ".encode())
        target.write(text + b"\n")
    target.flush()


def _lines(tail: LogTail, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
    return ((at, tail.replica, text) for at, text in tail.lines(to_end=to_end))


def _time(line: tuple[float, str, bytes]) -> float:
    return line[0]


def _stamp(at: float) -> bytes:
    from k8sbench.adapters.artifacts import stamp

    return stamp(at) + b" "


def _chosen(files: list[Path], run: Run, selection: Selection) -> list[Path]:
    if selection.replica is None:
        return files
    chosen = [path for path in files if path.stem == selection.replica]
    if not chosen and files:
        raise NotFound(
            f"Run {run.run_id} has no log of a replica {selection.replica!r}.",
            f"Replicas: {', '.join(path.stem for path in files)}.",
        )
    return chosen
