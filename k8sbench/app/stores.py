"""The local store and the operator's: open, read, look after, exchange runs.

The operator has two seconds for each answer. If it is unreachable, a note says so and the local
runs are shown alone; ``--store cluster`` makes that an error.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeVar

import msgspec

from k8sbench import limits
from k8sbench.adapters import processes
from k8sbench.app import connections
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.model import kube, times
from k8sbench.model.errors import (
    FIRST_RUN,
    BenchError,
    Interrupted,
    StoreError,
    Unreachable,
    UsageError,
)
from k8sbench.model.identity import resolve
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run
from k8sbench.ports import RunFilter, Store

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
    from k8sbench.adapters.store.exchange import Pruned
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.known_groups import StoredGroups


def chosen(
    runs: Sequence[Run], ids: Sequence[str], texts: Sequence[str], where: str = "in the store"
) -> list[str]:
    """Return the ids of runs that texts name: ids, their beginnings or sets."""
    found: dict[str, None] = {}
    for text in texts:
        members = [run.run_id for run in runs if run.plan.set_name == text and text not in ids]
        found |= dict.fromkeys(members or [resolve(ids, text, where=where)])
    return list(found)


def current_runs(store: Store) -> list[Run]:
    """Return all recorded runs, oldest first, as they are now."""
    lost = reconcile(store)
    return [lost.get(run.run_id, run) for run in store.runs(RunFilter())]


def reconcile(store: Store) -> dict[str, Run]:
    """Mark runs whose process is gone, where the store can be written; return them by id."""
    return mark_lost_runs(store, alive=processes.alive, now=connections.now())


CLUSTER = "cluster"
"""The value of ``--store`` that is the operator's store."""
NOWHERE = f"{os.devnull}/nowhere"
"""Path of an always empty store, for data of an operator alone."""
KEEP_OPTION = "--keep-logs-for"


class StoresRead(msgspec.Struct, frozen=True, kw_only=True):
    """Stores to search for runs and baselines, and their filter."""

    where: str | None = None
    """Folder of a store, or ``cluster``."""
    access: ClusterAccess = ClusterAccess()
    accept: tuple[str, ...] = ()


@contextlib.contextmanager
def open_writable(
    where: str | None, *, create: bool = True, note: Note = lambda _: None
) -> Iterator[SqlStore]:
    """Open a store for writing; None is the default folder.

    Raises :class:`UsageError` if there is none and ``create`` is False. An index that is built
    anew is noted.
    """
    with _opened(where, note, create=create) as store:
        if store.absent:
            raise UsageError(
                f"There is no store in {store.where} yet.", "k8sbench submit BENCHMARK makes one."
            )
        yield store


@contextlib.contextmanager
def open_readonly(where: str | None, note: Note) -> Iterator[SqlStore]:
    """Open a store for reading; a missing store reads as empty.

    Notes unreadable parts at the end. Creates no store.
    """
    with _opened(where, note, create=False) as store:
        try:
            yield store
        finally:
            for run_id, why in sorted(store.unreadable.items()):
                note(f"warning: run {run_id} is damaged: {why}")


def is_recorded(where: str | None, text: str) -> bool:
    """Return True if a run's id begins with a text."""
    with open_readonly(where, lambda _: None) as store:
        return any(run_id.startswith(text) for run_id in store.ids())


@contextlib.contextmanager
def with_operator(
    scope: StoresRead, note: Note, **query: str | None
) -> Iterator[tuple[SqlStore, StoredGroups]]:
    """Open a store to read its groups, with those of the operator's runs.

    With ``cluster`` for a store all runs are the operator's.
    """
    from k8sbench.app.known_groups import StoredGroups

    insist = scope.where == CLUSTER
    with open_readonly(NOWHERE if insist else scope.where, note) as store:
        lost = reconcile(store)
        theirs = operator_runs(scope.access, note, insist=insist, **query)
        yield store, StoredGroups(store, note, lost=lost, theirs=theirs, accept=scope.accept)


def damaged(store: SqlStore) -> dict[str, BenchError]:
    """Return the errors of damaged folders, by run id."""
    from k8sbench.adapters.store.sql_store import REINDEX

    return {run_id: StoreError(why, REINDEX) for run_id, why in store.unreadable.items()}


def _opened(where: str | None, note: Note, *, create: bool) -> SqlStore:
    from k8sbench.adapters.store.opening import open_store

    if where == CLUSTER:
        raise UsageError(
            "--store cluster is the operator's store, which this command does not read or change.",
            "Those that read it are results, compare, history, baseline list, explain, list, status"
            f" and logs; a folder of that name is ./{CLUSTER}.",
        )
    return open_store(where, create=create, tell=note)


def is_alone(store: Store, run: Run) -> bool:
    """Return True if an active cluster run has no visible follower."""
    is_over = run.plan.backend != "kubernetes" or run.phase.final
    return not is_over and is_unclaimed(store, run)


def is_unclaimed(store: Store, run: Run) -> bool:
    """Return True if no process is seen to follow a run.

    A read-only store cannot show followers, so the cluster is queried.
    """
    try:
        alone = store.claims.claim(run.run_id)
    except StoreError:
        return True
    store.claims.release(run.run_id)
    return alone


def note_empty(store: SqlStore, note: Note) -> None:
    """Note how a store without runs gets its first one."""
    why = "There is no store in" if store.absent else "There are no runs in the store"
    note(f"{why} {store.where} yet. {FIRST_RUN}")


def reindex(where: str | None, note: Note) -> tuple[Path, int, dict[str, str]]:
    """Make the index anew from the runs' folders, also one that is damaged.

    Returns where the store is, its number of runs, and what is wrong with damaged ones, by run id.
    """
    from k8sbench.adapters.store import opening

    return opening.reindex(where, note)


def export(texts: Sequence[str], target: Path | BinaryIO, where: str | None, note: Note) -> int:
    """Export runs or whole sets to a file or stream; return their number.

    By default it exports all finished runs whose files are here.
    """
    from k8sbench.adapters.store import disk, exchange

    with open_readonly(where, note) as store:
        run_ids = []
        ids = store.ids()
        for run_id in chosen(current_runs(store), ids, texts or ids):
            run = store.run(run_id)
            if run.phase.final:
                run_ids.append(run_id)
            elif texts:
                raise UsageError(
                    f"Run {run_id} has not ended: it is {run.phase}.", "Export it when it is."
                )
            else:
                note(f"{run_id} is left out: it is {run.phase}.")
        if not run_ids:
            raise UsageError(f"There is nothing to export in the store {store.where}.")
        whole = disk.whole_file(target) if isinstance(target, Path) else nullcontext(target)
        with whole as file:
            exchange.export(store, run_ids, file)
    return len(run_ids)


def import_runs(file: BinaryIO, shown: str, where: str | None) -> tuple[list[str], list[str]]:
    """Add the runs of an export to a store: all of them, or none.

    Returns the ids of those that were added, and of those that were there already.
    """
    from k8sbench.adapters.store import exchange

    with open_writable(where) as store:
        return exchange.import_runs(store, file, shown)


def import_collected(
    texts: Sequence[str], where: str | None, access: ClusterAccess, note: Note
) -> tuple[list[str], list[str]]:
    """Import all named runs or sets from the operator, or none.

    Includes their files. Returns the same as :func:`import_runs`.
    """
    from k8sbench.adapters.store import exchange

    there = operator_runs(access, note, insist=True)
    ids = [run.run_id for run in there]
    run_ids = chosen(there, ids, texts, "in the operator's store")

    def fetch(incoming: Path) -> None:
        for run_id in run_ids:
            operator_files(access, run_id, incoming / run_id, "logs", "gpu", "")
            # Requests to the cluster are the operator's own.
            (incoming / run_id / "wishes.json").unlink(missing_ok=True)

    with open_writable(where, note=note) as store:
        return exchange.import_folders(store, fetch, "the operator")


# --- runs, or the logs of old ones, leave the store ---------------------------------------------


def remove(
    texts: Sequence[str], where: str | None, note: Note, confirm: Callable[[Sequence[str]], bool]
) -> list[str]:
    """Remove all named runs or sets with their data, or none.

    Refuses active runs; for a damaged run, named by its id, that is not known. No cluster is
    contacted, as it may be gone for good; jobs still there have their own command.
    """
    from k8sbench.adapters.store import exchange

    with open_writable(where, create=False, note=note) as store, ExitStack() as stack:
        store.runs(RunFilter())
        damaged = [text for text in texts if text in store.unreadable]
        named = [text for text in texts if text not in damaged]
        others = chosen(current_runs(store), store.ids(), named)
        runs = [store.run(run_id) for run_id in others]
        for run in runs:
            if not run.phase.final:
                raise UsageError(
                    f"Run {run.run_id} is {run.phase}, not over. Nothing was removed.",
                    f"End it first with: k8sbench cancel {run.run_id}",
                )
            stack.enter_context(exchange.claimed(store, run.run_id))
        run_ids = [*damaged, *(run.run_id for run in runs)]
        if not confirm(run_ids):
            raise Interrupted("Nothing was removed.")
        for run_id in run_ids:
            exchange.remove(store, run_id)
        on_clusters = [run.run_id for run in runs if run.plan.backend == "kubernetes"]
        if damaged or on_clusters:
            names = " ".join([*damaged, *on_clusters])
            note(f"Jobs that a cluster still has stay there: k8sbench delete {names}")
    return run_ids


def keep_seconds(text: str) -> float:
    """Read for how long logs are kept."""
    seconds = times.seconds(text)
    if not seconds:
        raise UsageError(f"{KEEP_OPTION} {text!r} is not a length of time.", "Write 90d or 36h.")
    return seconds


def prune(
    store: SqlStore, keep_s: float, *, dry_run: bool = False
) -> tuple[dict[str, Pruned], dict[str, str]]:
    """Remove local logs and GPU series as :func:`.exchange.prune_old` does."""
    from k8sbench.adapters.store import exchange

    rule = f"{KEEP_OPTION} {times.duration(keep_s)}"
    return exchange.prune_old(store, keep_s, at=connections.now(), rule=rule, dry_run=dry_run)


T = TypeVar("T")

LOG_SECONDS = 30.0
"""Until the next piece of a log must come."""
SOURCE = kube.OPERATOR
"""The source of its runs."""


def ask_operator(
    access: ClusterAccess,
    read: Callable[[OperatorProxy], T],
    note: Note,
    *,
    insist: bool = False,
    missing: Callable[[], str] = lambda: "the runs of an operator",
) -> T | None:
    """Read from the operator; None if there is none that can be read.

    A failure is noted together with what is ``missing`` from the output. With ``insist`` it raises
    :class:`Unreachable`.
    """
    if not insist and not connections.configured(access):
        return None
    try:
        with opened_operator(
            access, limits.now.operator_insist if insist else limits.now.operator_answer
        ) as operator:
            if operator is not None:
                return read(operator)
        if insist:
            raise Unreachable(
                "There is no operator in the namespace.",
                "Name its namespace with -n, or install it with the chart.",
            )
    except BenchError as wrong:
        if insist:
            action = wrong.action
            raise Unreachable(f"The operator cannot be read: {wrong.message}", action) from wrong
        note(f"note: without {missing()}: {wrong.message}")
    return None


def operator_runs(
    access: ClusterAccess,
    note: Note,
    *,
    insist: bool = False,
    **query: str | None,
) -> list[Run]:
    """Return its runs, oldest first; note if older ones are missing.

    ``query`` is the benchmark or the framework that they have.
    """
    found: dict[str, Run] = {}

    def read(there: OperatorProxy) -> None:
        given = {name: value for name, value in query.items() if value is not None}
        for run in there.runs(given, math.inf if insist else limits.now.operator_answer):
            found[run.run_id] = run

    def missing() -> str:
        if not found:
            return "the runs of an operator"
        oldest = min(run.created_at for run in found.values())
        return (
            f"some runs of an operator, those created before {times.utc(oldest)} (--store"
            " cluster waits for all, --benchmark asks for fewer)"
        )

    ask_operator(access, read, note, insist=insist, missing=missing)
    return sorted(found.values(), key=lambda run: (run.created_at, run.run_id))


def operator_run(
    access: ClusterAccess, text: str, note: Note, *, insist: bool = False
) -> Run | None:
    """Return the run with this id or unique id prefix, if there is one."""
    return ask_operator(access, lambda there: there.run(text), note, insist=insist)


def operator_baselines(
    access: ClusterAccess, note: Note, *, insist: bool = False
) -> list[Baseline]:
    """Return its baselines; none of an operator that knows no such."""
    found = ask_operator(
        access,
        lambda there: there.baselines(),
        note,
        insist=insist,
        missing=lambda: "the baselines of an operator",
    )
    return found or []


def operator_files(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from an operator into a folder; return the copies."""
    with opened_operator(access, LOG_SECONDS) as operator:
        return [] if operator is None else operator.copy(run_id, folder, kinds)


@contextlib.contextmanager
def opened_operator(
    access: ClusterAccess, seconds: float = limits.now.operator_answer
) -> Iterator[OperatorProxy | None]:
    """Give the operator of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes import operator_proxy

    with contextlib.closing(connections.connect(access)) as api:
        api.check_answers(seconds)
        api.retry_s = seconds
        yield operator_proxy.connect_operator(api)
