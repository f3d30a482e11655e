"""What the commands that read the store share: its option, how it is opened, and ``--since``.

Reading brings runs up to date whose process is gone, so it needs to know the time and which
processes run; both are handed to :mod:`k8sbench.runs.records` from here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k8sbench.cli.terminal import output
from k8sbench.model.errors import StoreError
from k8sbench.model.run import Run
from k8sbench.runs import records

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.ports import Store

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)

store_option = click.option(
    "--store",
    "where",
    metavar="FOLDER|URL",
    help="Store; default K8SBENCH_STORE, else the user's data folder.",
)


rows_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "markdown", "csv", "json", "name"]),
    default="table",
    help="Format of the rows.",
)
"""How a command prints the rows of the runs that it has closed."""


def since_option(what: str) -> Callable[[FC], FC]:
    """Make ``--since``: a length of time back from now, or a date; becomes Unix seconds."""
    return click.option("--since", metavar="TIME", callback=_since, help=what)


def _since(_: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    return None if value is None else records.parse_since(value, now=now())


@contextlib.contextmanager
def opened(where: str | None) -> Iterator[SqlStore]:
    """Open a store to read it; one that is not there reads as an empty one and is not made.

    What could not be read of it is said at the end, on stderr.
    """
    from k8sbench.adapters.store.sql_store import open_store

    with open_store(where, create=False) as store:
        try:
            yield store
        finally:
            for run_id, why in sorted(store.unreadable.items()):
                output.note(f"warning: run {run_id} is left out: {why}")


def is_alone(store: Store, run: Run) -> bool:
    """Whether a run goes on on a cluster and nobody is seen to follow it.

    In a store that can only be read nobody can be seen: then the cluster is to be asked.
    """
    if run.plan.backend != "kubernetes" or run.phase.final:
        return False
    try:
        alone = store.claims.claim(run.run_id)
    except StoreError:
        return True
    store.claims.release(run.run_id)
    return alone


def alive() -> records.Alive:
    """Answer whether a process runs, on this machine."""
    from k8sbench.adapters import processes

    return processes.alive


def now() -> float:
    """The time, Unix seconds."""
    return time.time()


def say_empty(store: SqlStore) -> None:
    """Say on stderr that a store has no runs, and how it gets some."""
    why = "There is no store in" if store.absent else "There are no runs in the store"
    output.note(f"{why} {store.where} yet; k8sbench submit BENCHMARK makes the first run.")
