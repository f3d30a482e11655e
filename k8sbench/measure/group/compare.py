"""Two sides compared, case by case: the ratio, how sure it is, and whether it is a regression.

The observations are the runs of both sides. Where both have three sets or more they are the sets'
medians: from set to set speeds vary more than within one, so several runs of a set say less than as
many sets. A regression is a ratio beyond the limit *and* sides that are separated
(:func:`~k8sbench.measure.group.rank_test.is_shown`). What may not differ is what a ratio of
frameworks forbids, less what cannot be known of one and the same program.
"""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.measure.group import arithmetic, differences, parity, rank_test
from k8sbench.measure.group.gpu_peaks import plain_name
from k8sbench.measure.group.sides import Side, counterparts, differing, figures, have_sets
from k8sbench.model.compared import (
    Compared,
    Comparison,
    Evidence,
    Figures,
    Finding,
    Interval,
)
from k8sbench.model.errors import UsageError
from k8sbench.model.group import Group

MOST_OBSERVATIONS = 120
"""On one side of one case: beyond that an exact test takes longer than somebody waits."""
ONE_EACH = "one run on each side shows no spread"


def compare(a: Side, b: Side, *, limit: float | None = None) -> Comparison:
    """Compare two sides; ``limit`` is the share by which the second may be slower."""
    pairs = counterparts(a, b)
    cases = [_compared(mine, theirs, limit) for mine, theirs in pairs]
    found = differences.differences(
        [
            ([a.runs[one] for one in _counted(mine)], [b.runs[one] for one in _counted(theirs)])
            for mine, theirs in pairs
        ]
    )
    return Comparison(a=a.name, b=b.name, limit=limit, cases=tuple(cases), differences=tuple(found))


def _counted(groups: Sequence[Group]) -> list[str]:
    return [m.run_id for group in groups for m in group.members if m.rate is not None]


def _compared(mine: Sequence[Group], theirs: Sequence[Group], limit: float | None) -> Compared:
    of_sets = have_sets(mine) and have_sets(theirs)
    if not mine or not theirs:
        return _one_side(*(figures(g, of_sets=False) if g else None for g in (mine, theirs)))
    one, two = figures(mine, of_sets=of_sets), figures(theirs, of_sets=of_sets)
    forbidden = unlike(mine[-1], theirs[-1])
    if one.spread is None or two.spread is None:
        forbidden = tuple(dict.fromkeys((*forbidden, "no-figure")))
    notes = _notes(mine[-1], theirs[-1])
    if forbidden:
        return _without_ratio(one, two, forbidden, notes)
    assert one.spread is not None
    assert two.spread is not None
    ratio = two.spread.median / one.spread.median
    evidence, interval = tested(one.values, two.values)
    if interval is not None:
        # Of even numbers of runs the ratio of the medians may be none of the pairs' ratios.
        interval = Interval(
            low=min(interval.low, ratio), high=max(interval.high, ratio), coverage=interval.coverage
        )
    return Compared(
        a=one,
        b=two,
        ratio=ratio,
        interval=interval,
        interval_reason=None if interval is not None else ONE_EACH,
        evidence=evidence,
        finding=finding(ratio, evidence),
        regression=is_regression(ratio, evidence, limit),
        beyond_limit=limit is not None and ratio < 1 - limit,
        notes=notes,
    )


def tested(a: Sequence[float], b: Sequence[float]) -> tuple[Evidence, Interval | None]:
    """Test two sides, and bound their ratio."""
    if max(len(a), len(b)) > MOST_OBSERVATIONS:
        raise UsageError(
            f"A side has {max(len(a), len(b))} runs of one case; {MOST_OBSERVATIONS} are the most"
            " that are tested exactly.",
            "Name fewer sets or runs.",
        )
    return rank_test.rank_sum(a, b), rank_test.ratio_interval(a, b)


def is_regression(ratio: float, evidence: Evidence, limit: float | None) -> bool:
    """Whether the second side is slower by more than the limit, and the sides are separated."""
    if limit is None or ratio >= 1 - limit:
        return False
    return evidence.direction < 0 and rank_test.is_shown(evidence)


def finding(ratio: float, evidence: Evidence) -> Finding:
    """What the runs of both sides show."""
    if not rank_test.can_be_shown(evidence):
        return "undecided"
    if not rank_test.is_shown(evidence) or (ratio - 1) * evidence.direction <= 0:
        return "no-difference"
    return "slower" if evidence.direction < 0 else "faster"


def _without_ratio(
    one: Figures | None, two: Figures | None, forbidden: tuple[str, ...], notes: tuple[str, ...]
) -> Compared:
    return Compared(
        a=one,
        b=two,
        ratio=None,
        interval=None,
        interval_reason="no ratio",
        evidence=None,
        finding="not-comparable" if forbidden else "one-side",
        regression=False,
        beyond_limit=False,
        not_comparable=forbidden,
        notes=notes,
    )


def _one_side(one: Figures | None, two: Figures | None) -> Compared:
    return _without_ratio(one, two, (), ())


# What may differ


def unlike(one: Group, two: Group) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups; all are in :data:`.comparable.NOT_COMPARABLE`."""
    fields = differing(one, two)
    found: list[str] = [name for name in ("benchmark", "case") if name in fields]
    if "precision" in fields:
        found.append("precision")
    if fields:
        found += parity.unlike_in_parity(one, two)
    else:
        found += _unlike_alike(one, two)
    return tuple(dict.fromkeys(found))


def _unlike_alike(one: Group, two: Group) -> list[str]:
    """The same for the same program, planned alike: what is unknown of both may be taken as equal.

    Only what is known to differ forbids a ratio, and a GPU that nobody knows.
    """
    gpus = {one.key.gpu_model, two.key.gpu_model}
    formats = {
        arithmetic.arithmetic(g.plan, g.precision_effective, g.key.gpu_model) for g in (one, two)
    }
    effective = {g.precision_effective for g in (one, two)}
    stated = [g.arithmetic.types for g in (one, two) if g.arithmetic is not None]
    models = (
        {g.parameters for g in (one, two) if g.parameters is not None},
        {g.gmac for g in (one, two) if g.gmac is not None},
    )
    checks = {
        "smoke": one.smoke or two.smoke,
        "cpu": one.on_cpu or two.on_cpu,
        "device": not (one.on_cpu or two.on_cpu)
        and ("unknown" in gpus or len({plain_name(gpu) for gpu in gpus}) > 1),
        "no-figure": one.spread is None or two.spread is None,
        "model": any(
            known and max(known) > min(known) * (1 + arithmetic.SAME_MODEL) for known in models
        ),
        "precision": len(formats - {None}) > 1 or len(effective - {None}) > 1,
        "arithmetic": len(stated) == 2 and stated[0] != stated[1],
        "estimator": one.estimator != two.estimator,
    }
    return [name for name, is_unlike in checks.items() if is_unlike]


def _notes(one: Group, two: Group) -> tuple[str, ...]:
    """What differs of the plan and is allowed to."""
    named = {"benchmark", "case", "replicas", "processes_per_replica", "precision", "preset"}
    shown = [name for name in differing(one, two) if name not in named]
    return tuple(
        f"{name}: {getattr(one.key, name)} in A, {getattr(two.key, name)} in B" for name in shown
    )
