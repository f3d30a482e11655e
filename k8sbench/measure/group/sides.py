"""The two sides of a comparison: their cases, and which case of one is which of the other.

A case of a side is its groups that are equal in all that stays the same over sets, on the same GPU
and by the same estimator. Cases of the two sides that are equal in all of that are counterparts;
what is left is paired by benchmark, framework and case, those first that differ in the least; and
where a side is one single case, it is held against the other's, whatever that is.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence

import msgspec

from k8sbench.measure.group import permutation
from k8sbench.measure.group.group_figures import spread
from k8sbench.model.compared import Figures
from k8sbench.model.group import Group
from k8sbench.model.identity import fields_for
from k8sbench.model.run import Run

SERIES = fields_for("series")


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What was named on one side."""

    name: str
    groups: tuple[Group, ...]
    runs: Mapping[str, Run]
    """By id: at least the members of the groups."""

    def cases(self) -> list[list[Group]]:
        """Its groups by case; each oldest first, in the order of their keys."""
        by_case: dict[tuple[object, ...], list[Group]] = {}
        for group in sorted(self.groups, key=lambda g: (g.spread is None, -g.latest, g.key)):
            case = group.key.only("series")
            if group.spread is None and any(key[:-2] == case for key in by_case):
                # It has no figure that could be of another GPU: it belongs to the newest.
                next(members for key, members in by_case.items() if key[:-2] == case).append(group)
            else:
                more = (group.key.gpu_model, group.estimator)
                by_case.setdefault((*case, *more), []).append(group)
        cases = [sorted(groups, key=lambda g: (g.latest, g.key)) for groups in by_case.values()]
        return sorted(cases, key=lambda groups: groups[-1].key)


def chosen(groups: Sequence[Group], run_ids: Collection[str]) -> list[Group]:
    """Return the groups that some runs are part of, with the figures of these runs alone."""
    kept = []
    for group in groups:
        members = tuple(member for member in group.members if member.run_id in run_ids)
        if len(members) == len(group.members):
            kept.append(group)
        elif members:
            rates = [member.rate for member in members if member.rate is not None]
            middle = {group.estimator: statistics.median(rates)} if rates else {}
            kept.append(
                msgspec.structs.replace(
                    group,
                    members=members,
                    spread=spread(rates) if rates else None,
                    by_estimator=middle,
                )
            )
    return kept


def counterparts(a: Side, b: Side) -> list[tuple[list[Group], list[Group]]]:
    """Pair the cases of two sides; an empty one has no counterpart."""
    left, right = a.cases(), b.cases()
    if len(left) == len(right) == 1:
        return [(left[0], right[0])]
    near = sorted(
        (len(unlike), unlike, i, j)
        for i, mine in enumerate(left)
        for j, theirs in enumerate(right)
        if _may_meet(mine[-1], theirs[-1])
        for unlike in (differing(mine[-1], theirs[-1]),)
    )
    pairs: dict[int, int] = {}
    for _, _, i, j in near:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    met = [(left[i], right[pairs[i]] if i in pairs else []) for i in range(len(left))]
    return [*met, *(([], right[j]) for j in range(len(right)) if j not in pairs.values())]


def _may_meet(one: Group, two: Group) -> bool:
    names = ("benchmark", "framework", "case")
    return all(getattr(one.key, name) == getattr(two.key, name) for name in names)


def differing(one: Group, two: Group) -> tuple[str, ...]:
    """Name the fields in which two groups differ that stay the same over the sets of a case."""
    return tuple(name for name in SERIES if getattr(one.key, name) != getattr(two.key, name))


def figures(groups: Sequence[Group], *, of_sets: bool) -> Figures:
    """Take a case's figures: of its runs, or of its sets."""
    newest, counted = groups[-1], [group for group in groups if group.spread is not None]
    if of_sets:
        values = [group.spread.median for group in counted if group.spread is not None]
    else:
        rates = (member.rate for group in groups for member in group.members)
        values = [rate for rate in rates if rate is not None]
    return Figures(
        groups=tuple(groups),
        values=tuple(values),
        unit=newest.unit,
        estimator=newest.estimator,
        spread=spread(values) if values else None,
        runs=sum(len(group.members) for group in groups),
        of="sets" if of_sets else "runs",
    )


def have_sets(groups: Sequence[Group]) -> bool:
    """Whether there are as many sets with a figure as a comparison of sets takes."""
    return sum(group.spread is not None for group in groups) >= permutation.fewest()
