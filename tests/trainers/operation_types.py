"""Operations of DeepLabV3+, and on PyTorch their types, recorded while training."""

import contextlib
import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

# Functions of PyTorch, by name; convolutions are told apart by their weight.
KINDS = {
    "conv2d": "conv",
    "batch_norm": "norm",
    **dict.fromkeys(("_max_pool2d", "max_pool2d", "adaptive_avg_pool2d"), "pool"),
    "interpolate": "resize",
    **dict.fromkeys(("relu", "relu_"), "activation"),
    **dict.fromkeys(("add", "add_", "__add__", "__iadd__"), "add"),
    "cat": "concat",
    "cross_entropy": "loss",
}
Seen = Counter[tuple[str, str]]


def train(trainer: str, *options: str) -> None:
    """Run a PyTorch trainer, and print what :func:`types` gives as the last line."""
    seen = watched(setattr)
    importlib.import_module(f"k8sbench.trainers.{trainer}").main(list(options))
    print(json.dumps(types(seen)))


def watched(put: Callable[[Any, str, Any], None]) -> Seen:
    """Count operations by kind and type of all losses from now on."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    from k8sbench.trainers.models import deeplabv3plus_torch

    seen: Seen = Counter()

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            kind = KINDS.get(getattr(func, "__name__", ""))
            if kind is not None and isinstance(result, Tensor) and result.is_floating_point():
                if kind == "conv" and args[1].shape[1] == 1:
                    kind = "depthwise_conv"
                seen[kind, str(result.dtype).removeprefix("torch.")] += 1
            return result

    whole = deeplabv3plus_torch.losses

    def losses(*given: Any) -> Any:
        with Watch():
            return whole(*given)

    put(deeplabv3plus_torch, "losses", losses)
    return seen


def called_in_paddle(put: Callable[[Any, str, Any], None]) -> list[tuple[str, bool]]:
    """Record Paddle's function calls of losses, and if AMP was on."""
    import paddle

    from k8sbench.trainers import deeplabv3p_paddle

    called: list[tuple[str, bool]] = []
    on = [False]

    @contextlib.contextmanager
    def auto_cast(*, enable: bool) -> Iterator[None]:
        on.append(enable)
        yield
        on.pop()

    def noted(where: Any, name: str) -> None:
        call = getattr(where, name)

        def run(*given: Any, **more: Any) -> Any:
            called.append((name, on[-1]))
            return call(*given, **more)

        put(where, name, run)

    def losses(*given: str) -> Any:
        made = whole(*given)

        def run(*arguments: Any) -> Any:
            with auto_cast(enable=True):
                return made(*arguments)

        return run

    whole = deeplabv3p_paddle.losses
    put(deeplabv3p_paddle, "losses", losses)
    put(paddle.amp, "auto_cast", auto_cast)
    for name in dir(paddle._C_ops):
        if not name.startswith("_"):
            noted(paddle._C_ops, name)
    noted(paddle.base.core.eager.Tensor, "__add__")
    return called


def types(seen: Seen) -> dict[str, str]:
    """Each kind's type, or how many operations have each."""
    found: dict[str, list[tuple[str, int]]] = {}
    for (kind, type_), count in sorted(seen.items()):
        found.setdefault(kind, []).append((type_, count))
    return {
        kind: made[0][0]
        if len(made) == 1
        else " + ".join(f"{count} {type_}" for type_, count in made)
        for kind, made in found.items()
    }
