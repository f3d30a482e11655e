"""Which types PyTorch's operations have, seen while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from k8sbench.trainers.parts.arithmetic import Tally

# Functions of PyTorch, by name; convolutions are told apart by their weight.
KINDS = {
    **dict.fromkeys(("conv1d", "conv2d"), "conv"),
    **dict.fromkeys(("linear", "matmul", "mm"), "matmul"),
    **dict.fromkeys(("batch_norm", "batch_norm_elemt"), "norm"),
    **dict.fromkeys(("_max_pool2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"), "pool"),
    "interpolate": "resize",
    **dict.fromkeys(("relu", "relu_"), "activation"),
    **dict.fromkeys(("add", "add_", "__add__", "__iadd__"), "add"),
    **dict.fromkeys(("cat", "concat"), "concat"),
    "cross_entropy": "loss",
}


class Watch(TorchFunctionMode):
    """As a context it counts the operations of its thread; outside of it nothing is left of it."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, and count it if its kind is counted."""
        result = func(*args, **(kwargs or {}))
        kind = KINDS.get(getattr(func, "__name__", ""))
        if kind is not None and isinstance(result, Tensor) and result.is_floating_point():
            if kind == "conv" and args[1].shape[1] == 1:
                kind = "depthwise_conv"
            self.tally.add(kind, str(result.dtype).removeprefix("torch."))
        return result
