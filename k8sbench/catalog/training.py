"""Choices of a training, and the places of its files.

The catalog's ``train:`` holds upstream's length, evaluations and target; options replace them one
by one. A published program trains as its own command says. Data, start weights and checkpoints are
on volume claims on a cluster, and in files on this machine. A place is written ``pvc:NAME[/SUB]``
or ``path:DIR``; other modules check that it exists.
"""

from __future__ import annotations

import msgspec

from k8sbench.catalog.plan_choices import PlanChoices, check_own_program
from k8sbench.model import identity
from k8sbench.model.errors import NotFound, UsageError, did_you_mean
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import PlannedTraining, PlannedWindow, RunPlan
from k8sbench.model.pool import parse_claim
from k8sbench.model.spec_values import LengthUnit, Preset
from k8sbench.model.speed_options import SPEED_ALONE, Option

TIMEOUTS: dict[Preset, float] = {"smoke": 7200.0, "full": 14 * 86400.0}
"""Default limits, as in :mod:`~k8sbench.catalog.plan_choices`.

One V100 takes 5 days for TSM's 50 epochs.
"""
RESTARTS = 3
"""Default of ``--max-restarts`` for a training with checkpoints."""
_OF_TRAINING = (
    *("epochs", "evaluate_every", "target", "to_the_end", "checkpoints", "max_restarts"),
)
_OF_OURS = ("iterations", "epochs", "evaluate_every", "to_the_end", "max_restarts")


def plan_training(
    case: PlanChoices, size: Preset, world_size: int, source: str, notes: list[str]
) -> PlannedTraining | None:
    """Return the planned training; None in throughput mode.

    In throughput mode, options of a training are errors.
    """
    request, train = case.request, case.variant.train
    if request.mode == "throughput":
        for name in _given_options(case, _OF_TRAINING):
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
    _check_published_program(case)
    if case.impl == "k8sbench" and not is_users_data(source):
        place = "PATH" if case.site.backend == "local" else "pvc:NAME[/SUB]"
        raise UsageError(
            f"--mode train needs real data: no accuracy follows from --data {source}.",
            f"Give --data {place}; docs/training.md says in what form.",
        )
    length, unit, every = _catalog_length(case, size, world_size)
    if request.epochs is not None or request.iterations is not None:
        requested_unit: LengthUnit = "epochs" if request.epochs is not None else "iterations"
        length = request.epochs or request.iterations or 0
        # In the other unit the catalog's interval means nothing.
        every = every if requested_unit == unit else 1 if requested_unit == "epochs" else length
        unit = requested_unit
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
    target = _choose_target(case, size)
    return PlannedTraining(
        length=length,
        unit=unit,
        evaluate_every=every,
        metric=train.metric,
        target=target,
        # Another program continues, whatever accuracy it reaches.
        stop_at_target=target is not None and case.impl == "k8sbench" and not request.to_the_end,
        start=train.start,
    )


def choose_max_restarts(case: PlanChoices) -> int:
    """Return how often a failed job is created again."""
    request = case.request
    if request.max_restarts and request.checkpoints is None:
        raise UsageError(
            "--max-restarts without --checkpoints would start from the beginning each time.",
            "Say where checkpoints are kept, or leave it out.",
        )
    default = RESTARTS if request.checkpoints is not None else 0
    return default if request.max_restarts is None else request.max_restarts


def fit_window(window: PlannedWindow, planned: PlannedTraining | None) -> PlannedWindow:
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


def trainer_options(plan: RunPlan) -> dict[str, Option]:
    """Return the trainers' options that name files, and those of a training.

    Empty for generated data in throughput mode.
    """
    weights, checkpoints, planned = plan.weights, plan.checkpoints, plan.training
    options: dict[str, Option] = {}
    if is_users_data(plan.data):
        options["data"] = path_in_command(plan.data, DATA_MOUNT)
    if weights is not None:
        # A volume is mounted at the folder of the file.
        options["weights"] = path_in_command(
            weights, f"{WEIGHTS_MOUNT}/{weights.rpartition('/')[2]}"
        )
    if checkpoints is not None:
        folder = path_in_command(checkpoints, CHECKPOINTS_MOUNT)
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


def describe_training(planned: PlannedTraining) -> str:
    """``80000 iterations, evaluated every 8000, to mIoU 78.5 %``."""
    length = counted(planned.length, planned.unit.removesuffix("s"))
    words = f"{length}, evaluated every {planned.evaluate_every}"
    if planned.target is None:
        return words
    verb = "to" if planned.stop_at_target else "timed to"
    return f"{words}, {verb} {planned.metric} {planned.target:g} %"


def _given_options(case: PlanChoices, names: tuple[str, ...]) -> list[str]:
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(case.request, name) not in (None, False)
    ]


def _check_published_program(case: PlanChoices) -> None:
    """Raise if a published program cannot train as the options say."""
    if case.impl == "k8sbench":
        return
    upstream = case.variant.upstream
    if case.impl == "upstream" and (upstream is None or "train" not in upstream.added):
        raise UsageError(
            f"The catalog has no words for {case.label} of upstream in --mode train.",
            "Add upstream: added: train: to its YAML, or leave out --impl.",
        )
    for option in _given_options(case, _OF_OURS):
        check_own_program(case, option)


def _catalog_length(
    case: PlanChoices, size: Preset, world_size: int
) -> tuple[int, LengthUnit, int]:
    """Return length, unit and evaluation interval by the catalog."""
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


def _choose_target(case: PlanChoices, size: Preset) -> float | None:
    requested, published = case.request.target, case.spec.target_accuracy
    if requested == "none":
        return None
    if requested is not None:
        if not 0 < requested <= 100:
            raise UsageError(
                f"--target {requested:g} is not a percentage.", "Give more than 0, up to 100."
            )
        return requested
    # A small training does not reach the accuracy of a full one.
    return published.percent if published is not None and size == "full" else None


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


def choose_data(case: PlanChoices) -> str:
    """Return the plan's ``data`` for the chosen options."""
    source = case.request.data
    is_own_program = case.impl == "k8sbench"
    if source == "synthetic" or (is_own_program and source in OWN_DATA):
        return source
    if source in OWN_DATA:
        check_own_program(case, f"--data {source}")
    if not (is_local_path(source) or source.startswith("pvc:")):
        raise UsageError(
            f"--data {source!r} is not a source of samples.", f"Write {' or '.join(OWN_DATA)}."
        )
    return _check_place(case, "--data", source)


def choose_weights(case: PlanChoices) -> str | None:
    """Return the file of start weights; None: from scratch."""
    requested = case.request.weights
    if requested is None:
        return None
    check_own_program(case, "--weights")
    place = _check_place(case, "--weights", requested, "/FILE")
    if not place.endswith(suffix := WEIGHTS[case.framework]):
        raise UsageError(
            f"--weights {requested} is not a {suffix} file.",
            "Name the published file: docs/training.md#start-weights.",
        )
    return place


def choose_checkpoints(case: PlanChoices) -> str | None:
    """Return the parent of each run's checkpoint folder, or None."""
    requested = case.request.checkpoints
    if requested is None:
        return None
    check_own_program(case, "--checkpoints")
    return _check_place(case, "--checkpoints", requested)


def is_users_data(source: str) -> bool:
    """True if the plan's data are the user's files."""
    return source.startswith(("pvc:", "path:"))


def is_local_path(text: str) -> bool:
    """True if the text is a path of this machine."""
    return bool(text) and not text.startswith(("pvc:", "synth"))


def mounted_claims(plan: RunPlan) -> dict[str, bool]:
    """Return the claims that the pods mount → True if written to."""
    writes: dict[str, bool] = {}
    for text in (plan.data, plan.weights, plan.pool.python_packages, plan.checkpoints):
        if text and (volume := parse_claim(text)) is not None:
            writes[volume.name] = text == plan.checkpoints or writes.get(volume.name, False)
    return writes


def path_in_command(place: str, mount: str) -> str:
    """Return the path by which the command finds a location."""
    if not place.startswith("path:"):
        return mount
    # In a command $(NAME) is a variable.
    return place.removeprefix("path:").replace("$", "$$")


def _check_place(case: PlanChoices, option: str, text: str, below: str = "[/SUB]") -> str:
    is_local = case.site.backend == "local"
    if text.startswith("pvc:"):
        volume = parse_claim(text)
        if volume is None or (below == "/FILE" and volume.folder is None):
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


def find_data_set(name: str) -> KnownDataSet:
    """Return a data set by its name; raises :class:`NotFound`."""
    names = [data_set.name for data_set in DATA_SETS]
    if name not in names:
        near = did_you_mean(name, names)
        raise NotFound(f"There is no data set {name!r}.", f"{near}There are: {', '.join(names)}.")
    return DATA_SETS[names.index(name)]
