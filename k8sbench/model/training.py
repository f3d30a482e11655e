"""Choices of ``--mode train``: length, evaluations, target and restarts.

The catalog's ``train:`` holds upstream's values; options replace them one by one. A published
program trains as its own command says.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.choices import PlanChoices, check_ours
from k8sbench.model.counts import counted
from k8sbench.model.errors import UsageError
from k8sbench.model.plan import PlannedTraining, PlannedWindow
from k8sbench.model.sources import is_real
from k8sbench.model.spec import LengthUnit, Preset
from k8sbench.model.speed_options import Option

TIMEOUTS: dict[Preset, float] = {"smoke": 7200.0, "full": 14 * 86400.0}
"""Default limits, as in :mod:`~k8sbench.model.choices`.

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


def arguments(planned: PlannedTraining | None) -> dict[str, Option]:
    """Return the trainers' options of a training; none for throughput."""
    if planned is None:
        return {}
    options: dict[str, Option] = {
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
