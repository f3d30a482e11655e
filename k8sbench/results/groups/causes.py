"""Likely causes of the changes of a comparison, likeliest first.

A fact of the runs (:mod:`~k8sbench.results.groups.facts`) that differs in all changed cases, and in
none that shows no change, stands first; then facts of most of the changed cases; then GPU metrics,
which say how rather than why. Facts that differ in cases without a change, too, and those of few
of the changed cases, which leave the others unexplained, stand last. Facts of the same cases cannot
be told apart.

Between two sides much may have changed that did not matter. So a changed case is not held against
its other side alone: where its series marks a change between the two sides, a fact must differ
between the last set before it and the first after it, too.

Nodes come and go without a meaning. A single node counts if it is new in all of several changed
cases; else "other nodes" are one fact of a case.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from k8sbench.model.compared import Cause, Compared, Comparison, Difference
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.results.groups import facts
from k8sbench.results.groups.facts import Change
from k8sbench.results.groups.known import KnownGroups

Explains = Literal["slower", "faster"] | None
Fact = tuple[str, str]
Runs = Mapping[str, Run]
_Step = tuple[Group, Group]
"""The last set of a case before its change, and the first after it."""
NODES: Final = ("environment", "node")
NONE: frozenset[str] = frozenset()


class _Case(msgspec.Struct, frozen=True):
    """Differing facts of one case."""

    place: int
    changes: Mapping[Fact, Change]
    nodes: frozenset[str]
    """Nodes of the second set."""


def explained(compared: Comparison, runs: Runs, known: KnownGroups) -> Comparison:
    """Add what may explain the changes of a comparison.

    ``runs`` are those of the sides; ``known`` has the sets between them.
    """
    found = _Facts(compared, runs, known)
    return msgspec.structs.replace(compared, causes=tuple(found.causes()))


class _Facts:
    """Finds what differs between the sets of each case."""

    def __init__(self, compared: Comparison, runs: Runs, known: KnownGroups) -> None:
        self._compared = compared
        self._runs = runs
        self._known = known
        self._by_line: dict[tuple[str, ...], list[GroupRow]] = defaultdict(list)
        lines = {case.group.row.line for case in compared.cases}
        sides = [side for case in compared.cases for side in (case.a, case.b) if side is not None]
        oldest = min((group.began[0] for side in sides for group in side.groups), default=0.0)
        for row in known.rows:
            if row.began >= oldest and row.line in lines and row.figure is not None:
                self._by_line[row.line].append(row)

    def causes(self) -> Iterator[Cause]:
        """Yield the causes of the slower cases, then of the faster ones, or what differs."""
        places = defaultdict(list)
        for place, case in enumerate(self._compared.cases):
            if case.a is not None and case.b is not None:
                places[case.finding].append(place)
        if not places["slower"] and not places["faster"]:
            every = sorted(place for some in places.values() for place in some)
            yield from _ranked([self._around(n, None) for n in every], [], None, self._names)
        if places["slower"]:
            yield from self._explain("slower", places["slower"], places["no-difference"])
        if places["faster"]:
            yield from self._explain("faster", places["faster"], places["no-difference"])

    @property
    def _names(self) -> tuple[str, str]:
        return self._compared.a, self._compared.b

    def _explain(
        self, explains: Explains, changed: Sequence[int], quiet: Sequence[int]
    ) -> Iterator[Cause]:
        steps = {place: self._step(self._compared.cases[place]) for place in changed}
        named = Counter(_sets(step) for step in steps.values() if step is not None)
        ours = [self._around(place, steps[place]) for place in changed]
        if named:
            # The same two sets of the cases without a change.
            ((names, _),) = named.most_common(1)
            theirs = [self._around(place, self._groups(place, names)) for place in quiet]
        else:
            names = self._names
            theirs = [self._around(place, None) for place in quiet]
        shared = _shared(ours)
        ours = _with_nodes(ours, shared)
        theirs = _with_nodes(theirs, shared)
        yield from _ranked(ours, theirs, explains, names)

    # -- sets of a case ---------------------------------------------------------------------------

    def _step(self, case: Compared) -> _Step | None:
        """Return the last set before a change and the first after it; None: the sides' own.

        Of several changes between the sides, it is the largest.
        """
        rows = self._between(case)
        if len(rows) < 3:
            return None
        is_forward = rows[0].began <= rows[-1].began
        # Of sides in the other order the set after a change comes first.
        places = {row.set_name: place + (not is_forward) for place, row in enumerate(rows)}
        marks = [judged.mark for judged in self._known.judged(rows).values()]
        changes = {
            places[mark.since]: abs(mark.change)
            for mark in marks
            if mark is not None
            and mark.is_change
            and (mark.change < 0) == (is_forward == (case.finding == "slower"))
            and 0 < places.get(mark.since, 0) < len(rows)
        }
        if not changes:
            return None
        at = max(changes, key=lambda place: changes[place])
        return self._step_of(case, rows[at - 1 : at + 1])

    def _between(self, case: Compared) -> list[GroupRow]:
        """Return the rows from the newest set of A to the first of B, in this order."""
        if case.a is None or case.b is None:
            return []
        first, last = case.a.groups[-1].row, case.b.groups[0].row
        low, high = sorted((first.began, last.began))
        ends = {row.group_id for row in (first, last)}
        within = [
            row
            for row in self._by_line[last.line]
            if low < row.began < high and row.group_id not in ends
        ]
        within.sort(key=lambda row: abs(row.began - first.began))
        return [first, *within, last]

    def _groups(self, place: int, names: tuple[str, str]) -> _Step | None:
        """Return a case's groups of two sets; None if it lacks one."""
        case = self._compared.cases[place]
        rows = {row.set_name: row for row in self._between(case)}
        if not all(name in rows for name in names):
            return None
        return self._step_of(case, [rows[name] for name in names])

    def _step_of(self, case: Compared, rows: Sequence[GroupRow]) -> _Step | None:
        # Those of a baseline may be in no store.
        groups = {
            group.key.id: group
            for side in (case.a, case.b)
            if side is not None
            for group in side.groups
        }
        others = [row for row in rows if row.group_id not in groups]
        groups |= {group.key.id: group for group in self._known.groups(others)}
        if not all(row.group_id in groups for row in rows):
            return None  # one was removed meanwhile
        before, after = (groups[row.group_id] for row in rows)
        return before, after

    # -- what differs -----------------------------------------------------------------------------

    def _around(self, place: int, step: _Step | None) -> _Case:
        """Return what differs between the sides of a case, and around its step."""
        case = self._compared.cases[place]
        sides = [side.groups for side in (case.a, case.b) if side is not None]
        before, after = (self._counted(groups) for groups in sides)
        known = _by_fact(before, after)
        if step is not None:
            between = known
            before, after = (self._counted([group]) for group in step)
            known = _by_fact(before, after)
            known = {fact: change for fact, change in known.items() if fact in between}
        return _Case(place, known, frozenset(facts.nodes(after)))

    def _counted(self, groups: Iterable[Group]) -> list[Run]:
        ids = [m.run_id for group in groups for m in group.members if m.rate is not None]
        found = (self._runs.get(name) or self._known.runs.get(name) for name in ids)
        return [run for run in found if run is not None]


def _by_fact(before: Sequence[Run], after: Sequence[Run]) -> dict[Fact, Change]:
    found = {change.fact: change for change in facts.changes(before, after)}
    old, new = (facts.nodes(runs) for runs in (before, after))
    if old and new - old:
        gone = ", ".join(sorted(old - new)) or None
        come = ", ".join(sorted(new - old))
        difference = Difference(kind=NODES[0], name=NODES[1], a=gone, b=come)
        found[NODES] = Change(difference, frozenset(new - old))
    return found


def _sets(step: _Step) -> tuple[str, str]:
    return step[0].key.set_name, step[1].key.set_name


# -- ranking --------------------------------------------------------------------------------------


def _ranked(
    changed: Sequence[_Case], quiet: Sequence[_Case], explains: Explains, sets: tuple[str, str]
) -> list[Cause]:
    """Join the facts of the same cases, and order them."""
    alike: dict[_Where, list[Fact]] = defaultdict(list)
    for fact in dict.fromkeys(fact for case in changed for fact in case.changes):
        ours = [case for case in changed if fact in case.changes]
        new = {value for case in ours for value in case.changes[fact].new}
        theirs = [case for case in quiet if fact in case.changes and case.changes[fact].new & new]
        alike[_Where(fact[0] == "gpu", _places(ours), _places(theirs))].append(fact)
    causes = [
        Cause(
            explains=explains,
            facts=tuple(
                dict.fromkeys(
                    case.changes[fact].difference
                    for fact in its
                    for case in changed
                    if fact in case.changes
                )
            ),
            sets=sets,
            cases=where.ours,
            others=where.theirs,
        )
        for where, its in sorted(alike.items(), key=lambda one: one[0].rank(len(changed)))
    ]
    return [one for one in causes if not (one.others and one.facts[0].kind == "gpu")]


class _Where(NamedTuple):
    """Places of the cases that have a fact."""

    is_metric: bool
    ours: tuple[int, ...]
    """Changed cases."""
    theirs: tuple[int, ...]
    """Cases without a change."""

    def rank(self, changed: int) -> tuple[int, ...]:
        """Return the sort key among the facts of so many changed cases."""
        order = (
            not self.is_metric and not self.theirs and 2 * len(self.ours) > changed,
            self.is_metric and 2 * len(self.ours) > changed,
            not self.is_metric and len(self.ours) == changed,
            not self.theirs,
            True,
        )
        return order.index(True), -len(self.ours), len(self.theirs), *self.ours


def _places(cases: Iterable[_Case]) -> tuple[int, ...]:
    return tuple(case.place for case in cases)


def _with_nodes(cases: Sequence[_Case], shared: frozenset[str]) -> list[_Case]:
    """Return the cases with one fact of their nodes: the shared ones, else that others came."""
    return [_with_node(case, shared) for case in cases]


def _with_node(case: _Case, shared: frozenset[str]) -> _Case:
    change = case.changes.get(NODES)
    changes = {fact: one for fact, one in case.changes.items() if fact != NODES}
    if shared and case.nodes & shared:
        difference = Difference(kind=NODES[0], name=NODES[1], a=None, b=", ".join(sorted(shared)))
        changes[NODES] = Change(difference, shared)
    elif change is not None and not shared:
        changes[NODES] = Change(change.difference, frozenset(["others"]))
    return _Case(case.place, changes, case.nodes)


def _shared(changed: Sequence[_Case]) -> frozenset[str]:
    """Return the nodes that are new in all of several changed cases."""
    if len(changed) < 2:
        return frozenset()
    known = [case.changes[NODES].new if NODES in case.changes else NONE for case in changed]
    return frozenset.intersection(*known)
