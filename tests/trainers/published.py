"""ResNet-50's published weights, as upstream's own programs name and use them.

The names and shapes are those of mmsegmentation's ResNetV1c, torchvision's ResNet and PaddleSeg's
ResNet_vd; the numbers are drawn. `features` computes from them, by name,
what those programs compute.
"""

import io
import pathlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

DEPTHS, WIDTHS = (3, 4, 6, 3), (64, 128, 256, 512)
Tensors = dict[str, Any]


class Names(NamedTuple):
    """A publisher's names of a convolution and its norm, by their place."""

    stem: Callable[[int], tuple[str, str]]
    block: Callable[[int, int, int | None], tuple[str, str]]  # stage, block, part (None: shortcut)
    mean: str = "running_mean"
    variance: str = "running_var"
    classifier: str = "fc"
    stems: int = 3
    transposed: bool = False


def _torch(stage: int, block: int, part: int | None) -> tuple[str, str]:
    at = f"layer{stage + 1}.{block}."
    if part is None:
        return f"{at}downsample.0", f"{at}downsample.1"
    return f"{at}conv{part + 1}", f"{at}bn{part + 1}"


def _paddleseg(stage: int, block: int, part: int | None) -> tuple[str, str]:
    at = f"bb_{stage}_{block}." + ("short" if part is None else f"conv{part}")
    return f"{at}._conv", f"{at}._batch_norm"


NAMES = {
    "mmseg": Names(lambda at: (f"stem.{3 * at}", f"stem.{3 * at + 1}"), _torch),
    "torchvision": Names(lambda _: ("conv1", "bn1"), _torch, stems=1),
    "paddleseg": Names(
        lambda at: (f"conv1_{at + 1}._conv", f"conv1_{at + 1}._batch_norm"),
        _paddleseg,
        "_mean",
        "_variance",
        "out",
        transposed=True,
    ),
}


def units(names: Names, divisor: int) -> Iterator[tuple[tuple[str, str], tuple[int, ...]]]:
    """Names and shape of each convolution."""
    widths = [width // divisor for width in WIDTHS]
    first = widths[0]
    if names.stems == 1:
        yield names.stem(0), (first, 3, 7, 7)
    else:
        for at, (inputs, outputs) in enumerate(((3, first // 2), (first // 2,) * 2)):
            yield names.stem(at), (outputs, inputs, 3, 3)
        yield names.stem(2), (first, first // 2, 3, 3)
    inputs = first
    for stage, (depth, width) in enumerate(zip(DEPTHS, widths, strict=True)):
        for block in range(depth):
            yield names.block(stage, block, 0), (width, inputs, 1, 1)
            yield names.block(stage, block, 1), (width, width, 3, 3)
            yield names.block(stage, block, 2), (4 * width, width, 1, 1)
            if block == 0:
                yield names.block(stage, block, None), (4 * width, inputs, 1, 1)
            inputs = 4 * width


def tensors(kind: str, divisor: int = 8, classes: int = 10) -> Tensors:
    """A published file's tensors, with a classifier."""
    names, random = NAMES[kind], np.random.default_rng(7)
    found: Tensors = {}
    for (convolution, norm), shape in units(names, divisor):
        spread = np.float32((2 / np.prod(shape[1:])) ** 0.5)
        found[f"{convolution}.weight"] = random.standard_normal(shape, np.float32) * spread
        for leaf in ("weight", "bias", names.mean, names.variance):
            found[f"{norm}.{leaf}"] = random.random(shape[0], np.float32) * np.float32(0.5) + (
                np.float32(0.5) if leaf in {"weight", names.variance} else np.float32(-0.2)
            )
        if not names.transposed:
            found[f"{norm}.num_batches_tracked"] = np.array(3)
    width = 4 * WIDTHS[-1] // divisor
    classifier = random.standard_normal((classes, width), np.float32)
    found[f"{names.classifier}.weight"] = classifier.T if names.transposed else classifier
    found[f"{names.classifier}.bias"] = random.standard_normal(classes, np.float32)
    return found


def features(
    kind: str,
    found: Tensors,
    images: Any,
    strides: tuple[int, ...],
    dilations: tuple[tuple[int, ...], ...],
    *,
    averaged: bool = False,
) -> list[Any]:
    """Return the four stages' outputs of images [N, 3, H, W] in evaluation.

    `dilations` of each stage's blocks; `averaged`: a shortcut with a stride has it in an average.
    """
    import torch
    from torch.nn import functional

    names = NAMES[kind]
    held = {name: torch.from_numpy(np.array(each)) for name, each in found.items()}

    def unit(at: tuple[str, str], x: Any, stride: int = 1, dilation: int = 1) -> Any:
        weight = held[f"{at[0]}.weight"]
        padding = dilation * (weight.shape[-1] - 1) // 2
        x = functional.conv2d(x, weight, None, stride, padding, dilation)
        norm = [held[f"{at[1]}.{leaf}"] for leaf in (names.mean, names.variance, "weight", "bias")]
        return functional.batch_norm(x, *norm)

    x = torch.from_numpy(images)
    for at in range(names.stems):
        x = functional.relu(unit(names.stem(at), x, stride=2 if at == 0 else 1))
    x = functional.max_pool2d(x, 3, 2, 1)
    outputs = []
    for stage, depth in enumerate(DEPTHS):
        for block in range(depth):
            stride = strides[stage] if block == 0 else 1
            beside = x
            if block == 0:
                if averaged and stride > 1:
                    beside = functional.avg_pool2d(x, 2, 2, ceil_mode=True)
                projected = 1 if averaged else stride
                beside = unit(names.block(stage, block, None), beside, projected)
            inside = functional.relu(unit(names.block(stage, block, 0), x))
            inside = functional.relu(
                unit(names.block(stage, block, 1), inside, stride, dilations[stage][block])
            )
            x = functional.relu(unit(names.block(stage, block, 2), inside) + beside)
        outputs.append(x)
    return outputs


def write(path: pathlib.Path, found: Tensors) -> pathlib.Path:
    """The file as it is published, a .pdparams or a .pth."""
    if path.suffix == ".pdparams":
        # As paddle.save writes a layer's state: arrays, and a table of Paddle's own names.
        table = {name: name.replace(".", "_") for name in found}
        path.write_bytes(pickle.dumps({**found, "StructuredToParameterName@@": table}, protocol=2))
        return path
    import torch

    buffer = io.BytesIO()
    torch.save({name: torch.from_numpy(np.array(each)) for name, each in found.items()}, buffer)
    path.write_bytes(buffer.getvalue())
    return path
