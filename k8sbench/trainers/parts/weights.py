"""Start weights: a file of named arrays, put into a model's backbone; imports no framework.

The file is an .npz that `convert_weights` makes of published weights. Its names say what a tensor
is, whatever the framework: `stem.0.conv.weight` (`stem.conv.weight` where the stem is one
convolution), `stages.2.5.expand.norm.running_var`, `fc.weight` [classes, features]. Nothing in it
is executed.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts.samples import Array

# A name inside one of our backbones: where the convolution and its norm are, their places in
# there (which differ between models), and the tensor.
_INSIDE = re.compile(
    r"(?P<unit>stem(?:\.\d(?=\.\d))?|stages\.\d\.\d\.(?:body\.\d|\w+))(?:\.\d)+\.(?P<leaf>\w+)"
)
_OURS = {
    # Paddle's blocks and norms.
    "body.0": "reduce",
    "body.1": "spatial",
    "body.2": "expand",
    "_mean": "running_mean",
    "_variance": "running_var",
}


class WeightsError(Exception):
    """A file that cannot be taken: one sentence that names what is wrong."""


@dataclass(frozen=True)
class Loaded:
    """What a model was started with."""

    file: str  # its name, without the folder
    digest: str  # SHA-256 of the file, hex
    loaded: int  # tensors
    left: tuple[str, ...]  # the parts of the model that stay at their random start


def load(path: Path, tensors: Mapping[str, Any], put: Callable[[Any, Array], object]) -> Loaded:
    """Put the file's arrays into the model whose `state_dict()` is `tensors`.

    `put` copies an array into a tensor of the framework. Everything inside `backbone` must be in
    the file, in its shape; a classifier `fc` at the model's root is filled where the shape is the
    same. Nothing is put unless all fits; else raises :class:`WeightsError`.
    """
    arrays = _read(path)
    inside = {name: neutral(name, len(tensor.shape)) for name, tensor in tensors.items()}
    prefix = next(name.partition("backbone.")[0] for name in tensors if "backbone." in name)
    known = {key: name for name, key in inside.items() if key is not None}
    known |= {
        name: name
        for name in ("fc.weight", "fc.bias")
        if name in tensors and name in arrays and _shape(tensors[name]) == arrays[name].shape
    }
    unlike = [key for key in known if key not in arrays]
    unlike += [key for key in arrays if key not in known and not key.startswith("fc.")]
    unlike += [
        f"{key} {list(arrays[key].shape)} for {list(_shape(tensors[name]))}"
        for key, name in known.items()
        if key in arrays and arrays[key].shape != _shape(tensors[name])
    ]
    if unlike:
        more = f" and {len(unlike) - 3} more" if len(unlike) > 3 else ""
        raise WeightsError(
            f"the weights in {path} are not of this model: {', '.join(unlike[:3])}{more} are not in"
            " both, or of another shape"
        )
    for key, name in known.items():
        put(tensors[name], arrays[key])
    left = {
        name.removeprefix(prefix).partition(".")[0]
        for name in tensors
        if name not in known.values() and "backbone." not in name
    }
    return Loaded(path.name, digest(path), len(known), tuple(sorted(left)))


def neutral(name: str, dimensions: int) -> str | None:
    """The file's name for a tensor of our models; None outside a backbone and for counters."""
    before, inside, rest = name.rpartition("backbone.")
    match = _INSIDE.fullmatch(rest) if inside and (not before or before.endswith(".")) else None
    if match is None or match["leaf"] == "num_batches_tracked":
        return None
    unit = re.sub(r"body\.\d", lambda body: _OURS[body[0]], match["unit"])
    leaf = _OURS.get(match["leaf"], match["leaf"])
    return f"{unit}.{'conv' if dimensions == 4 else 'norm'}.{leaf}"


def digest(path: Path) -> str:
    """SHA-256 of a file, hex."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def _read(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name], np.float32) for name in file.files}
    except OSError as error:
        raise WeightsError(f"the weights {path} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise WeightsError(
            f"{path} is not a file of start weights, or damaged: make one of the published "
            "weights by `k8sbench data convert`"
        ) from error


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.shape)


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
        """What they are made of."""
        if (module, name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")  # how old pickles hold bytes
        if f"{module}.{name}" in _OF_ARRAYS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is not of an array")
