"""A run states which kinds of operations had which type, and matched recipes state the same."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from k8sbench.model.measurement import arithmetic_digest
from k8sbench.trainers.parts.arithmetic import Tally, statement
from tests.trainers import paddle_runs, torch_runs
from tests.trainers.either_checks import KINDS, MATCHED, stated
from tests.trainers.torch_runs import only

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
frameworks = pytest.mark.tier("frameworks")

SMALL = ("--crop", "32x32", "--classes", "4", "--batch-size", "2")
SHORT = (*SMALL, "--warmup", "1", "--iterations", "1")
FP32 = dict.fromkeys(KINDS, "float32")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow networks of both frameworks."""
    paddle_runs.import_paddle()
    for made in (torch_runs.NARROW, paddle_runs.NARROW):
        exec(made, {"put": monkeypatch.setattr})


def pytorch(capfd: Any, *options: str) -> dict[str, Any]:
    return stated(torch_runs.run(capfd, "deeplabv3p_pytorch", *options))


def paddle(capfd: Any, recipe: str, *options: str) -> dict[str, Any]:
    return stated(paddle_runs.run(capfd, "deeplabv3p_paddle", "--recipe", recipe, *options))


def test_a_kind_has_its_type_or_the_numbers_of_each() -> None:
    tally = Tally()
    for kind, type_ in (("resize", "float32"), ("conv", "float16"), ("resize", "float16")):
        tally.add(kind, type_)
    tally.add("resize", "float32")
    assert list(tally.types().items()) == [
        ("conv", "float16"),
        ("resize", "1 float16 + 2 float32"),
    ]
    tally.forget()
    assert tally.types() == {}


def test_a_digest_is_equal_where_the_types_are() -> None:
    one = statement({"a": "float16", "b": "float32"}, by="seen")
    two = statement({"b": "float32", "a": "float16"}, by="derived")
    text = b'{"a":"float16","b":"float32"}'
    assert one["digest"] == two["digest"] == hashlib.sha256(text).hexdigest()[:16]
    assert one["digest"] == arithmetic_digest({"a": "float16", "b": "float32"})
    assert statement({"a": "float32", "b": "float32"}, by="seen")["digest"] != one["digest"]


@frameworks
def test_matched_in_amp_computes_in_the_types_of_pytorch(narrow: None, capfd: Any) -> None:
    seen = pytorch(capfd, *SHORT, "--amp-dtype", "fp16")
    derived = paddle(capfd, "matched", *SHORT, "--amp-dtype", "fp16")
    assert (seen["by"], derived["by"]) == ("seen", "derived")
    assert seen["types"] == derived["types"] == MATCHED
    assert seen["digest"] == derived["digest"]
    half = {kind: types.replace("float16", "bfloat16") for kind, types in MATCHED.items()}
    assert pytorch(capfd, *SHORT, "--amp-dtype", "bf16")["types"] == half
    assert paddle(capfd, "matched", *SHORT, "--amp-dtype", "bf16")["types"] == half


@frameworks
def test_in_fp32_all_is_fp32_and_seen(narrow: None, capfd: Any) -> None:
    for found in (
        pytorch(capfd, *SHORT),
        paddle(capfd, "matched", *SHORT),
        paddle(capfd, "paddleseg", *SHORT),
    ):
        assert (found["by"], found["types"]) == ("seen", FP32)


@frameworks
def test_paddlesegs_own_lists_leave_more_in_fp32(narrow: None, capfd: Any) -> None:
    options = (*SHORT, "--amp-dtype", "fp16", "--no-channels-last")
    found = paddle(capfd, "paddleseg", *options)["types"]
    unlike = {kind: found[kind] for kind in KINDS if found[kind] != MATCHED[kind]}
    assert unlike == {
        "add": "float16",  # its one loss needs no sum
        "concat": "float32",
        "depthwise_conv": "float32",
        "resize": "float32",
    }


@frameworks
@pytest.mark.parametrize(
    ("left_out", "differs"),
    [
        ("depthwise_conv2d", {"depthwise_conv", "norm", "activation"}),
        ("bilinear_interp_v2", {"resize", "concat"}),
        ("elementwise_add", {"conv"}),
    ],
)
def test_each_addition_to_paddles_lists_is_needed(
    left_out: str, differs: set[str], narrow: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k8sbench.trainers import deeplabv3p_paddle

    white = deeplabv3p_paddle.AMP_LISTS["matched"]["custom_white_list"] - {left_out}
    lists = deeplabv3p_paddle.AMP_LISTS | {"matched": {"custom_white_list": white}}
    monkeypatch.setattr(deeplabv3p_paddle, "AMP_LISTS", lists)
    found = paddle(capfd, "matched", *SHORT, "--amp-dtype", "fp16")["types"]
    assert {kind for kind in KINDS if found[kind] != MATCHED[kind]} == differs


@frameworks
def test_without_a_warm_up_nothing_is_stated(narrow: None, capfd: Any) -> None:
    options = (*SMALL, "--warmup", "0", "--iterations", "2")
    assert pytorch(capfd, *options) == {}
    assert paddle(capfd, "matched", *options) == {}


@frameworks
def test_only_the_first_step_is_watched_and_nothing_is_left_of_it(
    narrow: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first step fails: what is hooked into PyTorch and Paddle is gone."""
    import paddle as framework
    from paddle import _C_ops
    from torch.overrides import _get_current_function_mode_stack

    from k8sbench.trainers.parts import paddle_arithmetic, steps, torch_arithmetic

    names = [(_C_ops, name) for name in dir(_C_ops)]
    names += [(paddle_arithmetic.Tensor, name) for name in paddle_arithmetic.METHODS]
    names += [(framework.amp, "auto_cast")]

    def hooked() -> list[Any]:
        return [getattr(where, name) for where, name in names]

    plain = hooked()
    seen: list[tuple[int, bool]] = []
    done = steps.StepTimer.data_ready

    def data_ready(timer: Any) -> None:
        seen.append((counted[0], hooked() == plain and not _get_current_function_mode_stack()))
        done(timer)

    counted = [0]
    add = Tally.add

    def count(tally: Any, kind: str, type_: str) -> None:
        counted[0] += 1
        add(tally, kind, type_)

    monkeypatch.setattr(steps.StepTimer, "data_ready", data_ready)
    monkeypatch.setattr(Tally, "add", count)
    options = (*SMALL, "--warmup", "1", "--iterations", "2")
    for trainer, more in (
        ("deeplabv3p_pytorch", ()),
        ("deeplabv3p_paddle", ("--recipe", "matched", "--amp-dtype", "fp16")),
    ):
        seen.clear()
        counted[0] = 0
        assert stated(torch_runs.run(capfd, trainer, *options, *more))
        first, *others = seen
        assert first == (0, True)
        assert others == [(others[0][0], True)] * 2
        assert others[0][0] > 100

    for watch in (torch_arithmetic.Watch(Tally()), paddle_arithmetic.watch(Tally())):
        with pytest.raises(RuntimeError, match="stop"), watch:
            raise RuntimeError("stop")
        assert hooked() == plain
        assert not _get_current_function_mode_stack()


@frameworks
def test_a_compiled_model_states_nothing(narrow: None, capfd: Any) -> None:
    """Compiling joins operations, which then keep other types in between."""
    import contextlib
    import types

    from k8sbench.trainers.parts.loop import Loop

    def noting(*, compiled: bool, step: int, warmup: int) -> bool:
        run = types.SimpleNamespace(
            timer=types.SimpleNamespace(steps=step),
            plan=types.SimpleNamespace(warmup=warmup, done=0),
            here=types.SimpleNamespace(settings=types.SimpleNamespace(compile=compiled)),
            _noting=lambda: "noted",
        )
        found: Any = Loop.noting(run)  # type: ignore[arg-type]
        assert found == "noted" or isinstance(found, contextlib.nullcontext)
        return found == "noted"

    assert noting(compiled=False, step=0, warmup=1)
    assert not noting(compiled=True, step=0, warmup=1)
    assert not noting(compiled=False, step=1, warmup=2)
    assert not noting(compiled=False, step=0, warmup=0)


@frameworks
def test_paddles_rule_is_by_lists_then_by_inputs() -> None:
    paddle_runs.import_paddle()
    import paddle as framework

    from k8sbench.trainers.parts.paddle_arithmetic import Rule

    rule = Rule("float16", custom_white_list={"depthwise_conv2d"})
    weight, labels = framework.ones([1]), framework.ones([1], dtype="int64")

    def result(name: str, *inputs: Any) -> Any:
        output = framework.ones([1])
        return rule.result(name, inputs, [output]), output

    white, half = result("conv2d", weight, weight)
    assert white == "float16"
    assert result("depthwise_conv2d", weight, weight)[0] == "float16"
    black, whole = result("bilinear_interp", half)
    assert black == "float32"
    assert result("relu", half)[0] == "float16"
    assert result("concat", half, whole)[0] == "float32"
    assert result("add", half, weight)[0] == "float32"  # as parameters are
    assert result("batch_norm", half, weight)[0] == "float16"  # by its first input alone
    assert result("batch_norm", whole, weight)[0] == "float32"
    assert result("cast", half)[0] == "float32"
    assert result("gather", half, labels)[0] == "float16"
    assert rule.result("topk", [half], [labels]) is None
    with rule.auto_cast(enable=False):
        assert result("conv2d", whole, weight)[0] == "float32"
        assert result("bilinear_interp", half)[0] == "float16"
    with rule.auto_cast():
        assert result("conv2d", weight, weight)[0] == "float16"
    assert rule.missed == set()


@frameworks
def test_what_was_computed_unseen_leaves_nothing_to_derive(
    narrow: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method of tensors that is not watched would break the chain of types."""
    from k8sbench.trainers.parts import paddle_arithmetic

    methods = tuple(name for name in paddle_arithmetic.METHODS if name != "_use_gpudnn")
    monkeypatch.setattr(paddle_arithmetic, "METHODS", methods)
    assert paddle(capfd, "matched", *SHORT, "--amp-dtype", "fp16") == {}
    assert paddle(capfd, "matched", *SHORT)["types"] == FP32


@frameworks
def test_other_trainers_state_theirs(narrow: None, capfd: Any) -> None:
    short = ("--warmup", "1", "--iterations", "1", "--batch-size", "2", "--amp-dtype", "fp16")
    options = ("--input-size", "32", "--classes", "10", *short)
    found = torch_runs.run(capfd, "resnet50", *options)
    kinds = ("activation", "add", "conv", "matmul", "norm", "pool")
    assert stated(found)["types"] == dict.fromkeys(kinds, "float16") | {"loss": "float32"}
    assert only(found, "environment")[1]["rank"] == 0
