"""The store of an answer: the own one or the operator's.

An answer reads one store:

1. ``--store`` names it: a folder or ``local`` for the own one, ``cluster`` for the operator's.
2. Else a name decides: a set, run, group or baseline is answered from the store that has it. If
   both have it, or no store has all of several names, that is an error of the user.
3. Else it is the own one that ``K8SBENCH_STORE``, ``k8sbench.toml`` or a client names.
4. Else it is the operator's if one serves the namespace, and without one the own.

The first line says which, and what the other holds. The operator has two seconds for each answer.
If it cannot be read, the first line says so, the own rows follow, and the command ends with exit
code 6.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NamedTuple, ParamSpec, TypeVar

import msgspec

from k8sbench.app import connections, stores
from k8sbench.app.served_groups import ServedGroups
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import BenchError, NotFound, OperatorLost, Unreachable, UsageError
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline
from k8sbench.results.groups import sides
from k8sbench.results.groups.known import KnownGroups
from k8sbench.results.groups.sides import Fit, Known
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.open_store import STORE_VARIABLE

if TYPE_CHECKING:
    from k8sbench.store.sql_store import SqlStore

P = ParamSpec("P")
T = TypeVar("T")
Holder = Literal["own", "operator"]
"""A store of an answer."""


class StoresRead(msgspec.Struct, kw_only=True):
    """The stores that an answer may come from, the reasons it overrules, and the outcome."""

    where: str | None = None
    """Folder of a store, ``cluster`` or ``local``; None: the default place."""
    is_typed: bool = False
    """True if ``--store`` names it: no other store is read."""
    access: ClusterAccess = ClusterAccess()
    accept: tuple[str, ...] = ()
    missed: str = ""
    """Reason why the operator was not read; empty if it was, or was not asked."""

    @property
    def insists(self) -> bool:
        """True if the operator's store alone is read."""
        return self.where == stores.CLUSTER

    @property
    def asks(self) -> bool:
        """True if the operator is asked."""
        if self.insists:
            return True
        is_own = self.is_typed or self.where == stores.LOCAL
        return not is_own and not self.missed and connections.configured(self.access)

    @property
    def own(self) -> str:
        """The value of ``--store`` that names the own store."""
        return stores.LOCAL if self.where is None else shlex.quote(self.where)

    @property
    def default(self) -> Holder:
        """The store that answers what no name decides, if the operator answers."""
        is_given = self.where is not None or os.environ.get(STORE_VARIABLE, "").strip()
        return "own" if is_given else "operator"

    def miss(self, wrong: BenchError) -> None:
        """Record that the operator could not be read."""
        self.missed = f"warning: without the runs of an operator: {wrong}"


class Answer(NamedTuple):
    """The store that answers."""

    groups: KnownGroups
    store: SqlStore | None = None
    """The own store; None for the operator's."""
    served: ServedGroups | None = None
    """The operator's store; None for the own."""

    def baselines(self) -> Sequence[Baseline]:
        """Return the baselines of the store."""
        if self.served is not None:
            return self.served.baselines()
        return () if self.store is None else self.store.baselines()


@contextlib.contextmanager
def answering(
    scope: StoresRead, note: Note, names: Sequence[str] = (), *, has_baselines: bool = False
) -> Iterator[Answer]:
    """Open the store that answers, and note which it is.

    ``names`` are sets, runs and groups of the question as :mod:`.sides` reads them; with
    ``has_baselines`` also baselines. Raises :class:`UsageError` if they leave no one store.
    """
    with ExitStack() as stack:
        # First, so that what hinders it is the first line.
        served = _served(scope, stack)
        if scope.missed:
            note(scope.missed)
            if not names and scope.default == "own":
                scope.missed = ""  # it would not have answered
        if served is not None and scope.insists:
            yield Answer(served, served=served)
            return
        store = stack.enter_context(stores.open_silently(scope.where, note))
        groups = functools.cache(lambda: _stored(store, scope, note))
        if served is not None:

            def known(holder: Holder) -> Known:
                held = Answer(groups(), store) if holder == "own" else Answer(served, None, served)
                return sides.known(held.groups, held.baselines() if has_baselines else ())

            holder = decided(names, lambda text, of: sides.fit(text, known(of)), scope)
            if head := _first_line(holder, store, served, scope):
                note(head)
            if holder == "operator":
                yield Answer(served, served=served)
                return
        stack.callback(stores.note_unreadable, store, note)
        yield Answer(groups(), store=store)


def _served(scope: StoresRead, stack: ExitStack) -> ServedGroups | None:
    """Ask the operator for its groups; None without it, and where it was missed."""
    if not scope.asks:
        return None
    try:
        operator = stack.enter_context(stores.reading_operator(scope.access, insist=scope.insists))
        return None if operator is None else ServedGroups(operator, accept=scope.accept)
    except BenchError as wrong:
        if scope.insists:
            raise stores.unread(wrong) from wrong
        scope.miss(wrong)
    return None


def check_changes_own(scope: StoresRead) -> None:
    """Refuse to change the series of the own store where answers show the operator's.

    Raises :class:`Unreachable` if the operator cannot be read: nobody knows which they show then.
    """
    if scope.default == "own":
        return
    with ExitStack() as stack:
        served = _served(scope, stack)
    way = f"For those of the store here add --store {scope.own}"
    if served is not None:
        raise UsageError(
            f"These series are of the operator in {served.namespace}, whose store changes in its"
            " pod alone.",
            f"Type the command there with kubectl exec. {way}.",
        )
    if scope.missed:
        raise Unreachable(f"These series may be of an operator. {scope.missed}", f"{way}.")


def _stored(store: SqlStore, scope: StoresRead, note: Note) -> StoredGroups:
    return StoredGroups(store, note, lost=stores.reconcile(store), accept=scope.accept)


def decided(names: Iterable[str], fit: Callable[[str, Holder], Fit], scope: StoresRead) -> Holder:
    """Return the store that has all known names; without any, the default.

    ``fit`` says how well a store fits a name, see :func:`.sides.fit`. Raises :class:`UsageError`.
    """
    holders: dict[str, set[Holder]] = {}
    for name in names:
        fits: dict[Holder, Fit] = {"own": fit(name, "own"), "operator": fit(name, "operator")}
        best = max(fits.values())
        if best is not Fit.NONE:
            holders[name] = {one for one, found in fits.items() if found == best}
    if not holders:
        return scope.default
    has_all = set.intersection(*holders.values())
    if len(has_all) == 1:
        return has_all.pop()
    if has_all:
        raise UsageError(
            f"{_bare(next(iter(holders)))!r} is in two stores: the operator's, and the one here.",
            f"Add --store {scope.own} or --store {stores.CLUSTER}.",
        )
    there = next(_bare(name) for name, of in holders.items() if of == {"operator"})
    here = next(_bare(name) for name, of in holders.items() if of == {"own"})
    raise UsageError(
        f"An answer reads one store: {there!r} is in the operator's, {here!r} in the one here.",
        f"Copy it with k8sbench store import --from-operator {shlex.quote(there)}, and add --store"
        f" {scope.own}.",
    )


def _bare(text: str) -> str:
    """Return a name without its kind."""
    return sides.kinds_and_name(text)[1]


def _first_line(holder: Holder, store: SqlStore, served: ServedGroups, scope: StoresRead) -> str:
    """Return the line that says which store answers, and what the other holds."""
    of_operator = f"of the operator in {served.namespace}"
    theirs = of_operator, stores.CLUSTER, _times(served.created)
    ours = "here", scope.own, _times(store.group_index.created())
    (place, _, held), (elsewhere, option, others) = (
        (ours, theirs) if holder == "own" else (theirs, ours)
    )
    text = f"{counted(len(held), 'run')} {place}"
    if not others:
        return "" if holder == "own" else f"{text}."
    newest = max(held, default=math.inf)
    newer = sum(at > newest for at in others)
    count = counted(newer, "newer one") if newer else f"{len(others)}"
    return f"{text}; {count} {elsewhere}: --store {option}"


def _times(created: Mapping[str, Mapping[str, float]]) -> list[float]:
    return [at for runs in created.values() for at in runs.values()]


def completed(answer: Callable[P, T]) -> Callable[P, T]:
    """Make a command answer once more, from the own store, if the operator is lost.

    It has sent its rows then, and does not answer any more. What is not found without it may be
    there: :class:`Unreachable`. One argument is a :class:`StoresRead`.
    """

    @functools.wraps(answer)
    def completing(*args: P.args, **given: P.kwargs) -> T:
        every = (*args, *given.values())
        scope = next(one for one in every if isinstance(one, StoresRead))
        try:
            return answer(*args, **given)
        except OperatorLost as wrong:
            if scope.insists:
                raise stores.unread(wrong) from wrong
            scope.miss(wrong)
            return completing(*args, **given)
        except NotFound as absent:
            if scope.missed:
                raise Unreachable(absent.message, absent.action) from absent
            raise

    return completing
