"""The local store and the operator's: open, read, look after, exchange runs.

The operator has two seconds for each answer. If it cannot be read, the first line says so, the own
rows follow, and the command ends with exit code 6. ``--store local`` does not ask it, and ``--store
cluster`` reads it alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, ParamSpec, TypeVar

import msgspec

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
    NotFound,
    OperatorLost,
    QueryRefused,
    StoreError,
    Unreachable,
    UsageError,
)
from k8sbench.model.names import resolve
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run
from k8sbench.store.group_interface import ServedGroups
from k8sbench.store.interface import RunFilter, Store

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
    from k8sbench.app.known_groups import StoredGroups
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
NOWHERE = f"{os.devnull}/nowhere"
"""Path of an always empty store, for data of an operator alone."""
KEEP_OPTION = "--keep-logs-for"


class StoresRead(msgspec.Struct, kw_only=True):
    """Stores to search for runs and baselines, their filter, and the outcome."""

    where: str | None = None
    """Folder of a store, ``cluster`` or ``local``."""
    access: ClusterAccess = ClusterAccess()
    accept: tuple[str, ...] = ()
    missed: str = ""
    """Reason why the answer lacks the operator's rows; empty if it lacks none."""

    @property
    def insists(self) -> bool:
        """True if the operator's store alone is read."""
        return self.where == CLUSTER

    def miss(self, what: str, wrong: BenchError) -> None:
        """Record that the answer lacks something of the operator."""
        self.missed = f"warning: without {what} of an operator: {wrong}"


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
                note(f"warning: run {run_id} is left out: {why}")
            for why in store.damaged_baselines.values():
                note(f"warning: {why}")


@contextlib.contextmanager
def with_operator(scope: StoresRead, note: Note) -> Iterator[tuple[SqlStore, StoredGroups]]:
    """Open a store to read its groups, with those of the operator.

    With ``cluster`` for a store all of them are the operator's.
    """
    from k8sbench.app.known_groups import StoredGroups

    with ExitStack() as stack:
        # First, so that what hinders it is the first line.
        theirs = _served_groups(scope, stack)
        if scope.missed:
            note(scope.missed)
        where = NOWHERE if scope.insists else scope.where
        store = stack.enter_context(open_readonly(where, note))
        lost = reconcile(store)
        yield store, StoredGroups(store, note, lost=lost, theirs=theirs, accept=scope.accept)


def _served_groups(scope: StoresRead, stack: ExitStack) -> ServedGroups | None:
    """Ask the operator for its groups; None without it, and where it was missed."""
    if not _asks(scope):
        return None
    from k8sbench.adapters.kubernetes.operator_groups import OperatorGroups

    try:
        operator = stack.enter_context(_reading(scope.access, insist=scope.insists))
        return None if operator is None else OperatorGroups(operator)
    except BenchError as wrong:
        if scope.insists:
            raise _unread(wrong) from wrong
        scope.miss("the runs", wrong)
    return None


def _asks(scope: StoresRead) -> bool:
    """Return True if the operator is to be asked."""
    if scope.insists:
        return True
    return scope.where != LOCAL and not scope.missed and connections.configured(scope.access)


P = ParamSpec("P")
T = TypeVar("T")


def completed(answer: Callable[P, T]) -> Callable[P, T]:
    """Make a command answer once more, from the own store alone, if the operator is lost.

    It has sent its rows then, and does not answer any more. What is not found without it may be
    there: :class:`Unreachable`. One argument is a :class:`StoresRead`.
    """

    @functools.wraps(answer)
    def answering(*args: P.args, **given: P.kwargs) -> T:
        every = (*args, *given.values())
        scope = next(one for one in every if isinstance(one, StoresRead))
        try:
            return answer(*args, **given)
        except OperatorLost as wrong:
            if scope.insists:
                raise _unread(wrong) from wrong
            scope.miss("the runs", wrong)
            return answering(*args, **given)
        except NotFound as absent:
            if scope.missed:
                raise Unreachable(absent.message, absent.action) from absent
            raise

    return answering


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

    with with_operator(StoresRead(where=CLUSTER, access=access), note) as (_, groups):
        sets = {run_id: name for name, logs in groups.theirs.logs.items() for run_id in logs}
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
        with _reading(access, insist=insist) as operator:
            return None if operator is None else operator.run(text)
    except QueryRefused:
        raise
    except BenchError as wrong:
        if insist:
            raise _unread(wrong) from wrong
        note(f"note: without the runs of an operator: {wrong.message}")
    return None


def operator_baselines(scope: StoresRead, note: Note) -> list[Baseline]:
    """Return its baselines; none of an operator that knows no such."""
    if not _asks(scope):
        return []
    try:
        with _reading(scope.access, insist=scope.insists) as operator:
            return [] if operator is None else operator.baselines()
    except BenchError as wrong:
        if scope.insists:
            raise _unread(wrong) from wrong
        scope.miss("the baselines", wrong)
        note(scope.missed)
    return []


def _unread(wrong: BenchError) -> Unreachable:
    return Unreachable(f"The operator cannot be read: {wrong.message}", wrong.action)


def operator_files(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from an operator into a folder; return the copies."""
    with opened_operator(access, LOG_SECONDS) as operator:
        return [] if operator is None else operator.copy(run_id, folder, kinds)


@contextlib.contextmanager
def _reading(access: ClusterAccess, *, insist: bool) -> Iterator[OperatorProxy | None]:
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


@contextlib.contextmanager
def opened_operator(access: ClusterAccess, seconds: float) -> Iterator[OperatorProxy | None]:
    """Give the operator of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes import operator_proxy

    with contextlib.closing(connections.connect(access)) as api:
        api.check_answers(seconds)
        api.retry_s = seconds
        yield operator_proxy.connect_operator(api)
