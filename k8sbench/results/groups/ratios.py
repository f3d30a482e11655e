"""Ratios of a group to published figures, and of Paddle to PyTorch.

There is one only where nothing that decides it differs; otherwise the ids stand there of what does,
which ``docs/results.md`` explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import msgspec

from k8sbench.catalog.plan_choices import parse_case
from k8sbench.catalog.published import Accuracy, Published
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.messages import Note, note
from k8sbench.model.arithmetic import SAME_MODEL, TF32_UNKNOWN, number_format, peak_of, plain_name
from k8sbench.model.group import SCRATCH, UNSTEADY, Deviation, Group, Parity
from k8sbench.model.identity import fields_for
from k8sbench.model.measurement import Arithmetic
from k8sbench.model.plain_text import ABSENT
from k8sbench.model.plan import SEQUENCE_LENGTH, is_bandwidth
from k8sbench.model.rules import ENDS_EARLY
from k8sbench.model.speed_options import option_words

IDS = {"batch_size": "batch", "gpu_model": "gpu-model", "data_digest": "data"}
"""Field of the case → id of a difference, if not the field's name."""
DATA_UNSTATED = note("data-not-stated")
"""Note of a figure whose logs name no data."""
ODD = note("published-odd")
"""Note of a figure that the catalog marks."""
_OF_RECIPE = "eval_accuracy"
"""AI-Rank's name for whatever accuracy a recipe has."""


def deviations_of(group: Group, spec: BenchmarkSpec) -> tuple[Deviation, ...]:
    """Each source's figures that are nearest to the group, and our deviations from them.

    Of runs that train to an accuracy also those of the time and of the accuracy.
    """
    variant = spec.variant(group.facts.framework, group.facts.variant)
    if variant is None:
        return ()
    found = [
        _deviation(group, figure, spec, variant, figure.throughput)
        for figure in variant.published
        if figure.throughput is not None
    ]
    if group.facts.mode == "train" or group.runs_at_target is not None:
        found += [
            _trained(group, figure, spec, variant, quantity)
            for quantity, name in (("time_to_train", "time_to_train_s"), ("accuracy", "accuracy"))
            for figure in variant.published
            if getattr(figure, name) is not None
        ]
    return _nearest(found)


def published_speedups(group: Group, spec: BenchmarkSpec | None) -> dict[str, dict[int, float]]:
    """Map source → GPUs → speedup by the published throughputs of the group's program and batch."""
    facts = group.facts
    variant = None if spec is None else spec.variant(facts.framework, facts.variant)
    alike = [
        (
            math.prod(parse_case(one.case)),
            one.throughput,
            (one.source, one.gpu_model),
        )
        for one in (variant.published if variant is not None else ())
        if (one.precision, one.batch_size) == (facts.precision, facts.batch_size)
    ]
    alone = {key: rate for gpus, rate, key in alike if gpus == 1}
    speedups: dict[str, dict[int, float]] = {}
    for gpus, rate, key in alike:
        if rate and (one := alone.get(key)):
            speedups.setdefault(key[0], {})[gpus] = rate / one
    return speedups


def _nearest(deviations: Iterable[Deviation]) -> tuple[Deviation, ...]:
    """Return the most similar published figure per source and quantity."""
    nearest: dict[tuple[str, str], tuple[tuple[object, ...], Deviation]] = {}
    for index, deviation in enumerate(deviations):
        unlike = deviation.not_comparable
        key = (deviation.source, deviation.quantity)
        rank = (len(unlike), "case" in unlike, "precision" in unlike, index)
        held = nearest.get(key)
        if held is None or rank < held[0]:
            nearest[key] = (rank, deviation)
    return tuple(deviation for _, deviation in nearest.values())


def _trained(
    group: Group, figure: Published, spec: BenchmarkSpec, variant: Variant, quantity: str
) -> Deviation:
    """The published time to train, or the accuracy, beside ours."""
    training = group.training
    reached = group.accuracy
    notes = []
    if quantity == "time_to_train":
        assert figure.time_to_train_s is not None
        aim, estimator = spec.target_accuracy, "Time2Train"
        published, ours = figure.time_to_train_s, group.time_to_train_s
        unlike = _unlike_trained(group, figure, variant, aim)
        # Logs of other programs are read with the benchmark's target.
        aims = aim is not None and (training is None or training.target == aim.percent)
        unlike += ["target"] if group.spread is not None and not aims else []
    else:
        assert figure.accuracy is not None
        published, estimator = figure.accuracy.percent, figure.accuracy.metric
        scale = 100 if reached is not None and reached.unit == "fraction" else 1
        ours = None if reached is None else reached.best * scale
        unlike = _unlike_trained(group, figure, variant, figure.accuracy)
        is_part = any(reason.id == ENDS_EARLY.id for m in group.members for reason in m.reasons)
        if "target" in (group.ended_by or ""):
            notes.append(note("stopped-at-target"))
        elif training is None and is_part:
            unlike.append("length")
    unlike += ["no-figure"] if ours is None and group.spread is not None else []
    deviation = _deviation(group, figure, spec, variant, published)
    return msgspec.structs.replace(
        deviation,
        quantity=quantity,
        corrected=None,
        estimator=estimator,
        ours=ours,
        ratio=None if unlike or ours is None or not published else ours / published - 1,
        ratios=None,
        not_comparable=tuple(unlike),
        notes=(*deviation.notes, *notes),
    )


def _unlike_trained(
    group: Group, figure: Published, variant: Variant, accuracy: Accuracy | None
) -> list[str]:
    """Return what makes an accuracy or its time incomparable to the published."""
    unlike = [name for name in _unlike_published(group, figure, variant) if name != "estimator"]
    if group.spread is None:
        return unlike
    is_real = data_source(group.facts.data) == "real" or _is_published_data(group, variant)
    if not is_real or figure.data != "real":
        unlike.append("data")
    recipe = variant.train
    planned = None if group.planned is None else group.planned.training
    weights = group.training and group.training.weights
    if (
        planned is not None
        and recipe is not None
        and (planned.length, planned.unit) != (recipe.length, recipe.unit)
    ):
        unlike.append("length")
    # The report may itself have begun from scratch.
    theirs = planned is None or planned.start is not None
    if group.facts.impl != "upstream" and (weights is None or (weights != SCRATCH) != theirs):
        unlike.append("weights")
    metrics = {_OF_RECIPE, None if accuracy is None else accuracy.metric}
    if accuracy is None or group.accuracy is None or group.accuracy.metric not in metrics:
        unlike.append("metric")
    return unlike


def _deviation(
    group: Group, figure: Published, spec: BenchmarkSpec, variant: Variant, published: float
) -> Deviation:
    unlike = _unlike_published(group, figure, variant)
    ours = group.by_estimator.get(figure.estimator)
    theirs = figure.corrected or published
    notes = []
    if group.facts.impl != "upstream":
        notes.append(note("impl-of", impl=group.facts.impl))
    data = "real" if _is_published_data(group, variant) else data_source(group.facts.data)
    if group.facts.data == "synthetic-host":
        notes.append(
            note("data-of", data="synthetic-host")
        )  # also where theirs is synthetic: loaders cost time
    elif data != figure.data:
        notes.append(_logged_data(group) if data == "unknown" else note("data-of", data=data))
    notes += [note("option-of", option=one) for one in option_words(group.facts.options)]
    if figure.aggregate == "mean":
        notes.append(note("published-mean"))
    if figure.corrected is not None:
        wrong, corrected = figure.throughput, figure.corrected
        notes.append(
            note("published-wrong", published=f"{wrong:.7g}", corrected=f"{corrected:.7g}")
        )
    elif figure.anomalous:
        notes.append(ODD)
    ratios = None
    if unlike == ("estimator",) and figure.estimator == "unknown":
        found = [rate / theirs - 1 for rate in group.by_estimator.values()]
        unlike = ()
        ratios = (min(found), max(found))
    source = spec.sources.get(figure.source)
    return Deviation(
        source=figure.source,
        same_version=source is not None
        and group.program_version in source.versions.get(group.key.framework, ()),
        title=figure.source if source is None else source.title,
        case=figure.case,
        precision=figure.precision,
        batch_size=figure.batch_size,
        gpu_model=figure.gpu_model,
        published=published,
        corrected=figure.corrected,
        estimator=figure.estimator,
        ours=ours,
        ratio=None if unlike or ours is None else ours / theirs - 1,
        ratios=ratios,
        not_comparable=unlike,
        notes=tuple(notes),
        remark=figure.note,
    )


def _unlike_published(group: Group, figure: Published, variant: Variant) -> tuple[str, ...]:
    facts = group.facts
    unlike = ["smoke"] if group.smoke else []
    if group.spread is None or group.state == UNSTEADY:
        unlike.append("no-figure")
    theirs = "fp32" if figure.precision == "fp32" else variant.amp_dtype
    ours = number_format(facts, group.precision_effective, group.key.gpu_model)
    # Of a GPU that is not known, or has no data sheet, the GPU differs and not the precision.
    is_open = ours == TF32_UNKNOWN and peak_of(group.key.gpu_model) is None
    same = {
        "case": f"{facts.replicas}x{facts.processes_per_replica}" == figure.case,
        "precision": facts.precision == figure.precision
        and (group.spread is None or theirs == ours or (theirs == "fp32" and is_open)),
        "batch_size": facts.batch_size == figure.batch_size,
        # Where nothing was measured there is nothing that could differ in more than its plan.
        "gpu_model": group.spread is None
        or (not group.on_cpu and plain_name(group.key.gpu_model) == plain_name(figure.gpu_model)),
    }
    unlike += [IDS.get(name, name) for name in fields_for("published") if not same[name]]
    default = variant.args.get(SEQUENCE_LENGTH)
    if facts.options.get(SEQUENCE_LENGTH, default) != default:
        unlike.append("settings")
    if group.spread is not None and figure.estimator not in group.by_estimator:
        # "unknown" is never among them: an estimator that is not stated cannot match.
        unlike.append("estimator")
    return tuple(unlike)


def _is_published_data(group: Group, variant: Variant) -> bool:
    """True if the logs state the checksum of the archive that was published."""
    archive = variant.data_set and variant.data_set.md5
    return archive is not None and group.data_md5 == archive


def _logged_data(group: Group) -> Note:
    """Tell which data the logs name, whose source they do not say."""
    if group.data_name is not None:
        return note("data-in-log", name=group.data_name)
    if group.data_md5 is None:
        return DATA_UNSTATED
    return note("data-in-log-md5", md5=group.data_md5)


def data_source(data: str) -> str:
    """``synthetic`` or ``real``; ``unknown`` where an imported log does not tell."""
    if data == "unknown":
        return data
    return "synthetic" if data.startswith("synthetic") else "real"


# -- Paddle : PyTorch ------------------------------------------------------------------------------


PAIR = ("paddle", "pytorch")
"""Frameworks that are held against each other."""


def parities(groups: Iterable[Group]) -> list[Parity]:
    """Pair Paddle and PyTorch groups of one case, with or without a ratio.

    A pair shares the fields that decide ``parity``; not necessarily the set. Each group is paired
    with the counterpart that differs in the fewest respects, then of its own set, then the newest.
    """
    sides: dict[tuple[object, ...], tuple[list[Group], list[Group]]] = {}
    for group in groups:
        if is_bandwidth(group.facts.unit):
            continue  # the network's, whose program calls it is of no account
        if group.key.framework not in PAIR:
            continue
        pair = sides.setdefault(group.key.only("parity"), ([], []))
        pair[PAIR.index(group.key.framework)].append(group)
    by_case: dict[tuple[str, str], Parity] = {}
    for paddles, torches in sides.values():
        if not paddles or not torches:
            continue
        pairs = [(paddle, max(torches, key=partial(_nearness, paddle))) for paddle in paddles]
        pairs += [(max(paddles, key=partial(_nearness, torch)), torch) for torch in torches]
        for paddle, pytorch in pairs:
            by_case[paddle.key.id, pytorch.key.id] = parity(paddle, pytorch)
    return sorted(by_case.values(), key=lambda pair: (pair.paddle.key, pair.pytorch.key))


def parity(paddle: Group, pytorch: Group) -> Parity:
    """One pair: its ratio, or what forbids it."""
    unlike = _unlike(paddle, pytorch)
    notes = []
    if paddle.facts.impl != pytorch.facts.impl:
        notes.append(note("impls-of", paddle=paddle.facts.impl, pytorch=pytorch.facts.impl))
    if paddle.key.set_name != pytorch.key.set_name:
        notes.append(note("sets-of", paddle=paddle.key.set_name, pytorch=pytorch.key.set_name))
    fast = [option_words(g.facts.options) or note("no-options") for g in (paddle, pytorch)]
    if fast[0] != fast[1]:
        notes.append(note("speed-options-of", paddle=fast[0], pytorch=fast[1]))
    if "arithmetic" in unlike:
        notes.append(_unlike_types(paddle.arithmetic, pytorch.arithmetic))
    ratio = None
    if not unlike and paddle.spread and pytorch.spread:
        ratio = paddle.spread.median / pytorch.spread.median
    return Parity(
        paddle=paddle, pytorch=pytorch, ratio=ratio, not_comparable=unlike, notes=tuple(notes)
    )


def _nearness(group: Group, other: Group) -> tuple[object, ...]:
    """Order of possible counterparts: the greater, the better."""
    same_set = group.key.set_name == other.key.set_name
    same_impl = group.facts.impl == other.facts.impl
    return (-len(_unlike(group, other)), same_impl, same_set, other.began, other.key)


def _unlike(one: Group, two: Group) -> tuple[str, ...]:
    """Return ids that forbid a ratio of medians, unsteady runs included."""
    unlike = dict.fromkeys(unlike_in_parity(one, two))
    return (*(unlike | {"no-figure": None} if UNSTEADY in (one.state, two.state) else unlike),)


def unlike_in_parity(one: Group, two: Group, *, is_alike: bool = False) -> tuple[str, ...]:
    """Return ids that forbid a ratio of two groups of one case.

    Framework and program may differ. ``is_alike``: they are of one program, planned alike. Then
    only known differences count, and an unknown GPU.
    """
    unlike = []
    if one.smoke or two.smoke:
        unlike.append("smoke")
    if one.on_cpu or two.on_cpu:
        unlike.append("cpu")
    elif "unknown" in (one.key.gpu_model, two.key.gpu_model) or plain_name(
        one.key.gpu_model
    ) != plain_name(two.key.gpu_model):
        unlike.append("device")
    if one.spread is None or two.spread is None:
        unlike.append("no-figure")
    models = ((one.parameters, two.parameters), (one.gmac, two.gmac))
    if not all(_same(*model) or (is_alike and None in model) for model in models):
        unlike.append("model")
    formats = [number_format(g.facts, g.precision_effective, g.key.gpu_model) for g in (one, two)]
    if is_alike:
        effective = {one.precision_effective, two.precision_effective}
        is_other = any(len(known - {None}) > 1 for known in ({*formats}, effective))
    else:
        is_other = formats[0] is None or formats[0] != formats[1] or TF32_UNKNOWN in formats
    if is_other:
        unlike.append("precision")
    elif _unlike_arithmetic(one, two, is_alike=is_alike):
        unlike.append("arithmetic")
    if one.estimator != two.estimator:
        unlike.append("estimator")
    unlike += [
        IDS.get(name, name)
        for name in fields_for("ratio")
        if getattr(one.key, name) != getattr(two.key, name)
    ]
    return tuple(unlike)


def _unlike_arithmetic(one: Group, two: Group, *, is_alike: bool) -> bool:
    """Return True if the operations' types differ, or may differ.

    In FP32 all are FP32, stated or not. What AMP leaves in FP32 is known only if it is stated.
    """
    if one.arithmetic is None or two.arithmetic is None:
        return not is_alike and one.precision_effective == "amp"
    return one.arithmetic.types != two.arithmetic.types


def _unlike_types(paddle: Arithmetic | None, pytorch: Arithmetic | None) -> Note:
    """The kinds of operations whose types differ, or who does not state any."""
    sides = {"Paddle": paddle, "PyTorch": pytorch}
    if paddle is None or pytorch is None:
        missing = [name for name, stated in sides.items() if stated is None]
        if len(missing) > 1:
            return note("types-not-reported-by-both")
        return note("types-not-reported", names=missing[0])
    one, two = paddle.types, pytorch.types
    kinds = sorted(kind for kind in {*one, *two} if one.get(kind) != two.get(kind))
    shown = (f"{kind} {one.get(kind, ABSENT)} : {two.get(kind, ABSENT)}" for kind in kinds)
    return note("types-differ", kinds=tuple(shown))


def _same(one: float | None, two: float | None) -> bool:
    return one is not None and two is not None and abs(one - two) <= SAME_MODEL * max(one, two)
