"""Data sets of the benchmarks: sizes and sources.

The archive of a report and its checksum stand in the catalog, beside the figures that it gave.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.errors import NotFound, did_you_mean


class KnownDataSet(msgspec.Struct, frozen=True, kw_only=True):
    """One data set, as trainers read it from a folder."""

    name: str
    """Name for ``data check`` and ``data make-sample``."""
    title: str
    """Name in text for people."""
    benchmarks: tuple[str, ...]
    """Names in the catalog."""
    training: int
    """Samples to train on."""
    validation: int
    """Samples, or pairs of faces, to evaluate on."""
    source: str
    """Place where users get the data set."""


DATA_SETS = (
    KnownDataSet(
        name="cityscapes",
        title="Cityscapes",
        benchmarks=("deeplabv3p",),
        training=2975,
        validation=500,
        source="Register with Cityscapes, unpack leftImg8bit_trainvaltest.zip and"
        " gtFine_trainvaltest.zip, and make train ids with cityscapesScripts.",
    ),
    KnownDataSet(
        name="imagenet",
        title="ImageNet (ILSVRC 2012)",
        benchmarks=("resnet50",),
        training=1_281_167,
        validation=50_000,
        source="Register with ImageNet, and put the pictures of both parts into a folder for each"
        " class.",
    ),
    KnownDataSet(
        name="kinetics",
        title="Kinetics-400",
        benchmarks=("tsm",),
        training=234_584,
        validation=19_760,
        source="Its publisher gives links to videos alone: cut them into frames with the tools of"
        " temporal-shift-module.",
    ),
    KnownDataSet(
        name="faces",
        title="MS1M faces with LFW's pairs",
        benchmarks=("arcface",),
        training=5_822_653,
        validation=6_000,
        source="Not published by those who made it any more; take a copy that you may use.",
    ),
)


def data_set(name: str) -> KnownDataSet:
    """Return a data set by its name; raises :class:`NotFound`."""
    names = [known.name for known in DATA_SETS]
    if name not in names:
        near = did_you_mean(name, names)
        raise NotFound(f"There is no data set {name!r}.", f"{near}There are: {', '.join(names)}.")
    return DATA_SETS[names.index(name)]
