"""Turns published ResNet-50 weights into a file of start weights for --weights.

Takes open-mmlab's resnet50_v1c (.pth, DeepLabV3+ of mmsegmentation), torchvision's resnet50 (.pth,
TSM and ResNet-50) and PaddleClas' ResNet50_vd_ssld (.pdparams, DeepLabV3P of PaddleSeg). Nothing in
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from k8sbench.trainers.parts import settings, weights
from k8sbench.trainers.parts.samples import Array


class Kind(NamedTuple):
    """How one publisher names the tensors of a ResNet-50, as regular expressions.

    Groups: `stage`, `block` or `flat` (the block's number among all), `part` of a block (without:
    its shortcut), `stem` (without: the stem is one convolution) and `leaf`. `first` is the number
    of the first part of a block, `stage_one` that of the first stage; stem numbers become places by
    `stem_step` and `stem_one`.
    """

    name: str
    block: str
    stem: str
    classifier: str
    stage_one: int = 0
    first: int = 0
    stem_one: int = 0
    stem_step: int = 1
    transposed: bool = False  # of the classifier: [features, classes]


_TORCH_BLOCK = (
    r"layer(?P<stage>\d)\.(?P<block>\d)\.(?:(?:conv|bn)(?P<part>\d)|downsample\.\d)\.(?P<leaf>\w+)"
)
KINDS = (
    # open-mmlab://resnet50_v1c: convolution, norm and ReLU of the stem follow one another.
    Kind(
        "mmseg",
        _TORCH_BLOCK,
        r"stem\.(?P<stem>\d)\.(?P<leaf>\w+)",
        r"fc\.(?P<leaf>\w+)",
        stage_one=1,
        first=1,
        stem_step=3,
    ),
    Kind(
        "torchvision",
        _TORCH_BLOCK,
        r"(?:conv|bn)1\.(?P<leaf>\w+)",
        r"fc\.(?P<leaf>\w+)",
        stage_one=1,
        first=1,
    ),
    # The names of PaddleClas until 2.1, which PaddleSeg's backbone still has.
    Kind(
        "paddleclas",
        r"bb_(?P<stage>\d)_(?P<block>\d)\.(?:conv(?P<part>\d)|short)"
        r"\.(?:_conv|_batch_norm)\.(?P<leaf>\w+)",
        r"conv1_(?P<stem>\d)\.(?:_conv|_batch_norm)\.(?P<leaf>\w+)",
        r"out\.(?P<leaf>\w+)",
        stem_one=1,
        transposed=True,
    ),
    # Those of today's.
    Kind(
        "paddleclas",
        r"blocks\.(?P<flat>\d+)\.(?:conv(?P<part>\d)|short)\.(?:conv|bn)\.(?P<leaf>\w+)",
        r"stem\.(?P<stem>\d)\.(?:conv|bn)\.(?P<leaf>\w+)",
        r"fc\.(?P<leaf>\w+)",
        transposed=True,
    ),
)
_LEAVES = {"_mean": "running_mean", "_variance": "running_var"}
# What is no tensor of the network.
_ASIDE = re.compile(r".*num_batches_tracked|StructuredToParameterName@@")


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
    tensors = _tensors(given.source)
    kind, arrays = convert(tensors)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    part = given.out.with_name(f".{given.out.name}.part")
    part.write_bytes(buffer.getbuffer())
    part.replace(given.out)
    return {
        "kind": kind,
        "tensors": len(arrays),
        "digest": weights.digest(given.out),
        "source_digest": source,
        "verified": told is not None,
    }


def convert(tensors: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """The kind of the names, and the arrays (float32) under ours.

    Raises :class:`weights.WeightsError` unless every tensor of a ResNet-50 is there and no other.
    """
    tensors = {name: array for name, array in tensors.items() if not _ASIDE.fullmatch(name)}
    kind = max(KINDS, key=lambda kind: sum(_ours(kind, name) is not None for name in tensors))
    arrays: dict[str, Array] = {}
    strange = []
    for name, tensor in tensors.items():
        ours = _ours(kind, name)
        if ours is None:
            strange.append(name)
            continue
        if not ours.startswith("fc."):
            ours = ours.format("conv" if tensor.ndim == 4 else "norm")
        turned = tensor.T if kind.transposed and ours.startswith("fc.") else tensor
        arrays[ours] = np.ascontiguousarray(turned, np.float32)
    expected = weights.names(deep_stem=r"(?P<stem>" in kind.stem)
    missing = [name for name in expected if name not in arrays]
    if strange or missing:
        what = f"no {missing[0]}" if missing else f"{strange[0]}, which that has not"
        raise weights.WeightsError(
            f"these are not {kind.name}'s weights of a ResNet-50: {len(missing)} tensors are "
            f"missing and {len(strange)} are strange, such as {what}"
        )
    return kind.name, arrays


def _ours(kind: Kind, name: str) -> str | None:
    """Our name, {} for conv or norm; None where the kind has no such name."""
    for pattern in (kind.block, kind.stem, kind.classifier):
        match = re.fullmatch(pattern, name)
        if match is None:
            continue
        at = match.groupdict()
        leaf = _LEAVES.get(at["leaf"], at["leaf"])
        if pattern == kind.classifier:
            return f"fc.{leaf}"
        if pattern == kind.stem:
            if at.get("stem") is None:
                return f"stem.{{}}.{leaf}"
            return f"stem.{(int(at['stem']) - kind.stem_one) // kind.stem_step}.{{}}.{leaf}"
        part = "shortcut" if at["part"] is None else weights.PARTS[int(at["part"]) - kind.first]
        return f"stages.{_place(kind, at)}.{part}.{{}}.{leaf}"
    return None


def _place(kind: Kind, at: Mapping[str, Any]) -> str:
    if "flat" not in at:
        return f"{int(at['stage']) - kind.stage_one}.{at['block']}"
    block = int(at["flat"])
    stage = 0
    while stage < len(weights.DEPTHS) - 1 and block >= weights.DEPTHS[stage]:
        block -= weights.DEPTHS[stage]
        stage += 1
    return f"{stage}.{block}"


def _tensors(path: Path) -> dict[str, Array]:
    """The arrays of a published file, by its names."""
    read = _pdparams if path.suffix == ".pdparams" else _pth
    try:
        loaded = read(path)
        loaded = loaded.get("state_dict", loaded)
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


class _Arrays(pickle.Unpickler):
    """Reads numpy arrays in dictionaries, and refuses everything else."""

    allowed = frozenset(
        {
            ("collections", "OrderedDict"),
            ("numpy", "dtype"),
            ("numpy", "ndarray"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """What arrays are made of."""
        if (module, name) == ("_codecs", "encode"):
            return _latin1  # how old pickles hold bytes
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not of an array")
        return super().find_class(module, name)


def _latin1(text: str, _: str) -> bytes:
    return text.encode("latin1")


def _pdparams(path: Path) -> Any:
    with path.open("rb") as file:
        return _Arrays(file, encoding="latin1").load()


if __name__ == "__main__":
    main(sys.argv[1:])
