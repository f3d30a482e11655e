"""How long a run trains, and where it is evaluated and saved. Imports no framework.

An epoch is as many whole global batches as the data set has: the rest is left out, as upstreams
leave it out. Everything that counts epochs (length, schedule, order of samples, log lines) asks
this module for their steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from k8sbench.trainers.parts.settings import Settings


@dataclass(frozen=True)
class Course:
    """The steps of a run, from 1 to `steps`, whether or not it was resumed in between."""

    steps: int
    epoch_steps: int
    evaluate_every: int = 0  # steps; 0: at the end only, if at all
    checkpoint_every: int = 0  # steps, besides where it is evaluated; 0: only there
    trains: bool = False  # --mode train

    @property
    def epochs(self) -> int:
        """The epochs of the run, the last perhaps not a whole one."""
        return -(-self.steps // self.epoch_steps)

    def evaluates(self, step: int) -> bool:
        """Whether the model is evaluated after `step`."""
        due = self.evaluate_every > 0 and step % self.evaluate_every == 0
        return self.trains and (due or step == self.steps)

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is due after `step`, if there are checkpoints at all."""
        return self.evaluates(step) or (
            self.checkpoint_every > 0 and step % self.checkpoint_every == 0
        )


def plan(settings: Settings, samples: int, global_batch: int) -> Course:
    """The course of a run on a data set of `samples`; 0: not known, one step is an epoch."""
    epoch_steps = max(samples // global_batch, 1)
    if settings.mode != "train":
        return Course(steps=settings.warmup + settings.iterations, epoch_steps=epoch_steps)
    unit = epoch_steps if settings.length_unit == "epochs" else 1
    return Course(
        steps=settings.length * unit,
        epoch_steps=epoch_steps,
        evaluate_every=settings.evaluate_every * unit,
        checkpoint_every=settings.checkpoint_every,
        trains=True,
    )
