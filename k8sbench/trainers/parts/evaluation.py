"""How a trainer is evaluated, whatever the framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from k8sbench.trainers.parts.samples import Array


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is summed over the validation samples of all ranks, and the figures that follow.

    Each sample of the validation part is counted exactly once, whatever the number of ranks and the
    batch size.
    """

    # The name of the headline, as in the catalog: "mIoU", "top-1", "accuracy".
    metric: str
    # Samples per forward pass and rank.
    batch_size: int
    # Of (model, inputs, targets, numbers): one batch's sums, a 1-D tensor of the framework whose
    # length is the same for every batch. `numbers` are the samples' numbers in the validation part.
    sums: Callable[[Any, Any, Any, list[int]], Any]
    # From the sums over all samples (float64) to figures in percent, the headline under `metric`.
    figures: Callable[[Array], Mapping[str, float]]
