"""Two sides compared, case by case: the ratio, whether it is shown, and whether it is a regression.

The observations are the runs of both sides, or, where both have enough sets, the sets' medians:
from set to set speeds vary more than within one, so several runs of a set say less than as many
sets. ``faster`` and ``slower`` hold for all cases together
(:func:`~k8sbench.measure.group.permutation.shown`). A regression is a ratio beyond the limit *and*
p ≤ 5 % in its own case: CI follows each case by itself. What may not differ is what a ratio of
frameworks forbids, less what cannot be known of one and the same program.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from k8sbench.measure.group import arithmetic, differences, permutation, ratios, speedup
from k8sbench.measure.group.group_figures import spread
from k8sbench.measure.group.permutation import ALPHA, TwoSides, shown
from k8sbench.model.compared import Compared, Comparison, Figures, Finding
from k8sbench.model.group import Deviation, Group, Result
from k8sbench.model.identity import fields_for
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec

# -- sides ----------------------------------------------------------------------------------------
#
# A case of a side is its groups that are equal in all that stays the same over sets, on the same
# GPU and by the same estimator. Cases of the two sides that are equal in all of that are
# counterparts; what is left is paired by benchmark, framework and case, those first that differ in
# the least; and where a side is one single case, it is held against the other's, whatever that is.

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


# -- cases ----------------------------------------------------------------------------------------


def compare(a: Side, b: Side, *, limit: float | None = None) -> Comparison:
    """Compare two sides; ``limit`` is the share by which the second may be slower."""
    pairs = counterparts(a, b)
    different = differences.differences(
        [
            ([a.runs[one] for one in _counted(mine)], [b.runs[one] for one in _counted(theirs)])
            for mine, theirs in pairs
        ]
    )
    cases = _cases(pairs, limit)
    return Comparison(a=a.name, b=b.name, limit=limit, cases=cases, differences=tuple(different))


def newest_sets(groups: Sequence[Group]) -> Comparison | None:
    """Compare the newest set with the newest other one that has a case of it; None: none has."""
    by_set: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: -group.latest):
        by_set.setdefault(group.key.set_name, []).append(group)
    (b, last), *others = by_set.items() if by_set else [("", [])]
    has = {group.key.only("series") for group in last if group.spread is not None}
    for a, older in others:
        if any(group.spread is not None and group.key.only("series") in has for group in older):
            sides = (
                Side(name=name, groups=tuple(some), runs={})
                for name, some in ((a, older), (b, last))
            )
            cases = _cases(counterparts(*sides), None)
            return Comparison(a=a, b=b, limit=None, cases=cases, differences=())
    return None


def _cases(
    pairs: Sequence[tuple[Sequence[Group], Sequence[Group]]], limit: float | None
) -> tuple[Compared, ...]:
    cases = [_beside(mine, theirs) for mine, theirs in pairs]
    tests = {
        place: TwoSides(case.a.values, case.b.values)
        for place, case in enumerate(cases)
        if case.ratio is not None and case.a is not None and case.b is not None
    }
    for (place, test), differs in zip(tests.items(), shown(list(tests.values())), strict=True):
        cases[place] = _judged(cases[place], test, differs=differs, limit=limit)
    return tuple(cases)


def _counted(groups: Sequence[Group]) -> list[str]:
    return [m.run_id for group in groups for m in group.members if m.rate is not None]


def _beside(mine: Sequence[Group], theirs: Sequence[Group]) -> Compared:
    """Put the two sides of a case beside each other, with their ratio where they have one."""
    of_sets = have_sets(mine) and have_sets(theirs)
    one, two = (figures(groups, of_sets=of_sets) if groups else None for groups in (mine, theirs))
    if one is None or two is None:
        return Compared(a=one, b=two, finding="one-side")
    forbidden = unlike(mine[-1], theirs[-1])
    if one.spread is None or two.spread is None:
        forbidden = tuple(dict.fromkeys((*forbidden, "no-figure")))
        ratio = None
    else:
        ratio = two.spread.median / one.spread.median
    return Compared(
        a=one,
        b=two,
        ratio=None if forbidden else ratio,
        finding="not-comparable",
        not_comparable=forbidden,
        notes=_notes(mine[-1], theirs[-1]),
    )


def _judged(case: Compared, test: TwoSides, *, differs: bool, limit: float | None) -> Compared:
    """Add to a case with a ratio what its observations show."""
    ratio = case.ratio or 1.0
    finding: Finding = "no-difference"
    if test.least_p > ALPHA:
        finding = "undecided"
    elif differs and (ratio - 1) * test.direction > 0:
        finding = "slower" if test.direction < 0 else "faster"
    return msgspec.structs.replace(
        case,
        p=test.p,
        p_least=test.least_p,
        finding=finding,
        regression=limit is not None and is_regression(ratio, test, limit),
    )


def is_regression(ratio: float, test: TwoSides, limit: float) -> bool:
    """Whether the second side is slower by more than the limit, and shown to be slower."""
    return ratio < 1 - limit and test.direction < 0 and test.p <= ALPHA


# What may differ


def unlike(one: Group, two: Group) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups; ``docs/results.md`` explains them."""
    fields = differing(one, two)
    ids = [name for name in ("benchmark", "case", "precision") if name in fields]
    # Of one program, planned alike, what neither side states is taken as equal.
    return tuple(dict.fromkeys((*ids, *ratios.unlike_in_parity(one, two, is_alike=not fields))))


def _notes(one: Group, two: Group) -> tuple[str, ...]:
    """What differs of the plan and is allowed to."""
    named = {"benchmark", "case", "replicas", "processes_per_replica", "precision", "preset"}
    shown = [name for name in differing(one, two) if name not in named]
    return tuple(
        f"{name}: {getattr(one.key, name)} in A, {getattr(two.key, name)} in B" for name in shown
    )


# -- comparison -----------------------------------------------------------------------------------
#
# What follows for a group from the others and from the catalog: ratios of equal things only.
#
# Speedup and efficiency against the 1x1 case, arithmetic per second, deviation from a published
# figure.


def results(
    groups: Sequence[Group],
    *,
    among: Sequence[Group] | None = None,
    find: Callable[[RunPlan], BenchmarkSpec | None] = lambda _: None,
    published: bool = False,
) -> list[Result]:
    """Add to each group what follows from the others and from the catalog.

    ``among`` is where baselines are looked for: all groups at hand, by default ``groups``.
    ``find`` gives the catalog entry of a plan, or None; it is asked only where the entry is
    needed: for published figures, and for the footnotes of a speedup.
    """
    among = [group for group in among or groups if group.plan.world_size == 1]
    return [_result(group, among, find, published) for group in groups]


def _result(
    group: Group,
    among: Sequence[Group],
    find: Callable[[RunPlan], BenchmarkSpec | None],
    published: bool,
) -> Result:
    scale = speedup.scaling(group, among)
    ratio, theirs = scale.speedup, dict[str, dict[int, float]]()
    if ratio.value is not None and scale.baseline is not None:
        theirs = ratios.published_speedups(group, find(group.plan))
        notes = speedup.case_notes(find(group.plan), group, scale.baseline)
        # The catalog's note on a case is more exact than the general one.
        ours = (n for n in ratio.notes if not (notes and n == speedup.SYNC_BN_NOTE))
        ratio = msgspec.structs.replace(ratio, notes=(*ours, *notes))
    speed, share = arithmetic.arithmetic_speed(group)
    deviations: tuple[Deviation, ...] | None = None
    why: str | None = None
    if published:
        spec = find(group.plan)
        if spec is None:
            why = f"no catalog entry for {group.plan.benchmark}"
        else:
            deviations = ratios.deviations_of(group, spec)
            if not deviations:
                why = "the catalog has no published figure of this variant"
    return Result(
        group=group,
        speedup=ratio,
        efficiency=scale.efficiency,
        published_speedups=theirs,
        baseline=scale.baseline.key.id if scale.baseline else None,
        tflops_per_gpu=speed,
        peak_share=share,
        deviations=deviations,
        deviations_reason=why,
    )
