"""Measured runs of a training to a target."""

from typing import Any

import msgspec

from k8sbench.model.measurement import DataSet, Weights
from k8sbench.model.plan import PlannedTraining
from k8sbench.model.run import Run
from tests.results.report.factory import accuracy, run

TRAINING = PlannedTraining(
    length=90,
    unit="epochs",
    evaluate_every=1,
    metric="top-1",
    target=75.9,
    stop_at_target=False,
    start="resnet50_v1c",
)
AT_TARGET = msgspec.structs.replace(accuracy(76.5), at_target=75.95)
FILES = DataSet(name="imagenet", digest="d1", train=1_281_167, val=50_000)
WEIGHTS = Weights(file="start.pth", digest="ab" * 32)


def trained(seconds: float | None = 44000.0, rate: float | None = 2900.0, **changes: Any) -> Run:
    """A run that trained to the target in so many seconds."""
    measured: dict[str, Any] = {
        "accuracy": accuracy(70.0) if seconds is None else AT_TARGET,
        "time_to_train_s": seconds,
        "mode": "train",
        "target": 75.9,
        "ended_by": "length",
        "data_set": FILES,
        "weights": WEIGHTS,
    } | changes.pop("measured", {})
    planned: dict[str, Any] = {"mode": "train", "data": "pvc:imagenet", "training": TRAINING}
    return run(rate, measured=measured, **(planned | changes))
