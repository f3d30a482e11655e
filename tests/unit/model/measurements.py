"""A measurement with something in every field."""

from typing import Any

from k8sbench.model.measurement import (
    AccuracyResult,
    MeasuredWindow,
    Measurement,
    RankTimes,
    Throughput,
)
from k8sbench.model.sample import Place

BEGAN = 1_795_160_000.25
"""The window begins at this moment in November 2026."""
THROUGHPUT = Throughput(
    time_weighted=12.5,
    time_weighted_steady=12.75,
    median=12.6,
    arithmetic=12.4,
    timestamps=None,
    unit="images/s",
)


def measurement(**changes: Any) -> Measurement:
    """Make a measurement with something in every field."""
    fields: dict[str, Any] = {
        "files": ("master-0.log",),
        "format": "k8sbench",
        "impl": "k8sbench",
        "framework": "pytorch",
        "gpus": 1,
        "precision": "fp32",
        "precision_effective": "fp32",
        "batch_size_per_gpu": 2,
        "warmup_iterations": 2,
        "iterations": 8,
        "records": 8,
        "throughput": THROUGHPUT,
        "final_loss": 1.0,
        "accuracy": AccuracyResult(metric="mIoU", best=0.5, final=0.4, unit="%", evaluations=2),
        "time_to_train_s": None,
        "train_wall_s": 1.5,
        "window": MeasuredWindow(
            first_iteration=3,
            last_iteration=10,
            seconds=1.25,
            started_at=BEGAN,
            ended_at=BEGAN + 1.25,
            left_out=(Place(file="master-0.log", line=3),),
            left_out_count=1,
        ),
        "ranks": (RankTimes(rank=0, host="here", mean=0.1, median=0.1, p95=0.2, max=0.3),),
        "environment": {"torch": "2.10.0", "cores": 2, "amp": False, "cuda": None},
        "missing": {"time_to_train_s": "no target"},
        "verdict": "valid",
        "reasons": (),
    }
    return Measurement(**(fields | changes))
