"""Which types Paddle's operations have: seen while they run, or derived from its lists.

Paddle 2.6 leaves mixed precision off on CPUs. There the types are derived by its own rule of level
O1 over the operations of the FP32 run: an operation on the white list computes in half precision,
one on the black list in FP32, and any other in FP32 as soon as one of its inputs is FP32, as
parameters are. It is not known which operations lack a half-precision kernel on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import paddle
from paddle import _C_ops
from paddle.amp.auto_cast import _update_list
from paddle.base import core

from k8sbench.trainers.parts.arithmetic import Tally

Tensor = core.eager.Tensor
# Functions of Paddle's C++ side, by name. The function `add` adds the bias of a convolution or a
# product; layers that are added are by the operator.
KINDS = {
    **dict.fromkeys(("conv2d", "add"), "conv"),
    "depthwise_conv2d": "depthwise_conv",
    **dict.fromkeys(("matmul", "linear"), "matmul"),
    **dict.fromkeys(("batch_norm", "batch_norm_", "sync_batch_norm_"), "norm"),
    **dict.fromkeys(("pool2d", "max_pool2d_with_index"), "pool"),
    "bilinear_interp": "resize",
    **dict.fromkeys(("relu", "relu_", "prelu"), "activation"),
    **dict.fromkeys(("__add__", "__radd__"), "add"),
    "concat": "concat",
    **dict.fromkeys(("cross_entropy_with_softmax", "margin_cross_entropy"), "loss"),
}
OPERATORS = {
    **dict.fromkeys(("__add__", "__radd__"), "elementwise_add"),
    **dict.fromkeys(("__sub__", "__rsub__"), "elementwise_sub"),
    **dict.fromkeys(("__mul__", "__rmul__"), "elementwise_mul"),
    **dict.fromkeys(("__truediv__", "__rtruediv__"), "elementwise_div"),
}
# Functions whose name on the lists is another.
LISTED = {
    **OPERATORS,
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "divide": "elementwise_div",
    "matmul": "matmul_v2",
    "bilinear_interp": "bilinear_interp_v2",
    "nearest_interp": "nearest_interp_v2",
    "batch_norm_": "batch_norm",
    "sync_batch_norm_": "sync_batch_norm",
    "cross_entropy_with_softmax": "softmax_with_cross_entropy",
    "mean": "reduce_mean",
    "mean_all": "mean",
    "sum": "reduce_sum",
    "prod": "reduce_prod",
}
# Of the tensors themselves; the last passes its tensor on, as another object.
METHODS = (*OPERATORS, "_use_gpudnn")
BY_FIRST_INPUT = ("batch_norm", "sync_batch_norm", "layer_norm")
FLOATS = ("float16", "bfloat16", "float32", "float64")


class Rule:
    """Paddle's rule of the types at level O1, with a trainer's additions to its lists."""

    def __init__(self, half: str, **lists: Any) -> None:
        self.half = half
        self.white, self.black = _update_list(
            lists.get("custom_white_list"), lists.get("custom_black_list"), "O1", half
        )
        self.off = 0
        self.missed: set[str] = set()  # functions whose input was computed unseen
        self._types: dict[int, str] = {}
        self._kept: list[Any] = []  # so that no tensor takes the id of another

    def result(self, name: str, inputs: Iterable[Any], outputs: Iterable[Any]) -> str | None:
        """The type that the function `name` would compute in; None if it computes no floats."""
        outputs = [each for each in outputs if _type(each) in FLOATS]
        if not outputs:
            return None
        floats = []
        for each in inputs:
            if (real := _type(each)) in FLOATS:
                if not each.is_leaf and id(each) not in self._types:
                    self.missed.add(name)
                floats.append(self._types.get(id(each), real))
        found = self._type(LISTED.get(name, name), floats, _type(outputs[0]))
        for each in outputs:
            self._types[id(each)] = found
            self._kept.append(each)
        return found

    def _type(self, listed: str, floats: list[str], real: str) -> str:
        if listed == "cast" or not floats:
            return real
        if not self.off and listed in self.white:
            return self.half
        if not self.off and listed in self.black:
            return "float32"
        if listed in BY_FIRST_INPUT:
            return floats[0]
        return "float32" if "float32" in floats else floats[0]

    def auto_cast(self, enable: bool = True, **_: Any) -> Any:
        """Stands for `paddle.amp.auto_cast` in the model, which may switch it off."""
        return contextlib.nullcontext() if enable else self._switched_off()

    @contextlib.contextmanager
    def _switched_off(self) -> Iterator[None]:
        self.off += 1
        try:
            yield
        finally:
            self.off -= 1


@contextlib.contextmanager
def watch(tally: Tally, rule: Rule | None = None) -> Iterator[None]:
    """Count the operations that run inside, by the types that they have or, by `rule`, would have.

    Afterwards nothing is left of it: Paddle's functions are its own again.
    """

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            result = call(*args, **named)
            outputs = list(_tensors(result))
            if rule is not None:
                type_ = rule.result(name, _tensors((*args, *named.values())), outputs)
            else:
                type_ = next(filter(FLOATS.__contains__, map(_type, outputs)), None)
            kind = KINDS.get(name)
            if kind is not None and type_ is not None:
                tally.add(kind, type_)
            return result

        return run

    places = [(_C_ops, name) for name in dir(_C_ops) if not name.startswith("_")]
    places += [(Tensor, name) for name in METHODS]
    with contextlib.ExitStack() as stack:
        for where, name in places:
            call = getattr(where, name)
            if callable(call):
                setattr(where, name, counted(name, call))
                stack.callback(setattr, where, name, call)
        if rule is not None:
            stack.callback(setattr, paddle.amp, "auto_cast", paddle.amp.auto_cast)
            paddle.amp.auto_cast = rule.auto_cast
        yield


def _tensors(value: Any) -> Iterator[Any]:
    """All tensors in what a function takes or gives."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _type(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]
