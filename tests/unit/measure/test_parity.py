"""Paddle : PyTorch: a ratio of equal things only, and what is not equal named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.measure.group.grouping import groups
from k8sbench.measure.group.ratios import parities
from k8sbench.model.group import Parity
from k8sbench.model.measurement import Arithmetic, arithmetic_digest
from k8sbench.model.spec import Fingerprint
from tests.unit.measure.support import NOT_COMPARABLE
from tests.unit.report.factory import V100_32, repeats, run

MODEL = Fingerprint(model="same", parameters=26_000_000, gmac=4.0, input="3×224×224")
PADDLE: dict[str, Any] = {"framework": "paddle", "variant": "ps", "image": "paddle:2"}


def pair(paddle: dict[str, Any] | None = None, pytorch: dict[str, Any] | None = None) -> Parity:
    base: dict[str, Any] = {"fingerprint": MODEL}
    made = groups(
        [run(900.0, **(base | PADDLE | (paddle or {}))), run(1000.0, **(base | (pytorch or {})))]
    )
    (found,) = parities(made)
    return found


def test_equal_things_have_a_ratio_whatever_their_images_and_sets() -> None:
    assert pair().ratio == pytest.approx(0.9)
    found = pair({"set_name": "paddles"})
    assert found.ratio == pytest.approx(0.9)
    assert found.notes == ("sets paddles : set-a",)


def test_a_ratio_of_unlike_speed_options_names_them() -> None:
    found = pair({"options": {"workers": 8, "recipe": "x"}}, {"options": {"compile": True}})
    assert found.ratio == pytest.approx(0.9)
    assert found.notes == ("speed options workers 8 : compile",)
    assert pair(pytorch={"options": {"tf32": False}}).notes == ("speed options none : no tf32",)
    assert pair({"data": "synthetic-host"}).not_comparable == ("data",)


DIFFER: dict[str, dict[str, Any]] = {
    "device": {"measured": {"gpu_model": V100_32}},
    "no-figure": {"measured": {"verdict": "rejected", "throughput": None}},
    "model": {"fingerprint": msgspec.structs.replace(MODEL, gmac=5.0)},
    "precision": {"measured": {"precision_effective": "amp"}},
    "estimator": {"measured": {"estimator": "median"}},
    "batch": {"batch_size": 64},
    "data": {"data": "pvc:imagenet"},
    "backend": {"backend": "local"},
    "mode": {"mode": "train"},
}


def test_bandwidths_have_no_parity() -> None:
    made = groups([run(1.0, unit="GB", **side) for side in ({}, PADDLE)])
    assert parities(made) == []


def test_a_side_of_unsteady_runs_has_no_ratio() -> None:
    unsteady = repeats((100.0, 115.0, 135.0), fingerprint=MODEL, **PADDLE)
    (found,) = parities(groups([*unsteady, run(110.0, fingerprint=MODEL)]))
    assert (found.ratio, found.not_comparable) == (None, ("no-figure",))


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize("name", DIFFER)
def test_one_difference_and_there_is_no_ratio_but_its_id(name: str, side: str) -> None:
    found = pair(**{side: DIFFER[name]})
    assert found.ratio is None
    assert found.not_comparable == (name,)


@pytest.mark.parametrize(
    "model",
    [
        {"fingerprint": None},
        {"measured": {"parameters": 11_000_000}},
        {"fingerprint": msgspec.structs.replace(MODEL, parameters=27_000_000)},
    ],
)
def test_a_model_that_is_another_or_not_known_has_no_ratio(model: dict[str, Any]) -> None:
    assert pair(model).not_comparable == ("model",)


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize(("parameters", "same"), [(25_974_000, True), (25_973_999, False)])
def test_models_are_the_same_up_to_a_thousandth_of_the_larger(
    side: str, parameters: int, same: bool
) -> None:
    """The other one has 26,000,000 parameters."""
    models = {"paddle": MODEL, "pytorch": MODEL}
    models = {
        name: msgspec.structs.replace(model, parameters=parameters if name == side else 26_000_000)
        for name, model in models.items()
    }
    found = pair(*({"fingerprint": model} for model in models.values()))
    assert found.not_comparable == (() if same else ("model",))


@pytest.mark.parametrize("side", [{}, PADDLE])
def test_a_gpu_is_not_set_against_a_cpu(side: dict[str, Any]) -> None:
    other = {} if side else PADDLE
    assert parities(groups([run(900.0, device="cpu", **side), run(900.0, **other)])) == []


HALF = {"conv": "float16", "depthwise_conv": "float16", "loss": "float32", "resize": "float16"}


def stated(by: str = "seen", **types: str) -> Arithmetic:
    found = HALF | types
    return Arithmetic(types=found, digest=arithmetic_digest(found), by=by)  # type: ignore[arg-type]


def amp(arithmetic: Arithmetic | None) -> dict[str, Any]:
    """A side in mixed precision whose runs state this."""
    return {"precision": "amp", "amp_dtype": "fp16", "measured": {"arithmetic": arithmetic}}


def test_a_ratio_in_amp_is_of_one_arithmetic() -> None:
    found = pair(amp(stated(by="derived")), amp(stated()))
    assert found.ratio == pytest.approx(0.9)
    assert (found.not_comparable, found.notes) == ((), ())


def test_kinds_of_operations_in_other_types_forbid_a_ratio_and_are_named() -> None:
    ours = stated(resize="float32", depthwise_conv="1 float16 + 4 float32", pool="float32")
    for sides in (ours, stated()), (stated(), ours):
        found = pair(*map(amp, sides))
        assert found.ratio is None
        assert found.not_comparable == ("arithmetic",)
        values = [("1 float16 + 4 float32", "float16"), ("float32", "none"), ("float32", "float16")]
        values = values if sides[0] is ours else [(two, one) for one, two in values]
        named = zip(("depthwise_conv", "pool", "resize"), values, strict=True)
        shown = ", ".join(f"{kind} {one} : {two}" for kind, (one, two) in named)
        assert found.notes == (f"arithmetic differs in {shown}",)


@pytest.mark.parametrize(
    ("paddle", "pytorch", "who"),
    [
        (None, stated(), "Paddle"),
        (stated(), None, "PyTorch"),
        (None, None, "Paddle and PyTorch"),
    ],
)
def test_what_amp_leaves_in_fp32_must_be_stated(
    paddle: Arithmetic | None, pytorch: Arithmetic | None, who: str
) -> None:
    found = pair(amp(paddle), amp(pytorch))
    assert (found.ratio, found.not_comparable) == (None, ("arithmetic",))
    assert found.notes == (f"arithmetic not stated by {who}",)


def test_in_fp32_all_is_fp32_whether_it_is_stated_or_not() -> None:
    whole = {"measured": {"arithmetic": stated(**dict.fromkeys(HALF, "float32"))}}
    for sides in ((whole, {}), ({}, whole), (whole, whole), ({}, {})):
        found = pair(*sides)
        assert found.ratio == pytest.approx(0.9)
        assert found.notes == ()
    # What is stated counts, whatever the precision is called.
    found = pair(whole, {"measured": {"arithmetic": stated()}})
    assert found.not_comparable == ("arithmetic",)


def test_repeats_of_unlike_arithmetic_have_none() -> None:
    fp16 = amp(stated())
    runs = [run(900.0, repeat=1, **fp16), run(901.0, repeat=2, **fp16)]
    (alike,) = groups(runs)
    assert alike.arithmetic == stated()
    runs[1] = run(901.0, repeat=2, **amp(stated(resize="float32")))
    (unlike,) = groups(runs)
    assert unlike.arithmetic is None
    assert unlike.missing["arithmetic"] == "the runs state different ones"
    (unstated,) = groups([run(900.0, **amp(None))])
    assert unstated.missing["arithmetic"] == "the runs do not state it"


def test_amp_types_are_precisions() -> None:
    fp16 = amp(stated())
    assert pair(fp16, fp16).ratio is not None
    assert pair(fp16, fp16 | {"amp_dtype": "bf16"}).not_comparable == ("precision",)


def test_each_group_is_paired_with_the_counterpart_it_has_least_against() -> None:
    runs = [
        run(900.0, **PADDLE),
        run(1000.0),
        run(1000.0, batch_size=64),
        run(1000.0, set_name="older", at=1.0),
    ]
    found = parities(groups(runs))
    paddles = {pair.paddle.key.id for pair in found}
    assert len(paddles) == 1
    assert [(p.pytorch.key.batch_size, p.pytorch.key.set_name) for p in found] == [
        (64, "set-a"),
        (128, "older"),
        (128, "set-a"),
    ]
    assert [p.ratio is None for p in found] == [True, False, False]
    other = run(900.0, batch_size=64, **PADDLE)
    batches = [
        (p.paddle.key.batch_size, p.pytorch.key.batch_size)
        for p in parities(groups([*runs[:3], other]))
    ]
    assert sorted(batches) == [(64, 64), (128, 128)]


def test_another_program_is_named_beside_the_ratio() -> None:
    found = pair({"impl": "upstream", "trainer": None, "trainers_digest": None})
    assert found.ratio is not None
    assert found.notes == ("impl upstream : k8sbench",)


def test_every_id_is_in_the_table() -> None:
    used = {*DIFFER, "smoke", "cpu", "case", "gpu-model", "arithmetic", "benchmark"}
    used |= {"metric", "target", "weights", "length"}  # of an accuracy beside a published one
    assert used == set(NOT_COMPARABLE)
