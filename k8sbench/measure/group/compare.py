"""Two sides compared, case by case: the ratio, whether it is shown, and whether it is a regression.

The observations are the runs of both sides, or, where both have enough sets, the sets' medians:
from set to set speeds vary more than within one, so several runs of a set say less than as many
sets. ``faster`` and ``slower`` hold for all cases together
(:func:`~k8sbench.measure.group.permutation.shown`). A regression is a ratio beyond the limit *and*
p ≤ 5 % in its own case: CI follows each case by itself. What may not differ is what a ratio of
frameworks forbids, less what cannot be known of one and the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from k8sbench.measure.group import arithmetic, differences, ratios, speedup
from k8sbench.measure.group.permutation import ALPHA, TwoSides, shown
from k8sbench.measure.group.sides import Side, counterparts, differing, figures, have_sets
from k8sbench.model.compared import Compared, Comparison, Finding
from k8sbench.model.group import Deviation, Group, Result
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import BenchmarkSpec


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
