"""The local store and the operator's: open, read, look after, exchange runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from k8sbench import limits
from k8sbench.adapters import processes
from k8sbench.app import connections
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.model import kube, request, times
from k8sbench.model.errors import (
    FIRST_RUN,
    BenchError,
    Interrupted,
    QueryRefused,
    StoreError,
    Unreachable,
    UsageError,
)
from k8sbench.model.names import resolve
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.store.interface import RunFilter, Store

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
    from k8sbench.store.exchange import Pruned
    from k8sbench.store.sql_store import SqlStore


def chosen(
    sets: Mapping[str, str], ids: Sequence[str], texts: Sequence[str], where: str = "in the store"
) -> list[str]:
    """Return the ids of runs that texts name: ids, their beginnings or sets.

    ``sets`` are the sets of the runs, by id.
    """
    found: dict[str, None] = {}
    for text in texts:
        members = [run_id for run_id in sets if sets[run_id] == text and text not in ids]
        found |= dict.fromkeys(members or [resolve(ids, text, where=where)])
    return list(found)


def _sets(runs: Iterable[Run]) -> dict[str, str]:
    return {run.run_id: run.set_name for run in runs}


def current_runs(store: Store) -> list[Run]:
    """Return all recorded runs, oldest first, as they are now."""
    lost = reconcile(store)
    return [lost.get(run.run_id, run) for run in store.runs(RunFilter())]


def reconcile(store: Store) -> dict[str, Run]:
    """Mark runs whose process is gone, where the store can be written; return them by id."""
    return mark_lost_runs(store, alive=processes.alive, now=connections.now())


CLUSTER = request.CLUSTER
LOCAL = request.LOCAL
KEEP_OPTION = "--keep-logs-for"


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
    with open_silently(where, note) as store:
        try:
            yield store
        finally:
            note_unreadable(store, note)


def open_silently(where: str | None, note: Note) -> SqlStore:
    """Open a store as :func:`open_readonly` does, and note no unreadable parts."""
    return _opened(where, note, create=False)


def note_unreadable(store: SqlStore, note: Note) -> None:
    """Note the runs and baselines of a store that could not be read."""
    for run_id, why in sorted(store.unreadable.items()):
        note(f"warning: run {run_id} is left out: {why}")
    for why in store.damaged_baselines.values():
        note(f"warning: {why}")


def damaged(store: SqlStore) -> dict[str, BenchError]:
    """Return the errors of damaged folders, by run id."""
    from k8sbench.store.sql_store import REINDEX

    return {run_id: StoreError(why, REINDEX) for run_id, why in store.unreadable.items()}


def folder(where: str | None) -> Path:
    """Return the folder of a store, which need not exist; raises :class:`UsageError`."""
    from k8sbench.store.open_store import store_folder

    return store_folder(where)


def _opened(where: str | None, note: Note, *, create: bool) -> SqlStore:
    from k8sbench.store.open_store import open_store

    if where == CLUSTER:
        raise UsageError(
            "--store cluster is the operator's store, which this command does not read or change.",
            "Those that read it are results, report, explain, compare, history, baseline list,"
            f" list, status and logs; a folder of that name is ./{CLUSTER}.",
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
    from k8sbench.store import open_store

    return open_store.reindex(where, note)


def export(texts: Sequence[str], target: Path | BinaryIO, where: str | None, note: Note) -> int:
    """Export runs or whole sets to a file or stream; return their number.

    By default it exports all finished runs whose files are here.
    """
    from k8sbench.store import disk, exchange

    with open_readonly(where, note) as store:
        run_ids = []
        ids = store.ids()
        for run_id in chosen(_sets(current_runs(store)), ids, texts or ids):
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
            exchange.export_runs(store, run_ids, file)
    return len(run_ids)


def import_runs(file: BinaryIO, shown: str, where: str | None) -> tuple[list[str], list[str]]:
    """Add the runs of an export to a store: all of them, or none.

    Returns the ids of those that were added, and of those that were there already.
    """
    from k8sbench.store import exchange

    with open_writable(where) as store:
        return exchange.import_runs(store, file, shown)


def import_collected(
    texts: Sequence[str], where: str | None, access: ClusterAccess, note: Note
) -> tuple[list[str], list[str]]:
    """Import all named runs or sets from the operator, or none.

    Includes their files. Returns the same as :func:`import_runs`.
    """
    from k8sbench.store import exchange

    try:
        with reading_operator(access, insist=True) as operator:
            assert operator is not None, "it insists"
            created = operator.group_list().created
    except BenchError as wrong:
        raise unread(wrong) from wrong
    sets = {run_id: name for name, runs in created.items() for run_id in runs}
    run_ids = chosen(sets, list(sets), texts, "in the operator's store")

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
    from k8sbench.store import exchange

    with open_writable(where, create=False, note=note) as store, ExitStack() as stack:
        store.runs(RunFilter())
        damaged = [text for text in texts if text in store.unreadable]
        named = [text for text in texts if text not in damaged]
        others = chosen(_sets(current_runs(store)), store.ids(), named)
        runs = [store.run(run_id) for run_id in others]
        for run in runs:
            if not run.phase.final:
                raise UsageError(
                    f"Run {run.run_id} is {run.phase}, not over. Nothing was removed.",
                    f"End it first with: k8sbench cancel {run.run_id}",
                )
            stack.enter_context(exchange.claim_run(store, run.run_id))
        run_ids = [*damaged, *(run.run_id for run in runs)]
        if not confirm(run_ids):
            raise Interrupted("Nothing was removed.")
        for run_id in run_ids:
            exchange.remove_run(store, run_id)
        on_clusters = [run.run_id for run in runs if run.plan.backend == "kubernetes"]
        if damaged or on_clusters:
            names = " ".join([*damaged, *on_clusters])
            note(f"Jobs that a cluster still has stay there: k8sbench delete {names}")
    return run_ids


def keep_seconds(text: str, option: str = KEEP_OPTION) -> float:
    """Read for how long logs are kept."""
    seconds = times.parse_duration(text)
    if not seconds:
        raise UsageError(f"{option} {text!r} is not a length of time.", "Write 90d or 36h.")
    return seconds


def prune(
    store: SqlStore,
    keep_s: float,
    *,
    dry_run: bool = False,
    option: str = KEEP_OPTION,
    observed: bool = False,
) -> tuple[dict[str, Pruned], dict[str, str]]:
    """Remove local logs and GPU series as :func:`.exchange.prune_old_runs` does.

    ``observed``: of observed jobs alone.
    """
    from k8sbench.store import exchange

    return exchange.prune_old_runs(
        store,
        keep_s,
        at=connections.now(),
        rule=f"{option} {times.duration(keep_s)}",
        dry_run=dry_run,
        backend="observed" if observed else None,
    )


LOG_SECONDS = 30.0
"""Until the next piece of a log must come."""
SOURCE = kube.OPERATOR
"""The source of its runs."""


def operator_run(
    access: ClusterAccess, text: str, note: Note, *, insist: bool = False
) -> Run | None:
    """Return the run with this id or unique id prefix, if there is one.

    An operator that cannot be read is noted; with ``insist`` it raises :class:`Unreachable`. A
    prefix of several runs raises :class:`QueryRefused`.
    """
    if not insist and not connections.configured(access):
        return None
    try:
        with reading_operator(access, insist=insist) as operator:
            return None if operator is None else operator.run(text)
    except QueryRefused:
        raise
    except BenchError as wrong:
        if insist:
            raise unread(wrong) from wrong
        note(f"note: without the runs of an operator: {wrong.message}")
    return None


def operator_files(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from an operator into a folder; return the copies."""
    with opened_operator(access, LOG_SECONDS) as operator:
        return [] if operator is None else operator.copy(run_id, folder, kinds)


@contextlib.contextmanager
def reading_operator(access: ClusterAccess, *, insist: bool) -> Iterator[OperatorProxy | None]:
    """Give the operator of a namespace, to read an answer for which somebody waits.

    With ``insist`` it raises :class:`Unreachable` if there is none.
    """
    seconds = limits.now.operator_insist if insist else limits.now.operator_answer
    with opened_operator(access, seconds) as operator:
        if operator is None and insist:
            raise Unreachable(
                "There is no operator in the namespace.",
                "Name its namespace with -n, or install it with the chart.",
            )
        yield operator


def unread(wrong: BenchError) -> Unreachable:
    """Return the error of a command that insists on an operator which cannot be read."""
    return Unreachable(f"The operator cannot be read: {wrong.message}", wrong.action)


@contextlib.contextmanager
def opened_operator(access: ClusterAccess, seconds: float) -> Iterator[OperatorProxy | None]:
    """Give the operator of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes import operator_proxy

    with contextlib.closing(connections.connect(access)) as api:
        api.check_answers(seconds)
        api.retry_s = seconds
        yield operator_proxy.connect_operator(api)
