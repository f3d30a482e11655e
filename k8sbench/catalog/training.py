"""Choices of a training, and the places of its files.

The catalog's ``train:`` holds upstream's length, evaluations and target; options replace them one
by one. A published program trains as its own command says. Data, start weights and checkpoints are
on volume claims on a cluster, and in files on this machine. A place is written ``pvc:NAME[/SUB]``
or ``path:DIR``; other modules check that it exists.
"""

from __future__ import annotations

import msgspec

from k8sbench.catalog.choices import PlanChoices, check_ours
from k8sbench.model import identity
from k8sbench.model.errors import NotFound, UsageError, did_you_mean
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import PlannedTraining, PlannedWindow, RunPlan
from k8sbench.model.pool import claim
from k8sbench.model.spec_values import LengthUnit, Preset
from k8sbench.model.speed_options import SPEED_ALONE, Option

TIMEOUTS: dict[Preset, float] = {"smoke": 7200.0, "full": 14 * 86400.0}
"""Default limits, as in :mod:`~k8sbench.catalog.choices`.

One V100 takes 5 days for TSM's 50 epochs.
"""
RESTARTS = 3
"""Default of ``--max-restarts`` for a training with checkpoints."""
_OF_TRAINING = (
    *("epochs", "evaluate_every", "target", "to_the_end", "checkpoints", "max_restarts"),
)
_OF_OURS = ("iterations", "epochs", "evaluate_every", "to_the_end", "max_restarts")


def training(
    case: PlanChoices, size: Preset, world_size: int, source: str, notes: list[str]
) -> PlannedTraining | None:
    """Return the planned training; None in throughput mode.

    In throughput mode, options of a training are errors.
    """
    request, train = case.request, case.variant.train
    if request.mode == "throughput":
        for name in _given(case, _OF_TRAINING):
            raise UsageError(f"{name} is for --mode train.", "Add that, or leave it out.")
        return None
    if case.impl == "k8sbench" and case.variant.trainer_module in SPEED_ALONE:
        raise UsageError(
            f"k8sbench's trainer of {case.label} measures speed and evaluates nothing.",
            "Leave out --mode train.",
        )
    if train is None:
        raise UsageError(
            f"The catalog does not say how {case.label} trains to an accuracy.",
            "Add train: to its YAML, or use --mode throughput.",
        )
    _check_foreign(case)
    if case.impl == "k8sbench" and not is_real(source):
        place = "PATH" if case.site.backend == "local" else "pvc:NAME[/SUB]"
        raise UsageError(
            f"--mode train needs real data: no accuracy follows from --data {source}.",
            f"Give --data {place}; docs/training.md says in what form.",
        )
    length, unit, every = _catalogs(case, size, world_size)
    if request.epochs is not None or request.iterations is not None:
        asked_unit: LengthUnit = "epochs" if request.epochs is not None else "iterations"
        length = request.epochs or request.iterations or 0
        # In the other unit the catalog's interval means nothing.
        every = every if asked_unit == unit else 1 if asked_unit == "epochs" else length
        unit = asked_unit
    if request.evaluate_every is not None and request.evaluate_every > length:
        raise UsageError(
            f"--evaluate-every {request.evaluate_every} is beyond the length of {length} {unit}.",
            "Give a smaller one, or leave it out: a run is evaluated at its end, too.",
        )
    every = request.evaluate_every or min(every, length)
    if size == "full" and case.impl == "k8sbench" and train.start and request.weights is None:
        notes.append(
            f"from scratch, where the report starts from {train.start}: no accuracy to compare"
        )
    if size == "full" and case.impl == "k8sbench" and request.checkpoints is None:
        notes.append("no --checkpoints: an interrupted run starts from the beginning")
    target = _target(case, size)
    return PlannedTraining(
        length=length,
        unit=unit,
        evaluate_every=every,
        metric=train.metric,
        target=target,
        # A program of others goes on, whatever it reaches.
        stop_at_target=target is not None and case.impl == "k8sbench" and not request.to_the_end,
        start=train.start,
    )


def max_restarts(case: PlanChoices) -> int:
    """Return how often a failed job is created again."""
    request = case.request
    if request.max_restarts and request.checkpoints is None:
        raise UsageError(
            "--max-restarts without --checkpoints would start from the beginning each time.",
            "Say where checkpoints are kept, or leave it out.",
        )
    default = RESTARTS if request.checkpoints is not None else 0
    return default if request.max_restarts is None else request.max_restarts


def fitted(window: PlannedWindow, planned: PlannedTraining | None) -> PlannedWindow:
    """Return the window of a training run.

    It lies within the training's length and has no steps after it.
    """
    if planned is None:
        return window
    warmup, iterations = window.warmup, window.iterations
    if planned.unit == "iterations":
        warmup = min(warmup, planned.length - 1)
        iterations = min(iterations, planned.length - warmup)
    return msgspec.structs.replace(
        window, warmup=warmup, iterations=iterations, min_steady_seconds=0.0
    )


def arguments(plan: RunPlan) -> dict[str, Option]:
    """Return the trainers' options that name files, and those of a training.

    Empty for generated data in throughput mode.
    """
    weights, checkpoints, planned = plan.weights, plan.checkpoints, plan.training
    options: dict[str, Option] = {}
    if is_real(plan.data):
        options["data"] = seen(plan.data, DATA_MOUNT)
    if weights is not None:
        # A volume is mounted at the folder of the file.
        options["weights"] = seen(weights, f"{WEIGHTS_MOUNT}/{weights.rpartition('/')[2]}")
    if checkpoints is not None:
        folder = seen(checkpoints, CHECKPOINTS_MOUNT)
        options[identity.CHECKPOINTS_OPTION.lstrip("-")] = f"{folder}/{RUN_FOLDER}"
    if planned is None:
        return options
    options |= {
        "mode": "train",
        "length": planned.length,
        "length-unit": planned.unit,
        "evaluate-every": planned.evaluate_every,
    }
    if planned.target is not None:
        options |= {"target": planned.target, "stop-at-target": planned.stop_at_target}
    return options


def in_words(planned: PlannedTraining) -> str:
    """``80000 iterations, evaluated every 8000, to mIoU 78.5 %``."""
    length = counted(planned.length, planned.unit.removesuffix("s"))
    words = f"{length}, evaluated every {planned.evaluate_every}"
    if planned.target is None:
        return words
    verb = "to" if planned.stop_at_target else "timed to"
    return f"{words}, {verb} {planned.metric} {planned.target:g} %"


def _given(case: PlanChoices, names: tuple[str, ...]) -> list[str]:
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(case.request, name) not in (None, False)
    ]


def _check_foreign(case: PlanChoices) -> None:
    """Raise if a published program cannot train as the options say."""
    if case.impl == "k8sbench":
        return
    upstream = case.variant.upstream
    if case.impl == "upstream" and (upstream is None or "train" not in upstream.added):
        raise UsageError(
            f"The catalog has no words for {case.label} of upstream in --mode train.",
            "Add upstream: added: train: to its YAML, or leave out --impl.",
        )
    for option in _given(case, _OF_OURS):
        check_ours(case, option)


def _catalogs(case: PlanChoices, size: Preset, world_size: int) -> tuple[int, LengthUnit, int]:
    """Length, unit and interval of the catalog."""
    train, smoke = case.variant.train, case.variant.smoke
    assert train is not None, "checked by training()"
    if size == "full":
        every = train.evaluate_every["one_gpu" if world_size == 1 else "many_gpus"]
        return train.length, train.unit, every
    if smoke is None or smoke.train is None:
        raise UsageError(
            f"{case.label} has no small training.",
            "Add smoke: train: to its YAML, or use --preset full.",
        )
    return smoke.train.length, smoke.train.unit, smoke.train.evaluate_every


def _target(case: PlanChoices, size: Preset) -> float | None:
    asked, known = case.request.target, case.spec.target_accuracy
    if asked == "none":
        return None
    if asked is not None:
        if not 0 < asked <= 100:
            raise UsageError(
                f"--target {asked:g} is not a percentage.", "Give more than 0, up to 100."
            )
        return asked
    # What a full training reaches says nothing of a small one.
    return known.percent if known is not None and size == "full" else None


# -- places of files -------------------------------------------------------------------------------

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
    asked = case.request.data
    ours = case.impl == "k8sbench"
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
