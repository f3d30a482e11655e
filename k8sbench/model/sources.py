"""Locations of a run's data, start weights and checkpoints.

On a cluster they are on volume claims, on this machine in files. A location is written
``pvc:NAME[/SUB]`` or ``path:DIR``. Other modules check that it exists.
"""

from __future__ import annotations

import msgspec

from k8sbench.model import identity
from k8sbench.model.choices import PlanChoices, check_ours
from k8sbench.model.errors import NotFound, UsageError, did_you_mean
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import claim
from k8sbench.model.speed_options import Option

OWN_DATA = ("synthetic", "synthetic-host")
"""Data that our trainers generate: on the device, or in loader processes."""
WEIGHTS = {"pytorch": ".pth", "paddle": ".pdparams"}
"""Suffix of the files of start weights, by framework."""
DATA_MOUNT, WEIGHTS_MOUNT, CHECKPOINTS_MOUNT = "/data", "/weights", "/checkpoints"
"""Mount points of the volumes in a container."""
RUN_FOLDER = "$(K8SBENCH_RUN_ID)"
"""Checkpoint folder of a run in its command.

A variable, so that the commands of repeats are equal.
"""


def data(case: PlanChoices) -> str:
    """Return the plan's ``data`` for the chosen options."""
    asked, ours = case.request.data, case.impl == "k8sbench"
    if asked == "synthetic" or (ours and asked in OWN_DATA):
        return asked
    if asked in OWN_DATA:
        check_ours(case, f"--data {asked}")
    if not (is_path(asked) or asked.startswith("pvc:")):
        raise UsageError(
            f"--data {asked!r} is not a source of samples.", f"Write {' or '.join(OWN_DATA)}."
        )
    return _place(case, "--data", asked)


def weights(case: PlanChoices) -> str | None:
    """The file of start weights; None: from scratch."""
    asked = case.request.weights
    if asked is None:
        return None
    check_ours(case, "--weights")
    place = _place(case, "--weights", asked, "/FILE")
    if not place.endswith(suffix := WEIGHTS[case.framework]):
        raise UsageError(
            f"--weights {asked} is not a {suffix} file.",
            "Name the published file: docs/training.md#start-weights.",
        )
    return place


def checkpoints(case: PlanChoices) -> str | None:
    """Return the parent of each run's checkpoint folder, or None."""
    asked = case.request.checkpoints
    if asked is None:
        return None
    check_ours(case, "--checkpoints")
    return _place(case, "--checkpoints", asked)


def is_real(source: str) -> bool:
    """True if the plan's data are the user's files."""
    return source.startswith(("pvc:", "path:"))


def is_path(text: str) -> bool:
    """True if the text is a path of this machine."""
    return bool(text) and not text.startswith(("pvc:", "synth"))


def claims(plan: RunPlan) -> dict[str, bool]:
    """Return the claims that the pods mount → True if written to."""
    writes: dict[str, bool] = {}
    for text in (plan.data, plan.weights, plan.pool.python_packages, plan.checkpoints):
        if text and (named := claim(text)) is not None:
            writes[named.name] = text == plan.checkpoints or writes.get(named.name, False)
    return writes


def seen(place: str, mount: str) -> str:
    """Return a location's folder as the command sees it."""
    if not place.startswith("path:"):
        return mount
    # In a command $(NAME) is a variable.
    return place.removeprefix("path:").replace("$", "$$")


def arguments(data: str, weights: str | None, checkpoints: str | None) -> dict[str, Option]:
    """Return the trainers' options that name files.

    Empty for generated data.
    """
    options: dict[str, Option] = {"data": seen(data, DATA_MOUNT)} if is_real(data) else {}
    if weights is not None:
        # A volume is mounted at the folder of the file.
        options["weights"] = seen(weights, f"{WEIGHTS_MOUNT}/{weights.rpartition('/')[2]}")
    if checkpoints is not None:
        folder = seen(checkpoints, CHECKPOINTS_MOUNT)
        options[identity.CHECKPOINTS_OPTION.lstrip("-")] = f"{folder}/{RUN_FOLDER}"
    return options


def _place(case: PlanChoices, option: str, text: str, below: str = "[/SUB]") -> str:
    is_local = case.site.backend == "local"
    if text.startswith("pvc:"):
        named = claim(text)
        if named is None or (below == "/FILE" and named.folder is None):
            raise UsageError(f"{option} {text!r} names no volume claim.", f"Write pvc:NAME{below}.")
        if is_local:
            raise UsageError(
                f"{option} {text} is a volume of a cluster, and this run is local.",
                "Name a folder or a file of this machine, or leave it out.",
            )
        return text.rstrip("/")
    if not is_local:
        raise UsageError(
            f"{option} {text}: a path of the nodes would be a hostPath volume, which the restricted"
            " Pod Security Standard forbids.",
            f"Put it on a PersistentVolumeClaim and give {option} pvc:NAME{below}.",
        )
    if not text.startswith("/") or "\0" in text:
        raise UsageError(f"{option} {text!r} is not an absolute path.", "Begin it with '/'.")
    return f"path:{text}"


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
    KnownDataSet(
        name="tokens",
        title="OpenWebText in sequences of 1,024 of GPT-2's tokens",
        benchmarks=("gpt",),
        training=8_823_810,
        validation=4_330,
        source="nanoGPT's data/openwebtext/prepare.py downloads it and writes both files.",
    ),
)


def data_set(name: str) -> KnownDataSet:
    """Return a data set by its name; raises :class:`NotFound`."""
    names = [known.name for known in DATA_SETS]
    if name not in names:
        near = did_you_mean(name, names)
        raise NotFound(f"There is no data set {name!r}.", f"{near}There are: {', '.join(names)}.")
    return DATA_SETS[names.index(name)]
