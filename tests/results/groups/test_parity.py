"""Paddle : PyTorch ratios of equal cases; differences are named."""

from typing import Any

import msgspec
import pytest

from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.group import Parity
from k8sbench.model.measurement import Arithmetic, arithmetic_digest
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.ratios import parities
from tests.results.report.factory import V100_32, run
from tests.results.said import text, texts

MODEL = Fingerprint(model="same", parameters=26_000_000, gmac=4.0, input="3×224×224")
PADDLE: dict[str, Any] = {"framework": "paddle", "variant": "ps", "image": "paddle:2"}


def pair(paddle: dict[str, Any] | None = None, pytorch: dict[str, Any] | None = None) -> Parity:
    base: dict[str, Any] = {"fingerprint": MODEL}
    made = groups(
        [run(900.0, **(base | PADDLE | (paddle or {}))), run(1000.0, **(base | (pytorch or {})))]
    )
    (found,) = parities(made)
    return found


NOTED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "nothing": ({}, {}, ()),
    "sets": ({"set_name": "paddles"}, {}, ("sets paddles : set-a",)),
    "speed options": (
        {"options": {"workers": 8, "recipe": "x"}},
        {"options": {"compile": True}},
        ("speed options workers 8 : compile",),
    ),
    "a switch off": ({}, {"options": {"tf32": False}}, ("speed options none : no tf32",)),
    "another program": (
        {"impl": "upstream", "trainer": None, "trainers_digest": None},
        {},
        ("impl upstream : k8sbench",),
    ),
}


@pytest.mark.parametrize("name", NOTED)
def test_what_may_differ_is_named_beside_the_ratio(name: str) -> None:
    paddle, pytorch, notes = NOTED[name]
    found = pair(paddle, pytorch)
    assert found.ratio == pytest.approx(0.9)
    assert texts(found.notes) == notes


DIFFER: dict[str, dict[str, Any]] = {
    "device": {"measured": {"gpu_model": V100_32}},
    "no-figure": {"measured": {"verdict": "rejected", "throughput": None}},
    "model": {"fingerprint": msgspec.structs.replace(MODEL, gmac=5.0)},
    "no model": {"fingerprint": None},
    "another model in the log": {"measured": {"parameters": 11_000_000}},
    "precision": {"measured": {"precision_effective": "amp"}},
    "estimator": {"measured": {"estimator": "median"}},
    "batch": {"batch_size": 64},
    "data": {"data": "pvc:imagenet"},
    "data from the host": {"data": "synthetic-host"},
    "backend": {"backend": "local"},
    "mode": {"mode": "train"},
}


def test_programs_of_other_frameworks_have_no_parity() -> None:
    other = run(110.0)
    plan = msgspec.structs.replace(other.plan, framework="mxnet", backend="imported")
    found = groups([run(100.0, **PADDLE), msgspec.structs.replace(other, planned=plan)])
    assert parities(found) == []


def test_bandwidths_have_no_parity() -> None:
    made = groups([run(1.0, unit="GB", **side) for side in ({}, PADDLE)])
    assert parities(made) == []


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize("name", DIFFER)
def test_one_difference_and_there_is_no_ratio_but_its_id(name: str, side: str) -> None:
    found = pair(**{side: DIFFER[name]})
    assert found.ratio is None
    (unlike,) = found.not_comparable
    assert unlike in name


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize(("parameters", "same"), [(25_974_000, True), (25_973_999, False)])
def test_models_are_the_same_up_to_a_thousandth(side: str, parameters: int, same: bool) -> None:
    """The other one has 26,000,000 parameters."""
    other = {"fingerprint": msgspec.structs.replace(MODEL, parameters=parameters)}
    assert pair(**{side: other}).not_comparable == (() if same else ("model",))


HALF = {"conv": "float16", "depthwise_conv": "float16", "loss": "float32", "resize": "float16"}


def stated(by: str = "seen", **types: str) -> Arithmetic:
    found = HALF | types
    return Arithmetic(types=found, digest=arithmetic_digest(found), by=by)  # type: ignore[arg-type]


def amp(arithmetic: Arithmetic | None) -> dict[str, Any]:
    """A side in mixed precision whose runs state this."""
    return {"precision": "amp", "amp_dtype": "fp16", "measured": {"arithmetic": arithmetic}}


def test_two_programs_that_may_or_may_not_have_used_tf32_have_no_ratio() -> None:
    unstated: dict[str, Any] = {
        "impl": "upstream",
        "trainer": None,
        "trainers_digest": None,
        "measured": {"gpu_model": "NVIDIA A100-SXM4-40GB"},
    }
    found = pair(unstated, unstated)
    assert (found.ratio, found.not_comparable) == (None, ("precision",))
    stated = unstated | {"options": {"tf32": True}}
    assert pair(stated, stated).not_comparable == ()


def test_kinds_of_operations_in_other_types_forbid_a_ratio_and_are_named() -> None:
    ours = stated(resize="float32", depthwise_conv="1 float16 + 4 float32", pool="float32")
    found = pair(amp(ours), amp(stated()))
    assert (found.ratio, found.not_comparable) == (None, ("arithmetic",))
    kinds = (
        "depthwise_conv 1 float16 + 4 float32 : float16",
        "pool float32 : –",
        "resize float32 : float16",
    )
    assert texts(found.notes) == (f"arithmetic differs in {', '.join(kinds)}",)
    (note,) = pair(amp(stated()), amp(ours)).notes
    assert "pool – : float32" in text(note)


@pytest.mark.parametrize(
    ("paddle", "pytorch", "who"),
    [(None, stated(), "Paddle"), (stated(), None, "PyTorch"), (None, None, "Paddle and PyTorch")],
)
def test_amp_must_say_fp32(paddle: Arithmetic | None, pytorch: Arithmetic | None, who: str) -> None:
    found = pair(amp(paddle), amp(pytorch))
    assert (found.ratio, found.not_comparable) == (None, ("arithmetic",))
    assert texts(found.notes) == (f"types of AMP's operations not reported by {who}",)


def test_each_group_is_paired_with_the_counterpart_it_has_least_against() -> None:
    small, older = run(1000.0, batch_size=64), run(1000.0, set_name="older", at=1.0)
    runs = [run(900.0, **PADDLE), run(1000.0), small]
    found = parities(groups([*runs, older]))
    assert len({pair.paddle.key.id for pair in found}) == 1
    theirs = [(p.pytorch.key.batch_size, p.pytorch.key.set_name, p.ratio is None) for p in found]
    assert theirs == [(64, "set-a", True), (128, "older", False), (128, "set-a", False)]
    pairs = parities(groups([*runs, run(900.0, batch_size=64, **PADDLE)]))
    batches = [(p.paddle.key.batch_size, p.pytorch.key.batch_size) for p in pairs]
    assert sorted(batches) == [(64, 64), (128, 128)]
