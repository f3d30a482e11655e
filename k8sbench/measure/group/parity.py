"""Paddle : PyTorch parity: pairs of groups of one case, and their ratio where they are equal.

Where they differ in what decides it there is no ratio, but the ids of what differs, which
``docs/results.md`` explains.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from k8sbench.measure.group.arithmetic import SAME_MODEL, TF32_UNKNOWN, arithmetic
from k8sbench.measure.group.gpu_peaks import plain_name
from k8sbench.model import speed_options
from k8sbench.model.group import Group, Parity
from k8sbench.model.identity import fields_for
from k8sbench.model.measurement import Arithmetic

_ID = {"batch_size": "batch", "gpu_model": "gpu-model"}
"""Field of the case → the id for a difference in it, where that is not the field's name."""


def id_of(field: str) -> str:
    """Return the id for a difference in a field of the case."""
    return _ID.get(field, field)


def parities(groups: Iterable[Group]) -> list[Parity]:
    """Pair Paddle and PyTorch groups of one case, whether or not a ratio can be given.

    A pair shares the fields that decide ``parity``; not necessarily the set. Each group is paired
    with the counterpart that differs in the fewest respects, then of its own set, then the newest.
    """
    sides: dict[tuple[object, ...], tuple[list[Group], list[Group]]] = {}
    for group in groups:
        pair = sides.setdefault(group.key.only("parity"), ([], []))
        pair[0 if group.key.framework == "paddle" else 1].append(group)
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
    unlike = unlike_in_parity(paddle, pytorch)
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
    ratio = None
    if not unlike and paddle.spread and pytorch.spread:
        ratio = paddle.spread.median / pytorch.spread.median
    return Parity(
        paddle=paddle, pytorch=pytorch, ratio=ratio, not_comparable=unlike, notes=tuple(notes)
    )


def _nearness(group: Group, other: Group) -> tuple[object, ...]:
    """Order of possible counterparts: the greater, the better."""
    same_set = group.key.set_name == other.key.set_name
    same_impl = group.plan.impl == other.plan.impl
    return (-len(unlike_in_parity(group, other)), same_impl, same_set, other.latest, other.key)


def unlike_in_parity(one: Group, two: Group, *, is_alike: bool = False) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups of one case, of whatever framework and program.

    ``is_alike``: they are of one program, planned alike: only what is known to differ counts, and
    a GPU that nobody knows.
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
    formats = [arithmetic(g.plan, g.precision_effective, g.key.gpu_model) for g in (one, two)]
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
        id_of(name)
        for name in fields_for("ratio")
        if getattr(one.key, name) != getattr(two.key, name)
    ]
    return tuple(unlike)


def _unlike_arithmetic(one: Group, two: Group, *, is_alike: bool) -> bool:
    """Whether the operations' types differ, or may differ, in one precision.

    In FP32 all are FP32, whether a program states them or not; what AMP leaves in FP32 is known
    only where it is stated.
    """
    if one.arithmetic is None or two.arithmetic is None:
        return not is_alike and one.precision_effective == "amp"
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
