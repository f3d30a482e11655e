"""Speedup and efficiency of a group against the 1x1 case of equal everything else.

Where there is none, a reason stands in its place. What the benchmark's own rule makes different on
one GPU is allowed, and footnoted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.messages import Note, note, of_catalog
from k8sbench.model import arithmetic, titles
from k8sbench.model.facts import Facts
from k8sbench.model.group import Deviation, Figure, Group, Result
from k8sbench.model.identity import fields_for
from k8sbench.model.plan import is_bandwidth
from k8sbench.results.groups import ratios

BASELINE = fields_for("baseline")
OF_PRECISION = ("precision", "precision_effective", "amp_dtype")
"""Fields in which AMP and FP32 differ."""
BY_RULE = ("head", "norm")
"""Options that a benchmark's rule may change with the number of GPUs.

ArcFace's loss head and the norm layer, as the program reports or takes them: allowed in a speedup,
and footnoted.
"""
SYNC_BN_NOTE = note("sync-bn")


def scaling(group: Group, among: Sequence[Group]) -> tuple[Figure, Group | None]:
    """Speedup against the 1x1 case of equal everything else, and that case."""
    base = None
    reason = _no_speedup(group)
    if reason is None:
        base, reason = baseline(group, among)
    if base is not None and group.spread is not None:
        if alone := base.by_estimator.get(group.estimator):
            notes = _speedup_notes(group, base)
            return Figure(value=group.spread.median / alone, notes=notes), base
        reason = note("no-figure-by", group=base.key.id, estimator=group.estimator)
    return Figure(value=None, reason=reason), None


def efficiency(group: Group, speedup: Figure) -> Figure:
    """Speedup ÷ GPUs."""
    gpus = group.facts.world_size
    if speedup.value is None or gpus is None:
        return speedup
    return msgspec.structs.replace(speedup, value=speedup.value / gpus)


def baseline(group: Group, among: Sequence[Group]) -> tuple[Group | None, Note | None]:
    """Return the 1x1 group of the speedup, or why there is none.

    A 1x1 group is its own. Else one of the same window comes first, then the group's own set, then
    the newest.
    """
    key = group.key
    mine = [
        other
        for other in among
        if other.facts.world_size == 1
        and (other.key.benchmark, other.key.framework) == (key.benchmark, key.framework)
    ]

    def nearness(other: Group) -> tuple[object, ...]:
        has_window = other.key.window == key.window
        is_own = other.key.id == key.id
        return is_own, has_window, other.key.set_name == key.set_name, other.began[1], other.key

    mine.sort(key=nearness, reverse=True)
    for other in mine:
        if other.state == "valid" and not _unlike(group, other):
            return other, None
    if not mine:
        return None, note("no-single-case")
    near = min(mine, key=lambda other: len(_unlike(group, other)))
    if unlike := _unlike(group, near):
        return None, note(
            "no-equal-single-case", group=near.key.id, fields=tuple(map(titles.of_field, unlike))
        )
    return None, note("no-single-figure")


def _no_speedup(group: Group) -> Note | None:
    if is_bandwidth(group.facts.unit):
        return note("bus-bandwidth")
    if group.smoke:
        return note("smoke-no-speed")
    if group.on_cpu:
        return note("cpu-shares-machine")
    if group.key.backend == "local" and group.key.replicas > 1:
        return note("replicas-share-machine")
    if group.state != "valid":
        return note("no-valid-figure")
    if group.key.gpu_model == "unknown":
        is_imported = group.key.backend == "imported"
        return note("gpu-model-not-stated" + "-imported" * is_imported)
    return None


def _unlike(group: Group, other: Group) -> list[str]:
    """In which fields two groups differ, or may differ, that a speedup needs to be equal."""
    unstated = {*group.facts.undecided, *other.facts.undecided}
    return [name for name in BASELINE if name in unstated or _differs(name, group, other)]


def unlike_but_in_precision(group: Group, other: Group) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups of one case beside their precisions."""
    found = [ratios.IDS.get(n, n) for n in _unlike(group, other) if n not in OF_PRECISION]
    versions = {group.program_version, other.program_version} - {None}
    return tuple(dict.fromkeys([*found, *(["program"] if len(versions) > 1 else [])]))


def _differs(name: str, group: Group, other: Group) -> bool:
    mine, theirs = group.facts, other.facts
    if name == "window" and group.planned is None and mine.backend == theirs.backend:
        return False  # nobody planned it, and both rates are of all after the warm-up
    if name == "options":
        unlike = mine.options.items() ^ theirs.options.items()
        return any(name not in BY_RULE for name, _ in unlike)
    plans = [plan for plan in (group.planned, other.planned) if plan is not None]
    if name == "program" and all(plan.trainer is None for plan in plans):
        # A command holds the number of GPUs, so it always differs: its template must
        # be the same. A plan without its digest has that of the whole catalog file.
        digests = [plan.program_digest for plan in plans]
        if len(digests) < 2 or None in digests:
            return mine.spec_digest != theirs.spec_digest
        return digests[0] != digests[1]
    return group.key.differs(other.key, name)


def _speedup_notes(group: Group, base: Group) -> tuple[Note, ...]:
    mine = _by_rule(group)
    alone = _by_rule(base)
    notes = [
        note("option-differs", option=name, value=str(mine[name]), alone=str(alone[name]))
        for name in BY_RULE
        if mine[name] != alone[name]
    ]
    if group.facts.sync_bn and not base.facts.sync_bn and mine["norm"] == alone["norm"]:
        notes.append(SYNC_BN_NOTE)
    if base.key.window != group.key.window:
        notes.append(note("windows-differ", iterations=str(group.window), alone=str(base.window)))
    if base.key.set_name != group.key.set_name:
        notes.append(note("single-case-of-set", set=base.key.set_name))
    return tuple(notes)


def _by_rule(group: Group) -> dict[str, object]:
    return {n: group.by_rule.get(n, group.facts.options.get(n, "default")) for n in BY_RULE}


def case_notes(spec: BenchmarkSpec | None, group: Group, base: Group) -> tuple[Note, ...]:
    """Return the differences that the benchmark's own rule makes."""
    facts = group.facts
    variant = None if spec is None else spec.variant(facts.framework, facts.variant)
    if variant is None:
        return ()
    cases = dict.fromkeys((base.key.case, group.key.case))
    return tuple(
        note("of-case", case=c, note=of_catalog(variant.case_notes[c]))
        for c in cases
        if c in variant.case_notes
    )


def _noted(group: Group, figure: Figure, of_cases: Sequence[Note] = ()) -> Figure:
    """Finish the notes of a figure: add those on the cases, and name the catalog's as such.

    A note on a case is more exact than the general one, which it replaces.
    """
    own = [one for one in figure.notes if not (of_cases and one == SYNC_BN_NOTE)]
    catalogs = (SYNC_BN_NOTE, *of_cases)
    notes = (_by_catalog(group, n) if n in catalogs else n for n in (*own, *of_cases))
    return msgspec.structs.replace(figure, notes=tuple(notes))


def _by_catalog(group: Group, said: Note) -> Note:
    """Name the source of a note that no log of another program has confirmed."""
    return note("by-the-catalog", note=said) if group.planned is None else said


def _no_entry(facts: Facts) -> Note:
    if not facts.spec_source:
        return note("no-benchmark")
    return note("no-catalog-entry", benchmark=str(facts.benchmark), source=facts.spec_source)


# -- results --------------------------------------------------------------------------------------
#
# What follows for a group from the others and from the catalog: ratios of equal things only.
# Speedup and efficiency against the 1x1 case, arithmetic per second, deviation from a published
# figure.


def results(
    groups: Sequence[Group],
    *,
    among: Sequence[Group] | None = None,
    find: Callable[[Facts], BenchmarkSpec | None] = lambda _: None,
    published: bool = False,
) -> list[Result]:
    """Add to each group what follows from the others and from the catalog.

    ``among`` is where baselines are looked for: all groups at hand, by default ``groups``.
    ``find`` gives the catalog entry of a case, or None; it is asked only where the entry is
    needed: for published figures, and for the footnotes of a speedup.
    """
    among = [group for group in among or groups if group.facts.world_size == 1]
    made = []
    for group in groups:
        speedup, base = scaling(group, among)
        of_cases: tuple[Note, ...] = ()
        theirs = dict[str, dict[int, float]]()
        spec = find(group.facts) if published or base is not None else None
        if base is not None:
            theirs = ratios.published_speedups(group, spec)
            of_cases = case_notes(spec, group, base)
        median = None if group.spread is None else group.spread.median
        speed, share = arithmetic.arithmetic_speed(group, median)
        deviations: tuple[Deviation, ...] | None = None
        why: Note | None = None
        if published:
            if spec is None:
                why = _no_entry(group.facts)
            else:
                deviations = ratios.deviations_of(group, spec)
                if not deviations:
                    why = note("no-published-of-variant")
        made.append(
            Result(
                group=group,
                speedup=_noted(group, speedup, of_cases),
                efficiency=efficiency(group, _noted(group, speedup)),
                published_speedups=theirs,
                baseline=base.key.id if base else None,
                tflops_per_gpu=speed,
                peak_share=share,
                deviations=deviations,
                deviations_reason=why,
            )
        )
    return made
