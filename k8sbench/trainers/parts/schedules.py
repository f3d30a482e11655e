"""Length of a run, its evaluations, and learning rates.

An epoch is as many whole global batches as the data set has: the rest is left out, as upstreams
leave it out. Everything that counts epochs (length, schedule, order of samples, log lines) asks
:func:`plan` for their steps. A learning rate rule is a pure function from a number of finished
steps to a rate: each maker returns ``lr(step)`` with `step` counted from 0. Past their end the
rules stay at their last value: a run that goes on after its window must not divide by what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from k8sbench.trainers.parts.settings import Settings


@dataclass(frozen=True)
class Course:
    """Steps of a run, from 1 to `steps`, with or without restarts."""

    steps: int
    epoch_steps: int
    evaluate_every: int = 0  # steps; 0: at the end only, if at all
    trains: bool = False  # --mode train

    @property
    def epochs(self) -> int:
        """The epochs of the run, the last perhaps not a whole one."""
        return -(-self.steps // self.epoch_steps)

    def evaluates(self, step: int) -> bool:
        """True if the model is evaluated after `step`, and saved with checkpoints."""
        due = self.evaluate_every > 0 and step % self.evaluate_every == 0
        return self.trains and (due or step == self.steps)


def plan(settings: Settings, samples: int, global_batch: int) -> Course:
    """Return the steps for a data set; unknown size 0: one-step epochs."""
    epoch_steps = max(samples // global_batch, 1)
    if settings.mode != "train":
        return Course(steps=settings.warmup + settings.iterations, epoch_steps=epoch_steps)
    unit = epoch_steps if settings.length_unit == "epochs" else 1
    return Course(
        steps=settings.length * unit,
        epoch_steps=epoch_steps,
        evaluate_every=settings.evaluate_every * unit,
        trains=True,
    )


Schedule = Callable[[int], float]


def poly(base: float, total: int, *, power: float = 0.9, minimum: float = 0.0) -> Schedule:
    """Polynomial decay from `base` to `minimum` over `total` steps (mmseg, PaddleSeg)."""

    def lr(step: int) -> float:
        left = 1.0 - min(step, total) / total
        return float((base - minimum) * left**power + minimum)

    return lr


def warmup_cosine(base: float, *, warmup: int, total: int, per: int = 1) -> Schedule:
    """Linear warm-up, then half a cosine to 0, updated every `per` steps.

    `warmup` and `total` are counted in units of `per` steps.
    """

    def lr(step: int) -> float:
        tick = min(step // per, total)
        if tick < warmup:
            return base * (tick + 1) / warmup
        done = (tick - warmup) / max(total - warmup, 1)
        return 0.5 * base * (1.0 + math.cos(math.pi * done))

    return lr


def stepped(base: float, boundaries: Sequence[int], factor: float = 0.1) -> Schedule:
    """`base`, times `factor` from each boundary on."""
    ordered = sorted(boundaries)
    return lambda step: base * factor ** sum(step >= boundary for boundary in ordered)
