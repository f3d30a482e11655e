"""Under AMP a run states its model's half-precision operations, truthfully."""

import importlib
from collections import Counter
from typing import Any

import pytest

from k8sbench.model.measurement import arithmetic_digest
from k8sbench.trainers.parts.events import statement
from tests.trainers import operation_types
from tests.trainers.checks import MATCHED, run, stated

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
frameworks = pytest.mark.tier("frameworks")

SHORT = (
    *("--crop", "32x32", "--classes", "4", "--batch-size", "2"),
    *("--warmup", "0", "--iterations", "1"),
)
# Functions of Paddle, by name; `add` adds the bias of a convolution.
KINDS = {
    **dict.fromkeys(("conv2d", "add"), "conv"),
    "depthwise_conv2d": "depthwise_conv",
    "batch_norm": "norm",
    "pool2d": "pool",
    "bilinear_interp": "resize",
    "relu": "activation",
    "__add__": "add",
    "concat": "concat",
    "cross_entropy_with_softmax": "loss",
}
# In FP32 as their parameters are, unless they are on the white list; batch norm, too, has
# parameters, but its type is that of its first input.
WITH_PARAMETERS = ("add", "depthwise_conv2d")
# Those whose name on AMP's lists is another.
LISTED = {
    **dict.fromkeys(("add", "__add__"), "elementwise_add"),
    "bilinear_interp": "bilinear_interp_v2",
    "cross_entropy_with_softmax": "softmax_with_cross_entropy",
}


def test_a_statement_has_the_types_and_a_digest_that_is_equal_where_they_are() -> None:
    found = statement({"b": "1 {half} + 2 float32", "a": "{half}"}, "bf16")
    types = {"a": "bfloat16", "b": "1 bfloat16 + 2 float32"}
    assert found == {"by": "derived", "digest": arithmetic_digest(types), "types": types}


@frameworks
@pytest.mark.parametrize(("amp", "half"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_pytorch_computes_in_the_types_that_it_states(
    amp: str, half: str, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = operation_types.watched(monkeypatch.setattr)
    found = run(capfd, "deeplabv3p_pytorch", *SHORT, "--amp-dtype", amp)
    wanted = {kind: types.replace("float16", half) for kind, types in MATCHED.items()}
    assert operation_types.types(seen) == stated(found)["types"] == wanted


@frameworks
@pytest.mark.parametrize("options", [("--amp-dtype", "none"), ("--amp-dtype", "bf16", "--compile")])
def test_nothing_is_stated_in_fp32_nor_of_a_compiled_model(
    options: tuple[str, ...], capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling joins operations, which then keep other types in between."""
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch.nn.Module, "compile", lambda _: None)
    assert stated(run(capfd, "deeplabv3p_pytorch", *SHORT, *options)) == {}


@frameworks
def test_paddles_matched_recipe_equals_pytorch(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU Paddle leaves AMP off; its lists decide here.

    The white list is in half precision, the black one in FP32; other operations follow their
    inputs.
    """
    called = operation_types.called_in_paddle(monkeypatch.setattr)
    found = run(capfd, "deeplabv3p_paddle", "--recipe", "matched", *SHORT)
    assert stated(found) == {}

    from k8sbench.trainers import deeplabv3p_paddle

    listed = deeplabv3p_paddle.AMP_LISTS["matched"]["custom_white_list"]
    update = importlib.import_module("paddle.amp.auto_cast")._update_list
    white, black = update(listed, None, "O1", "float16")
    seen: operation_types.Seen = Counter()
    follows = "float16"
    for name, amp in called:
        on_list = LISTED.get(name, name)
        if amp and on_list in white:
            follows = "float16"
        elif amp and (on_list in black or name in WITH_PARAMETERS):
            follows = "float32"
        if name in KINDS:
            seen[KINDS[name], follows if amp else "float32"] += 1
    assert operation_types.types(seen) == MATCHED
