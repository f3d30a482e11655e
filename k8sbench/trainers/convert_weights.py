"""Turns published ResNet-50 weights into a file of start weights for --weights.

Takes open-mmlab's resnet50_v1c (.pth, DeepLabV3+ of mmsegmentation), torchvision's resnet50 (.pth,
TSM and ResNet-50) and PaddleSeg's ResNet50_vd_ssld (.pdparams, DeepLabV3P of PaddleSeg). Nothing in
the file is executed: .pth is read by torch.load(weights_only=True), .pdparams by an unpickler that
knows numpy arrays only. Where the published name carries the beginning of the SHA-256, the file
must have it. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from k8sbench.trainers.parts import settings, weights
from k8sbench.trainers.parts.samples import Array

LARGEST = np.finfo(np.float32).max
DEPTHS = (3, 4, 6, 3)
PARTS = ("reduce", "spatial", "expand")
Layers = tuple[str, str]  # names of a convolution and of its norm


class Publisher(NamedTuple):
    """How one publisher names the layers of a ResNet-50.

    `part` and `shortcut` are formats of the numbers `stage` and `block`, from 0, `layer`, the stage
    from 1, and of a part's number `place`, from 0, and `number`, from 1.
    """

    name: str
    stem: tuple[Layers, ...]
    part: Layers
    shortcut: Layers
    classifier: str = "fc"
    mean: str = "running_mean"
    variance: str = "running_var"
    transposed: bool = False  # of the classifier: [features, classes]


_TORCH: tuple[Layers, Layers] = (
    ("layer{layer}.{block}.conv{number}", "layer{layer}.{block}.bn{number}"),
    ("layer{layer}.{block}.downsample.0", "layer{layer}.{block}.downsample.1"),
)
PUBLISHERS = (
    # open-mmlab://resnet50_v1c: convolution, norm and ReLU of the stem follow one another.
    Publisher("mmseg", (("stem.0", "stem.1"), ("stem.3", "stem.4"), ("stem.6", "stem.7")), *_TORCH),
    Publisher("torchvision", (("conv1", "bn1"),), *_TORCH),
    Publisher(
        "paddleseg",
        tuple((f"conv1_{at}._conv", f"conv1_{at}._batch_norm") for at in (1, 2, 3)),
        ("bb_{stage}_{block}.conv{place}._conv", "bb_{stage}_{block}.conv{place}._batch_norm"),
        ("bb_{stage}_{block}.short._conv", "bb_{stage}_{block}.short._batch_norm"),
        classifier="out",
        mean="_mean",
        variance="_variance",
        transposed=True,
    ),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Convert as `argv` says."""
    parser = settings.Parser(
        prog="python -m k8sbench.trainers.convert_weights",
        description=__doc__,
        allow_abbrev=False,
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="the published file")
    parser.add_argument("out", type=Path, metavar="OUT", help="the .npz to write")
    given = parser.parse_args(argv)
    try:
        print(json.dumps(_convert(given)))
    except weights.WeightsError as error:
        settings.refuse(str(error))
    except OSError as error:
        settings.refuse(f"{error.filename or given.out}: {error.strerror}")


def _convert(given: argparse.Namespace) -> dict[str, object]:
    source = weights.digest(given.source)
    told = re.search(r"-([0-9a-f]{8,64})\.\w+$", given.source.name)
    if told is not None and not source.startswith(told[1]):
        raise weights.WeightsError(
            f"{given.source} is damaged or another file: its SHA-256 begins with {source[:8]}, its "
            f"name says {told[1]}; fetch it again"
        )
    kind, arrays = convert(_tensors(given.source))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    part = given.out.with_name(f".{given.out.name}.part")
    try:
        part.write_bytes(buffer.getbuffer())
        part.replace(given.out)
    finally:
        part.unlink(missing_ok=True)
    return {
        "kind": kind,
        "tensors": len(arrays),
        "digest": weights.digest(given.out),
        "verified": told is not None,
    }


def convert(tensors: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """The publisher's name, and the arrays (float32) under our names.

    Raises :class:`weights.WeightsError` unless every tensor of a ResNet-50, as wide as its stem, is
    there and no other, and all numbers are finite.
    """
    tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    tables = {
        publisher: {theirs: ours for theirs, ours, _ in _names(publisher)}
        for publisher in PUBLISHERS
    }
    publisher = max(PUBLISHERS, key=lambda publisher: len(tables[publisher].keys() & tensors))
    table = tables[publisher]
    missing = [ours for name, ours in table.items() if name not in tensors]
    table |= {f"{publisher.classifier}.{leaf}": f"fc.{leaf}" for leaf in ("weight", "bias")}
    strange = [
        name for name in tensors if name not in table and not name.endswith("num_batches_tracked")
    ]
    if strange or missing:
        what = f"no {missing[0]}" if missing else f"{strange[0]}, which that has not"
        raise weights.WeightsError(
            f"these are not {publisher.name}'s weights of a ResNet-50: {len(missing)} tensors are "
            f"missing and {len(strange)} are strange, such as {what}"
        )
    arrays = {ours: tensors[name] for name, ours in table.items() if name in tensors}
    if publisher.transposed and "fc.weight" in arrays:
        arrays["fc.weight"] = arrays["fc.weight"].T
    width = tensors[f"{publisher.stem[-1][0]}.weight"].shape[0]
    shapes = {ours: shape for _, ours, shape in _names(publisher, width)}
    classes = arrays.get("fc.bias", np.zeros(0)).size
    shapes |= {"fc.weight": (classes, 32 * width), "fc.bias": (classes,)}
    for ours, array in arrays.items():
        if array.shape != shapes[ours]:
            shape = f"has the shape {list(array.shape)} and not {list(shapes[ours])}"
            raise weights.WeightsError(f"{ours} {shape}: these are not a ResNet-50's weights")
        if not (abs(array) <= LARGEST).all():
            raise weights.WeightsError(f"{ours} has numbers that are not finite")
    return publisher.name, {
        ours: np.ascontiguousarray(array, np.float32) for ours, array in arrays.items()
    }


def _names(publisher: Publisher, width: int = 64) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The published and our name and the shape of every tensor but the classifier's."""
    for (convolution, norm), ours, shape in _units(publisher, width):
        yield f"{convolution}.weight", f"{ours}.conv.weight", shape
        for theirs, leaf in (
            *(("weight", "weight"), ("bias", "bias")),
            *((publisher.mean, "running_mean"), (publisher.variance, "running_var")),
        ):
            yield f"{norm}.{theirs}", f"{ours}.norm.{leaf}", shape[:1]


def _units(publisher: Publisher, width: int) -> Iterator[tuple[Layers, str, tuple[int, ...]]]:
    """Each convolution with its norm, our name of both, and its shape."""
    is_deep, half = len(publisher.stem) > 1, width // 2
    deep = ((half, 3, 3, 3), (half, half, 3, 3), (width, half, 3, 3))
    for place, layers in enumerate(publisher.stem):
        if is_deep:
            yield layers, f"stem.{place}", deep[place]
        else:
            yield layers, "stem", (width, 3, 7, 7)
    inputs = width
    for stage, depth in enumerate(DEPTHS):
        for block in range(depth):
            at = {"stage": stage, "layer": stage + 1, "block": block}
            inside, outside = width << stage, 4 * (width << stage)
            shapes = ((inside, inputs, 1, 1), (inside, inside, 3, 3), (outside, inside, 1, 1))
            parts = [(publisher.part, *each) for each in zip(PARTS, shapes, strict=True)]
            if block == 0:
                parts.append((publisher.shortcut, "shortcut", (outside, inputs, 1, 1)))
            inputs = outside
            for place, ((convolution, norm), part, shape) in enumerate(parts):
                at |= {"place": place, "number": place + 1}
                layers = (convolution.format(**at), norm.format(**at))
                yield layers, f"stages.{stage}.{block}.{part}", shape


def _tensors(path: Path) -> dict[str, Array]:
    """The arrays of a published file, by its names."""
    try:
        loaded = _pdparams(path) if path.suffix == ".pdparams" else _pth(path)
        return {
            str(name): tensor
            for name, tensor in loaded.items()
            if isinstance(tensor, np.ndarray) and tensor.dtype.kind in "fiu"
        }
    except (pickle.UnpicklingError, RuntimeError, EOFError, AttributeError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise weights.WeightsError(f"{path} cannot be read as weights: {why}") from error


def _pth(path: Path) -> Any:
    try:
        import torch
    except ImportError:
        settings.refuse(f"{path} is of PyTorch, which is not installed here; install torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, LookupError) as error:
            # PyTorch's own texts advise to execute what is in the file.
            raise pickle.UnpicklingError("it is damaged, or not of tensors alone") from error
    if not isinstance(loaded, Mapping):
        raise pickle.UnpicklingError("it has no tensors with names")
    loaded = loaded.get("state_dict", loaded)
    return {
        name: tensor.float().numpy()
        for name, tensor in loaded.items()
        if isinstance(tensor, torch.Tensor)
    }


def _pdparams(path: Path) -> Any:
    with path.open("rb") as file:
        return weights.Arrays(file, encoding="latin1").load()


if __name__ == "__main__":
    main(sys.argv[1:])
