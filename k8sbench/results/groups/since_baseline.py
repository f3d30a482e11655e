"""Changes of the newer side of a comparison since the newest baseline of each case."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.model.compared import Compared, Comparison, Figures, SinceBaseline
from k8sbench.model.group import Group
from k8sbench.model.run import Baseline
from k8sbench.results.groups import comparison, sides
from k8sbench.results.groups.known import KnownGroups
from k8sbench.results.groups.sides import Side


def added(compared: Comparison, kept: Iterable[Baseline], known: KnownGroups) -> Comparison:
    """Add to each case what the second side shows against its newest baseline.

    A case whose newest baseline has runs of a side has nothing to add. A baseline is one from
    before the second side.
    """
    left = {
        place: case.b
        for place, case in enumerate(compared.cases)
        if case.b is not None and case.b.spread is not None
    }
    cases = list(compared.cases)
    for one in sorted(kept, key=lambda one: -one.saved_at):
        programs = {
            (its.groups[-1].key.benchmark, its.groups[-1].key.framework) for its in left.values()
        }
        if programs.isdisjoint((run.facts.benchmark, run.facts.framework) for run in one.runs):
            continue
        ours = sides.of_baseline(one)
        before = {place: _before(ours, its) for place, its in left.items()}
        fitting = {place: groups for place, groups in before.items() if groups}
        news = {
            place: groups
            for place, groups in fitting.items()
            if _run_ids(groups).isdisjoint(_own_runs(cases[place]))
        }
        held = comparison.compare(
            _side(one.name, [group for groups in news.values() for group in groups]),
            _side(compared.b, [group for place in news for group in left[place].groups]),
            floor=compared.floor,
            earlier=known,
        )
        places = {group.key.id: place for place in news for group in left[place].groups}
        for case in held.cases:
            if case.ratio is not None:
                place = places[case.group.key.id]
                cases[place] = msgspec.structs.replace(
                    cases[place], since_baseline=_since(one.name, case)
                )
        left = {place: its for place, its in left.items() if place not in fitting}
    return msgspec.structs.replace(compared, cases=tuple(cases))


def _before(ours: Side, its: Figures) -> list[Group]:
    """Return the groups of a baseline that are the same case at an earlier time."""
    newest = its.groups[-1]
    return [
        group
        for group in ours.groups
        if group.spread is not None
        and group.began[1] < its.groups[0].began[0]
        and not sides.differing(group, newest)
        and not comparison.unlike(group, newest)
    ]


def _side(name: str, groups: Iterable[Group]) -> Side:
    return Side(name=name, groups=tuple(groups), runs={})


def _own_runs(case: Compared) -> set[str]:
    return {name for side in (case.a, case.b) if side is not None for name in _run_ids(side.groups)}


def _run_ids(groups: Iterable[Group]) -> set[str]:
    return {member.run_id for group in groups for member in group.members}


def _since(name: str, case: Compared) -> SinceBaseline:
    assert case.ratio is not None
    return SinceBaseline(
        name=name, ratio=case.ratio, low=case.low, high=case.high, finding=case.finding
    )
