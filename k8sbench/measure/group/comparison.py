"""Comparisons of groups, with each other and with published figures: ratios of equal things only.

Speedup and efficiency against the 1x1 case, deviation from a published figure, Paddle : PyTorch
parity, arithmetic per second and its share of what the GPU can do. Where two sides differ in
a field that decides the figure, there is no ratio, but the ids of the fields that differ.
All ids are in :data:`NOT_COMPARABLE`; ``docs/results.md`` explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from k8sbench.measure.group.gpu_peaks import peak_of, plain_name
from k8sbench.measure.group.spread import spread
from k8sbench.model import speed_options
from k8sbench.model.group import Deviation, Figure, Group, Parity, Result
from k8sbench.model.identity import GroupKey, fields_for
from k8sbench.model.measurement import Arithmetic
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import BenchmarkSpec, Fingerprint, Published, Variant

FEWEST_SETS = 3
"""From so many sets on there is an interval over sets."""
GAIN = 1.02
"""Speed per GPU over that of fewer GPUs that is remarked, where the intervals do not overlap."""
GAIN_UNREPEATED = 1.05
"""The same where there are no intervals: single runs differ by 2 % now and then."""
SAME_MODEL = 0.001
"""Relative difference up to which parameters or GMAC are equal: the catalog rounds them."""

NOT_COMPARABLE = (
    *("smoke", "cpu", "no-figure", "case", "precision", "batch", "gpu-model", "device"),
    *("estimator", "model", "arithmetic", "data", "backend", "mode"),
)
"""Ids of everything that can forbid a ratio; ``docs/results.md`` explains them."""

_ID = {"batch_size": "batch", "gpu_model": "gpu-model"}
"""Field of the case → the id for a difference in it, where that is not the field's name."""

BY_RULE = ("head", "norm")
"""Options that by a benchmark's own rule may differ between one GPU and several (ArcFace's loss
head, the norm layer), as the program reports or takes them: allowed in a speedup, and footnoted."""

TF32_UNKNOWN = "fp32 or tf32"
SYNC_BN_NOTE = "synchronised batch norm on several GPUs, plain batch norm on one"


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """A group's ratio to its 1x1 group."""

    speedup: Figure
    efficiency: Figure
    baseline: Group | None = None


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
    scale = scaling(group, among)
    speedup = scale.speedup
    if speedup.value is not None and scale.baseline is not None:
        notes = _case_notes(find(group.plan), group, scale.baseline)
        # The catalog's note on a case is more exact than the general one.
        ours = (n for n in speedup.notes if not (notes and n == SYNC_BN_NOTE))
        speedup = msgspec.structs.replace(speedup, notes=(*ours, *notes))
    speed, share = arithmetic_speed(group)
    deviations: tuple[Deviation, ...] | None = None
    why: str | None = None
    if published:
        spec = find(group.plan)
        if spec is None:
            why = f"no catalog entry for {group.plan.benchmark}"
        else:
            deviations = deviations_of(group, spec)
            if not deviations:
                why = "the catalog has no published figure of this variant"
    return Result(
        group=group,
        speedup=speedup,
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
    found: dict[tuple[GroupKey, str], list[float]] = {}
    for group in groups:
        if group.spread is not None:
            found.setdefault(_but_set(group), []).append(group.spread.median)
    return found


def _but_set(group: Group) -> tuple[GroupKey, str]:
    """What sets must have in common to be repetitions: all of the group but the set.

    More than ``series`` holds: another image, program or GPU is no repetition.
    """
    return msgspec.structs.replace(group.key, set_name=""), group.estimator


# Speedup


def scaling(group: Group, among: Sequence[Group]) -> Scaling:
    """Speedup and efficiency against the 1x1 case of equal everything else."""
    reason = _no_speedup(group)
    if reason is not None:
        return _no_scaling(reason)
    assert group.spread is not None
    base, reason = baseline(group, among)
    if base is None:
        return _no_scaling(reason)
    alone = base.by_estimator.get(group.estimator)
    if alone is None:
        return _no_scaling(f"{base.key.id} has no figure by {group.estimator}")
    ratio = group.spread.median / alone
    notes = _speedup_notes(group, base)
    return Scaling(
        speedup=Figure(value=ratio, notes=notes),
        efficiency=Figure(value=ratio / group.plan.world_size, notes=notes),
        baseline=base,
    )


def baseline(group: Group, among: Sequence[Group]) -> tuple[Group | None, str]:
    """Find the 1x1 group that the speedup refers to, or the reason why there is none.

    The group's own set comes first, then the newest of the other sets.
    """
    alone = [other for other in among if other.plan.world_size == 1]
    side = (group.key.benchmark, group.key.framework)
    mine = [other for other in alone if (other.key.benchmark, other.key.framework) == side]
    equal = [other for other in mine if not _unlike(group, other)]
    valid = [other for other in equal if other.spread is not None]
    if valid:
        return max(valid, key=lambda o: (o.key.set_name == group.key.set_name, o.latest, o.key)), ""
    if equal:
        return None, "no figure for the 1x1 case to refer to"
    if not mine:
        return None, "no 1x1 case to refer to"
    near = min(mine, key=lambda o: (len(_unlike(group, o)), -o.latest, o.key))
    return None, f"no equal 1x1 case: {near.key.id} differs in {', '.join(_unlike(group, near))}"


def _no_speedup(group: Group) -> str | None:
    if group.smoke:
        return "smoke run: checks the path, not the speed"
    if group.on_cpu:
        return "CPU processes share the machine: no speedup"
    if group.key.backend == "local" and group.plan.replicas > 1:
        return "the replicas shared one machine: no speedup"
    if group.spread is None:
        return "no valid figure"
    if group.key.gpu_model == "unknown":
        return "the GPU model is not known"
    return None


def _no_scaling(reason: str) -> Scaling:
    none = Figure(value=None, reason=reason)
    return Scaling(speedup=none, efficiency=none)


def _unlike(group: Group, other: Group) -> list[str]:
    """In which fields two groups differ that a speedup needs to be equal."""
    return [name for name in fields_for("baseline") if _differs(name, group, other)]


def _differs(name: str, group: Group, other: Group) -> bool:
    mine, theirs = group.plan, other.plan
    if name == "options":
        unlike = mine.options.items() ^ theirs.options.items()
        return any(name not in BY_RULE for name, _ in unlike)
    if name == "program" and mine.trainer is None and theirs.trainer is None:
        # A command holds the number of GPUs, so it always differs: its template must
        # be the same. Plans of version 0.1.0 name the whole catalog file for that.
        if mine.program_digest is None or theirs.program_digest is None:
            return mine.spec_digest != theirs.spec_digest
        return mine.program_digest != theirs.program_digest
    return bool(getattr(group.key, name) != getattr(other.key, name))


def _speedup_notes(group: Group, base: Group) -> tuple[str, ...]:
    mine, alone = _by_rule(group), _by_rule(base)
    notes = [
        f"{name}: {mine[name]}, on one GPU {alone[name]}"
        for name in BY_RULE
        if mine[name] != alone[name]
    ]
    if group.plan.sync_bn and not base.plan.sync_bn and mine["norm"] == alone["norm"]:
        notes.append(SYNC_BN_NOTE)
    if base.key.set_name != group.key.set_name:
        notes.append(f"1x1 case of another set: {base.key.set_name}")
    return tuple(notes)


def _by_rule(group: Group) -> dict[str, object]:
    return {n: group.by_rule.get(n, group.plan.options.get(n, "default")) for n in BY_RULE}


def _case_notes(spec: BenchmarkSpec | None, group: Group, base: Group) -> tuple[str, ...]:
    """What the benchmark's own rule makes different in this case or on one GPU."""
    variant = None if spec is None else _variant(spec, group.plan)
    if variant is None:
        return ()
    cases = dict.fromkeys((base.key.case, group.key.case))
    return tuple(f"{c}: {variant.case_notes[c]}" for c in cases if c in variant.case_notes)


def _variant(spec: BenchmarkSpec, plan: RunPlan) -> Variant | None:
    return next(
        (v for v in spec.variants if (v.framework, v.name) == (plan.framework, plan.variant)), None
    )


def gain_over_fewer(group: Group, of_set: Iterable[Group]) -> tuple[float, Group | None]:
    """The greatest ratio of the speed per GPU to that of a group of fewer, where beyond noise.

    ``of_set`` has the groups of the same set: from set to set speeds vary more than intervals say.
    Fewer on as many nodes or fewer, with as many per node or fewer: eight on one node may well be
    faster, each, than two on two.
    """
    found: tuple[float, Group | None] = (1.0, None)
    for other in of_set if _no_speedup(group) is None else ():
        if (
            other.plan.world_size < group.plan.world_size
            and other.plan.replicas <= group.plan.replicas
            and other.plan.processes_per_replica <= group.plan.processes_per_replica
            and other.estimator == group.estimator
            and not _unlike(group, other)
            and _by_rule(other) == _by_rule(group)
        ):
            ratio = _gain(group, other)
            found = (ratio, other) if ratio > found[0] else found
    return found


def _gain(group: Group, other: Group) -> float:
    """Ratio of the speeds per GPU; 1 where it may be noise."""
    mine, theirs = group.spread, other.spread
    if mine is None or theirs is None:
        return 1.0
    fewer = other.plan.world_size / group.plan.world_size
    ratio = mine.median / theirs.median * fewer
    if mine.low is None or theirs.high is None:
        return ratio if ratio > GAIN_UNREPEATED else 1.0
    return ratio if ratio > GAIN and mine.low * fewer > theirs.high else 1.0


# Arithmetic


def tflops(model: Fingerprint, rate: float, gpus: int) -> float:
    """TFLOP/s of each GPU, from the model and the samples/s of the job.

    The first layer's backward pass has no gradient of its input: nobody asks for that of images.
    """
    # A multiply-accumulate is two operations; backward takes two of them for each one forward.
    done = 6 * (model.gmac + (model.head_gmac or 0.0)) - 2 * (model.first_layer_gmac or 0.0)
    return done * rate / gpus / 1000


def arithmetic_speed(group: Group) -> tuple[Figure, Figure]:
    """TFLOP/s per GPU, and its share of the GPU's peak."""
    if group.smoke:
        reason = "smoke run: small shapes"
    elif group.on_cpu:
        reason = "no GPU was used"
    elif group.spread is None:
        reason = "no valid figure"
    elif group.gmac is not None:
        assert group.plan.fingerprint is not None  # the GMAC is from there
        done = tflops(group.plan.fingerprint, group.spread.median, group.plan.world_size)
        return Figure(value=done), _peak_share(group, done)
    else:
        reason = group.missing.get("gmac", "the model's GMAC is not known")
    none = Figure(value=None, reason=reason)
    return none, none


def _peak_share(group: Group, done: float) -> Figure:
    gpu = group.key.gpu_model
    peak = peak_of(gpu)
    kind = arithmetic(group.plan, group.precision_effective, gpu)
    if peak is None:
        return Figure(value=None, reason=f"the peak of GPU {gpu!r} is not known")
    if kind is None:
        return Figure(value=None, reason="the precision in effect is not known")
    if kind == TF32_UNKNOWN:
        return Figure(value=None, reason="the program does not say whether TF32 was on")
    limit = getattr(peak, kind)
    if limit is None:
        return Figure(value=None, reason=f"{gpu} has no {kind}")
    note = f"peak: {limit:g} TFLOP/s {kind}, {peak.source}"
    return Figure(value=done / limit, notes=(note,))


def arithmetic(plan: RunPlan, effective: str | None, gpu_model: str | None) -> str | None:
    """The number format that the arithmetic had: fp32, tf32, fp16, bf16; None if not known.

    :data:`TF32_UNKNOWN` where the GPU has TF32 and the program is not ours and does not report it.
    """
    if effective in ("fp16", "bf16", "tf32"):
        return effective
    if effective == "amp":
        return plan.amp_dtype
    if effective != "fp32":
        return None
    peak = peak_of(gpu_model)
    if peak is not None and peak.tf32 is None:
        return "fp32"
    if plan.options.get("tf32"):
        return "tf32"
    return "fp32" if plan.impl == "k8sbench" else TF32_UNKNOWN


def peak_limit(plan: RunPlan, effective: str | None, gpu_model: str | None) -> float | None:
    """TFLOP/s that a run on this GPU cannot exceed; None where that is not known."""
    peak = peak_of(gpu_model)
    kind = arithmetic(plan, effective, gpu_model)
    if peak is None or kind is None:
        return None
    return peak.tf32 if kind == TF32_UNKNOWN else getattr(peak, kind)


# Published figures


def deviations_of(group: Group, spec: BenchmarkSpec) -> tuple[Deviation, ...]:
    """Each source's figure that is nearest to the group, and our deviation from it."""
    variant = _variant(spec, group.plan)
    if variant is None:
        return ()
    nearest: dict[str, tuple[tuple[object, ...], Published]] = {}
    for index, figure in enumerate(variant.published):
        if figure.throughput is None:
            continue
        unlike = _unlike_published(group, figure, variant)
        rank = (len(unlike), "case" in unlike, "precision" in unlike, index)
        held = nearest.get(figure.source)
        if held is None or rank < held[0]:
            nearest[figure.source] = (rank, figure)
    return tuple(_deviation(group, figure, spec, variant) for _, figure in nearest.values())


def _deviation(group: Group, figure: Published, spec: BenchmarkSpec, variant: Variant) -> Deviation:
    assert figure.throughput is not None
    unlike = _unlike_published(group, figure, variant)
    ours = group.by_estimator.get(figure.estimator)
    notes = []
    if group.plan.impl != "upstream":
        notes.append(f"impl {group.plan.impl}")
    data = data_source(group.plan.data)
    if group.plan.data == "synthetic-host":
        notes.append("data synthetic-host")  # also where theirs is synthetic: loaders cost time
    elif data != figure.data:
        notes.append(f"data {data}")
    notes += speed_options.words(group.plan.options)
    if figure.aggregate == "mean":
        notes.append("published mean of runs, our median")
    if figure.anomalous:
        notes.append("published figure is anomalous")
    return Deviation(
        source=figure.source,
        title=spec.sources[figure.source].title if figure.source in spec.sources else figure.source,
        case=figure.case,
        precision=figure.precision,
        batch_size=figure.batch_size,
        gpu_model=figure.gpu_model,
        published=figure.throughput,
        estimator=figure.estimator,
        ours=ours,
        ratio=None if unlike or ours is None else ours / figure.throughput - 1,
        not_comparable=unlike,
        notes=tuple(notes),
        remark=figure.note,
    )


def _unlike_published(group: Group, figure: Published, variant: Variant) -> tuple[str, ...]:
    plan = group.plan
    found = ["smoke"] if group.smoke else []
    if group.spread is None:
        found.append("no-figure")
    same = {
        "case": f"{plan.replicas}x{plan.processes_per_replica}" == figure.case,
        "precision": plan.precision == figure.precision
        and (group.spread is None or _same_format(group, figure, variant)),
        "batch_size": plan.batch_size == figure.batch_size,
        # Where nothing was measured there is nothing that could differ in more than its plan.
        "gpu_model": group.spread is None
        or (not group.on_cpu and plain_name(group.key.gpu_model) == plain_name(figure.gpu_model)),
    }
    found += [_ID.get(name, name) for name in fields_for("published") if not same[name]]
    if group.spread is not None and figure.estimator not in group.by_estimator:
        # "unknown" is never among them: an estimator that is not stated cannot match.
        found.append("estimator")
    return tuple(found)


def _same_format(group: Group, figure: Published, variant: Variant) -> bool:
    theirs = "fp32" if figure.precision == "fp32" else variant.amp_dtype
    return theirs == arithmetic(group.plan, group.precision_effective, group.key.gpu_model)


def data_source(data: str) -> str:
    """``synthetic`` or ``real``."""
    return "synthetic" if data.startswith("synthetic") else "real"


# Parity


def parities(groups: Iterable[Group]) -> list[Parity]:
    """Pair Paddle and PyTorch groups of one case, whether or not a ratio can be given.

    A pair shares the fields that decide ``parity``; not necessarily the set. Each group is paired
    with the counterpart that differs in the fewest respects, then of its own set, then the newest.
    """
    sides: dict[tuple[object, ...], tuple[list[Group], list[Group]]] = {}
    for group in groups:
        pair = sides.setdefault(group.key.only("parity"), ([], []))
        pair[0 if group.key.framework == "paddle" else 1].append(group)
    found: dict[tuple[str, str], Parity] = {}
    for paddles, torches in sides.values():
        if not paddles or not torches:
            continue
        pairs = [(paddle, max(torches, key=partial(_nearness, paddle))) for paddle in paddles]
        pairs += [(max(paddles, key=partial(_nearness, torch)), torch) for torch in torches]
        for paddle, pytorch in pairs:
            found[paddle.key.id, pytorch.key.id] = parity(paddle, pytorch)
    return sorted(found.values(), key=lambda pair: (pair.paddle.key, pair.pytorch.key))


def parity(paddle: Group, pytorch: Group) -> Parity:
    """One pair: its ratio, or what forbids it."""
    unlike = _unlike_parity(paddle, pytorch)
    notes = []
    if paddle.plan.impl != pytorch.plan.impl:
        notes.append(f"impl {paddle.plan.impl} : {pytorch.plan.impl}")
    if paddle.key.set_name != pytorch.key.set_name:
        notes.append(f"sets {paddle.key.set_name} : {pytorch.key.set_name}")
    fast = [", ".join(speed_options.words(g.plan.options)) or "none" for g in (paddle, pytorch)]
    if fast[0] != fast[1]:
        notes.append(f"speed options {fast[0]} : {fast[1]}")
    if "arithmetic" in unlike:
        notes.append(_unlike_types(paddle.arithmetic, pytorch.arithmetic))
    for name, stated in (("Paddle", paddle.arithmetic), ("PyTorch", pytorch.arithmetic)):
        if stated is not None and stated.by == "derived":
            notes.append(f"arithmetic derived for {name}")
    ratio = None
    if not unlike and paddle.spread and pytorch.spread:
        ratio = paddle.spread.median / pytorch.spread.median
    return Parity(
        paddle=paddle, pytorch=pytorch, ratio=ratio, not_comparable=unlike, notes=tuple(notes)
    )


def _nearness(one: Group, other: Group) -> tuple[object, ...]:
    """Order of possible counterparts: the greater, the better."""
    same_set = one.key.set_name == other.key.set_name
    same_impl = one.plan.impl == other.plan.impl
    return (-len(_unlike_parity(one, other)), same_impl, same_set, other.latest, other.key)


def _unlike_parity(one: Group, two: Group) -> tuple[str, ...]:
    found = []
    if one.smoke or two.smoke:
        found.append("smoke")
    if one.on_cpu or two.on_cpu:
        found.append("cpu")
    elif "unknown" in (one.key.gpu_model, two.key.gpu_model) or plain_name(
        one.key.gpu_model
    ) != plain_name(two.key.gpu_model):
        found.append("device")
    if one.spread is None or two.spread is None:
        found.append("no-figure")
    if not (_same(one.parameters, two.parameters) and _same(one.gmac, two.gmac)):
        found.append("model")
    formats = [arithmetic(g.plan, g.precision_effective, g.key.gpu_model) for g in (one, two)]
    if formats[0] is None or formats[0] != formats[1] or TF32_UNKNOWN in formats:
        found.append("precision")
    elif _unlike_arithmetic(one, two):
        found.append("arithmetic")
    if one.estimator != two.estimator:
        found.append("estimator")
    found += [
        _ID.get(name, name)
        for name in fields_for("ratio")
        if getattr(one.key, name) != getattr(two.key, name)
    ]
    return tuple(found)


def _unlike_arithmetic(one: Group, two: Group) -> bool:
    """Whether the operations' types differ, or may differ, in one precision.

    In FP32 all are FP32, whether a program states them or not; what AMP leaves in FP32 is known
    only where it is stated.
    """
    if one.arithmetic is None or two.arithmetic is None:
        return one.precision_effective == "amp"
    return one.arithmetic.types != two.arithmetic.types


def _unlike_types(paddle: Arithmetic | None, pytorch: Arithmetic | None) -> str:
    """The kinds of operations whose types differ, or who does not state any."""
    sides = {"Paddle": paddle, "PyTorch": pytorch}
    if paddle is None or pytorch is None:
        missing = [name for name, stated in sides.items() if stated is None]
        return f"arithmetic not stated by {' and '.join(missing)}"
    one, two = paddle.types, pytorch.types
    kinds = sorted(kind for kind in {*one, *two} if one.get(kind) != two.get(kind))
    shown = (f"{kind} {one.get(kind, 'none')} : {two.get(kind, 'none')}" for kind in kinds)
    return f"arithmetic differs in {', '.join(shown)}"


def _same(one: float | None, two: float | None) -> bool:
    return one is not None and two is not None and abs(one - two) <= SAME_MODEL * max(one, two)
