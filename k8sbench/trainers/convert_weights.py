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
    part.write_bytes(buffer.getbuffer())
    part.replace(given.out)
    return {
        "kind": kind,
        "tensors": len(arrays),
        "digest": weights.digest(given.out),
        "verified": told is not None,
    }


def convert(tensors: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """The publisher's name, and the arrays (float32) under our names.

    Raises :class:`weights.WeightsError` unless every tensor of a ResNet-50 is there and no other.
    """
    tables = {publisher: dict(_names(publisher)) for publisher in PUBLISHERS}
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
    return publisher.name, {
        ours: np.ascontiguousarray(array, np.float32) for ours, array in arrays.items()
    }


def _names(publisher: Publisher) -> Iterator[tuple[str, str]]:
    """The published and our name of every tensor but the classifier's."""
    for (convolution, norm), ours in _units(publisher):
        yield f"{convolution}.weight", f"{ours}.conv.weight"
        yield f"{norm}.weight", f"{ours}.norm.weight"
        yield f"{norm}.bias", f"{ours}.norm.bias"
        yield f"{norm}.{publisher.mean}", f"{ours}.norm.running_mean"
        yield f"{norm}.{publisher.variance}", f"{ours}.norm.running_var"


def _units(publisher: Publisher) -> Iterator[tuple[Layers, str]]:
    """Each convolution with its norm, and our name of both."""
    is_deep = len(publisher.stem) > 1
    for place, layers in enumerate(publisher.stem):
        yield layers, f"stem.{place}" if is_deep else "stem"
    for stage, depth in enumerate(DEPTHS):
        for block in range(depth):
            at = {"stage": stage, "layer": stage + 1, "block": block}
            parts = [(publisher.part, part) for part in PARTS]
            if block == 0:
                parts.append((publisher.shortcut, "shortcut"))
            for place, ((convolution, norm), part) in enumerate(parts):
                at |= {"place": place, "number": place + 1}
                yield (
                    (convolution.format(**at), norm.format(**at)),
                    f"stages.{stage}.{block}.{part}",
                )


def _tensors(path: Path) -> dict[str, Array]:
    """The arrays of a published file, by its names."""
    try:
        loaded = _pdparams(path) if path.suffix == ".pdparams" else _pth(path)
        return {
            str(name): tensor for name, tensor in loaded.items() if isinstance(tensor, np.ndarray)
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
