"""What follows for a group from the others and from the catalog: ratios of equal things only.

Speedup and efficiency against the 1x1 case, arithmetic per second, deviation from a published
figure, and how much the sets of one case differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from k8sbench.measure.group import arithmetic, speedup
from k8sbench.measure.group.deviations import deviations_of, trained_deviations_of
from k8sbench.measure.group.group_figures import spread
from k8sbench.model.group import Deviation, Group, Result
from k8sbench.model.identity import GroupKey
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import BenchmarkSpec

FEWEST_SETS = 3
"""From so many sets on there is an interval over sets."""


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
    among = among or groups
    of_sets = _medians_of_sets(among)
    return [
        _result(group, among, of_sets.get(_but_set(group), []), find, published) for group in groups
    ]


def _result(
    group: Group,
    among: Sequence[Group],
    medians: Sequence[float],
    find: Callable[[RunPlan], BenchmarkSpec | None],
    published: bool,
) -> Result:
    scale = speedup.scaling(group, among)
    ratio = scale.speedup
    if ratio.value is not None and scale.baseline is not None:
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
            deviations = (*deviations_of(group, spec), *trained_deviations_of(group, spec))
            if not deviations:
                why = "the catalog has no published figure of this variant"
    return Result(
        group=group,
        speedup=ratio,
        efficiency=scale.efficiency,
        baseline=scale.baseline.key.id if scale.baseline else None,
        tflops_per_gpu=speed,
        peak_share=share,
        sets=len(medians),
        over_sets=spread(medians) if len(medians) >= FEWEST_SETS else None,
        deviations=deviations,
        deviations_reason=why,
    )


def _medians_of_sets(groups: Iterable[Group]) -> dict[tuple[GroupKey, str], list[float]]:
    medians: dict[tuple[GroupKey, str], list[float]] = {}
    for group in groups:
        if group.spread is not None:
            medians.setdefault(_but_set(group), []).append(group.spread.median)
    return medians


def _but_set(group: Group) -> tuple[GroupKey, str]:
    """What sets must have in common to be repetitions: all of the group but the set.

    More than ``series`` holds: another image, program or GPU is no repetition.
    """
    return msgspec.structs.replace(group.key, set_name=""), group.estimator
