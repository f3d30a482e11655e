"""Start weights: the published files of a ResNet-50, put into a model's backbone.

A session reads a file of its framework: open-mmlab's resnet50_v1c and torchvision's resnet50 are
.pth, PaddleSeg's ResNet50_vd_ssld is .pdparams. Here is how the publishers name what our models
have. This module imports no framework, and nothing in a file is executed.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from k8sbench.trainers.parts import samples
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.settings import refuse

_CLASSIFIERS = ("fc.", "out.")
# A tensor inside one of our backbones: the stem or a part of a block, the places of convolution and
# norm in there (which differ between models), and the tensor.
_INSIDE = re.compile(
    r"(?:.*\.)?backbone\.(?:stem(?:\.(?P<stem>\d)(?=\.\d))?"
    r"|stages\.(?P<stage>\d)\.(?P<block>\d)\.(?P<part>body\.\d|\w+))(?:\.\d)+\.(?P<leaf>\w+)"
)
_PLACES = {"reduce": 0, "spatial": 1, "expand": 2, "body.0": 0, "body.1": 1, "body.2": 2}
_STATISTICS = {"running_mean": 0, "_mean": 0, "running_var": 1, "_variance": 1}
Layers = tuple[str, str]
"""Names of a convolution and of its norm."""


@dataclass(frozen=True)
class Loaded:
    """Start weights of a model."""

    file: str  # its name, without the folder
    digest: str  # SHA-256 of the file, hex
    loaded: int  # tensors


class Publisher(NamedTuple):
    """Layer names of one publisher's ResNet-50.

    `part` and `shortcut` are formats of the numbers `stage` and `block`, from 0, `layer`, the stage
    from 1, and of a part's number `place`, from 0, and `number`, from 1.
    """

    stem: tuple[Layers, ...]
    part: Layers
    shortcut: Layers
    statistics: tuple[str, str] = ("running_mean", "running_var")

    def name(self, ours: str, dimensions: int) -> str | None:
        """Return the published name of a tensor; None outside the backbone.

        It is our name where this publisher's network has no such layer.
        """
        match = _INSIDE.fullmatch(ours)
        if match is None or match["leaf"] == "num_batches_tracked":
            return None
        layer = 0 if dimensions == 4 else 1
        if match["part"] is not None:
            place = _PLACES.get(match["part"], -1)
            stage = int(match["stage"])
            names = (self.shortcut if place < 0 else self.part)[layer].format(
                stage=stage, layer=stage + 1, block=match["block"], place=place, number=place + 1
            )
        elif (match["stem"] is None) == (len(self.stem) == 1):
            names = self.stem[int(match["stem"] or 0)][layer]
        else:
            return ours
        leaf = match["leaf"]
        return f"{names}.{self.statistics[_STATISTICS[leaf]] if leaf in _STATISTICS else leaf}"


_TORCH: tuple[Layers, Layers] = (
    ("layer{layer}.{block}.conv{number}", "layer{layer}.{block}.bn{number}"),
    ("layer{layer}.{block}.downsample.0", "layer{layer}.{block}.downsample.1"),
)
PUBLISHERS = (
    # open-mmlab: convolution, norm and ReLU of the stem follow one another.
    Publisher((("stem.0", "stem.1"), ("stem.3", "stem.4"), ("stem.6", "stem.7")), *_TORCH),
    # torchvision
    Publisher((("conv1", "bn1"),), *_TORCH),
    # PaddleSeg
    Publisher(
        tuple((f"conv1_{at}._conv", f"conv1_{at}._batch_norm") for at in (1, 2, 3)),
        ("bb_{stage}_{block}.conv{place}._conv", "bb_{stage}_{block}.conv{place}._batch_norm"),
        ("bb_{stage}_{block}.short._conv", "bb_{stage}_{block}.short._batch_norm"),
        ("_mean", "_variance"),
    ),
)


def load(
    path: Path,
    tensors: Mapping[str, Any],
    read: Callable[[Path], Mapping[str, Any]],
    put: Callable[[Any, Array], object],
) -> Loaded:
    """Put a published file's arrays into the model whose `state_dict()` is `tensors`.

    `read` gives what a file of the framework holds, and `put` copies an array into a tensor. The
    file must have every tensor inside `backbone`, in its shape, and no others; a classifier `fc` at
    the model's root is filled where the shape is the same. Ends the run unless all fits.
    """
    try:
        checksum = samples.digest(path)
    except OSError as error:
        refuse(f"--weights: {path} cannot be read: {error.strerror}")
    arrays = _arrays(path, read)
    tables = [_names(publisher, tensors) for publisher in PUBLISHERS]
    known = max(tables, key=lambda table: len(table.keys() & arrays.keys()))
    for name in ("fc.weight", "fc.bias"):
        if name in tensors and name in arrays and tuple(tensors[name].shape) == arrays[name].shape:
            known[name] = name
    unlike = [name for name in known if name not in arrays]
    unlike += [
        name
        for name in arrays
        if name not in known
        and not name.startswith(_CLASSIFIERS)
        and not name.endswith("num_batches_tracked")
    ]
    unlike += [
        f"{name} {list(arrays[name].shape)} for {list(tensors[ours].shape)}"
        for name, ours in known.items()
        if name in arrays and arrays[name].shape != tuple(tensors[ours].shape)
    ]
    if unlike:
        more = f" and {len(unlike) - 3} more" if len(unlike) > 3 else ""
        refuse(
            f"--weights: {path} is not of this model: {', '.join(unlike[:3])}{more} are not in "
            "both, or of another shape"
        )
    for name, ours in known.items():
        put(tensors[ours], np.ascontiguousarray(arrays[name], np.float32))
    return Loaded(path.name, checksum, len(known))


def _arrays(path: Path, read: Callable[[Path], Mapping[str, Any]]) -> dict[str, Array]:
    """The arrays of numbers in a file, by its names."""
    try:
        found = read(path).items()
    except Exception:  # damaged data make the readers raise nearly anything
        refuse(f"--weights: {path} is damaged, or not of named tensors alone")
    return {
        str(name).removeprefix("module."): each  # of a model that was data parallel
        for name, each in found
        if isinstance(each, np.ndarray) and each.dtype.kind in "fiu"
    }


def _names(publisher: Publisher, tensors: Mapping[str, Any]) -> dict[str, str]:
    """Our names of a backbone's tensors, by the publisher's."""
    theirs = {ours: publisher.name(ours, len(each.shape)) for ours, each in tensors.items()}
    return {name: ours for ours, name in theirs.items() if name is not None}


_OF_ARRAYS = (
    *("collections.OrderedDict", "builtins.bytes", "__builtin__.bytes"),
    *("numpy.dtype", "numpy.ndarray"),
    *("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
    *("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
    *("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"),
)


class Arrays(pickle.Unpickler):
    """Reads plain data and numpy's arrays and numbers, in any version's names; else refuses."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a file names, or refuse."""
        if (module, name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")  # how old pickles hold bytes
        if f"{module}.{name}" in _OF_ARRAYS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is not of an array")
