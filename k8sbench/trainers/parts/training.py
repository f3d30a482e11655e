"""Training to an accuracy, between the steps: evaluation, target, checkpoints, AI-Rank's lines.

AI-Rank's rules name the lines `AI-Rank-log <unix time> …`; its time to train is counted from the
first `test_begin` to the first evaluation that reaches the target, whatever happened in between: a
run that goes on from a checkpoint goes on from that time, too (`Stopwatch`).

A checkpoint holds the whole state after any step, gradients that wait for more batches included. An
evaluation that SIGTERM cuts short is due again: the checkpoint of its step says so, the run ends,
and who goes on from there begins with that evaluation.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts import checkpoints, ending, watch
from k8sbench.trainers.parts.checkpoints import Checkpoints
from k8sbench.trainers.parts.events import rate
from k8sbench.trainers.parts.samples import Array, Files, Ledger, Reader, ValidationBatches
from k8sbench.trainers.parts.settings import refuse
from k8sbench.trainers.parts.steps import RankWindow

# Steps in a row whose loss is no number: overflows that a scaler leaves out have a finite one.
NOT_FINITE_STEPS = 100


@dataclass
class Reached:
    """Progress of a run: the facts of its checkpoints."""

    evaluations: int = 0
    best: dict[str, float] | None = None  # value, in percent, and step
    target: float | None = None  # percent
    target_seconds: float | None = None  # by the stopwatch; NaN: it is not known


class Training:
    """The course of one rank of --mode train; `run` is its `loop.Run`."""

    def __init__(self, run: Any, files: Files, broken: Ledger) -> None:
        work, settings = run.work, run.here.settings
        self.run, self.files, self.broken = run, files, broken
        self.evaluation = work.evaluation(files)
        self.batches = run.here.files(
            Reader(files.validation, settings.seed),
            ValidationBatches(len(files.validation), self.evaluation.batch_size, run.here.place),
        )
        self.reached = Reached(target=settings.target)
        self.watch = Stopwatch()
        self.resumed = False
        self.ended_by = "length"
        self.checkpoints = None
        self.due = False  # whether a rank wants a checkpoint after this step
        self.ends = False  # whether the run ends with it
        self.was_cut = False  # whether the evaluation before it did not come to its end
        self.not_finite = 0  # steps
        self.saved_at = math.nan
        if settings.checkpoints is not None:
            ending.save_first()
            self.checkpoints = Checkpoints(
                Path(settings.checkpoints),
                same=self._same(),
                rank=run.here.place.rank,
                agree=run.here.agree,
                all_fine=run.here.all_fine,
            )

    def _same(self) -> dict[str, object]:
        """Settings that a later attempt must not change."""
        settings = self.run.here.settings
        names = ("benchmark", "recipe", "batch_size", "amp_dtype", "seed", "length_unit")
        return {
            **{name: getattr(settings, name) for name in names},
            "ranks": self.run.here.place.world_size,
            "parameters": self.run.parameters,
            **self.run.journal.options,
            "lr of the first step": self.run.schedule(0),
            "data": self.files.digest,
            "start weights": self.run.start_weights,
            "form of the state": checkpoints.FORM,
        }

    def resume(self) -> int:
        """Put back the newest checkpoint; the steps that are done. 0: there is none."""
        if self.checkpoints is None:
            return 0
        checkpoint = self.checkpoints.latest()
        for sentence in self.checkpoints.damaged.values():
            print(f"k8sbench: {sentence}", file=sys.stderr, flush=True)
        if checkpoint is None:
            return 0
        if checkpoint.step > (steps := self.run.course.steps):
            refuse(
                f"{checkpoint.folder} is of step {checkpoint.step}: a run of {steps} ends before"
            )
        here = self.run.here
        common = checkpoint.rank_folder(0)
        own = checkpoint.rank_folder(here.place.rank)
        checkpoints.restore_state(common, own, self.run)
        target = self.reached.target
        self.reached = Reached(**checkpoint.facts["reached"])
        if self.reached.target != target:  # what was reached is another one
            self.reached.target, self.reached.target_seconds = target, None
        self.resumed = True
        self.broken.found |= set(checkpoint.facts["broken"])
        self.was_cut = checkpoint.facts["was_cut"]
        self.watch.resume(checkpoint.facts["watch"])
        self._event("resume", {"step": checkpoint.step, "restored": checkpoint.folder.name})
        return checkpoint.step

    def begin(self) -> None:
        """The first step is next."""
        self._airank(f"load_data, checksum:{self.files.digest}")
        if not self.resumed:
            self.watch = Stopwatch()
            self._airank("test_begin")
            self._event("begin", {"boot": self.watch.boot, "clock": self.watch.origin})
        if self.was_cut:
            self._evaluate(step := self.run.timer.steps)
            if self.was_cut:  # again, as the checkpoint that it came from says
                ending.end()
            self._save(step)
        self.saved_at = time.monotonic()
        self._end_at_target()

    def look(self) -> None:
        """Learn from all ranks if one wants a checkpoint.

        By time, or at its end. Called in each step where the host waits for the device anyway:
        elsewhere every look would be too dear.
        """
        if self.checkpoints is None:
            return
        every = self.run.here.settings.checkpoint_every
        is_late = 0 < every <= time.monotonic() - self.saved_at
        told, late = self.run.here.total(np.array([float(ending.told.is_set()), float(is_late)]))
        self.ends |= bool(told)
        self.due = bool(told or late)

    def after(self, step: int) -> None:
        """Do what is due after `step`: the same on every rank."""
        course = self.run.course
        self._check_loss()
        saves = self.checkpoints is not None and (self.due or course.evaluates(step))
        if not (saves or course.evaluates(step)):
            return
        with self.run.timer.pause():
            if course.evaluates(step):
                self._evaluate(step)
            if saves:
                self._save(step)
        if self.ends and (self.was_cut or step < course.steps):
            ending.end()
        self._end_at_target()

    def _check_loss(self) -> None:
        """End a run whose loss is no number any more."""
        self.not_finite = 0 if math.isfinite(self.run.last_loss) else self.not_finite + 1
        if self.not_finite == NOT_FINITE_STEPS:
            refuse(
                f"the loss was {self.run.last_loss} in {NOT_FINITE_STEPS} steps in a row: the run "
                "diverged; look at the learning rate, the data and the precision"
            )

    def _end_at_target(self) -> None:
        """End the run at its target, if requested."""
        reached = int(self.reached.target_seconds is not None)
        if self.run.here.settings.stop_at_target and self.run.here.agree(reached):
            self.ended_by = "target"
            self.run.timer.end()

    def _evaluate(self, step: int) -> None:
        began = time.monotonic()
        run, settings, evaluation = self.run, self.run.here.settings, self.evaluation
        total, counted = self._sums()
        if self.was_cut:
            return
        figures = {
            name: float(value) if math.isfinite(value) else None
            for name, value in (evaluation.figures(total) if counted else {}).items()
        }
        self.broken.gather_numbers(run.here.total)
        now = time.time()
        elapsed = self.watch.seconds()
        value = figures.get(evaluation.metric)
        target = settings.target
        # What some of the samples reach says nothing of all of them.
        is_whole = counted == len(self.files.validation)
        reached = None if target is None else is_whole and value is not None and value >= target
        epoch = step / run.course.epoch_steps
        told = self.reached
        told.evaluations += 1
        if value is not None and (told.best is None or value > told.best["value"]):
            told.best = {"value": value, "step": step}
        self._event(
            "evaluation",
            {
                "step": step,
                "epoch": epoch,
                "metric": evaluation.metric,
                "value": value,
                "unit": "%",
                "figures": figures,
                "samples": counted,
                "of": len(self.files.validation),
                "seconds": time.monotonic() - began,
                "elapsed": elapsed,
                "target": target,
                "reached": reached,
            },
        )
        if value is not None:
            self._airank(f"eval_accuracy:{value / 100:.6f}, total_epoch_cnt:{epoch:.6g}", now)
        if reached and told.target_seconds is None:
            told.target_seconds = elapsed
            self._airank_seconds("target_quality_time", elapsed, now)

    def _sums(self) -> tuple[Array, int]:
        """The evaluation's sums over all validation samples that can be read, and their number."""
        run, here, evaluation = self.run, self.run.here, self.evaluation
        run.share_statistics()
        run.bare.eval()
        total: Any = None
        counted = 0
        fewest = len(self.files.validation) // here.place.world_size  # samples of a rank
        of_each = math.ceil(fewest / evaluation.batch_size)
        watch.at("in an evaluation")
        with here.inference(), here.autocast():
            for number, (inputs, targets, note) in enumerate(self.batches):
                watch.alive()
                told = np.array([float(ending.told.is_set())])
                # Every rank has that many batches: the others learn that one of them is told.
                if self.checkpoints is not None and number < of_each:
                    told = here.total(told)
                if told[0]:
                    break
                numbers = self.broken.read("val", note)
                if numbers:
                    pair = here.on_device(inputs, targets, run.work.normalise)
                    sums = here.exact(evaluation.sums(run.bare, *pair, numbers))
                    total = sums if total is None else total + sums
                    counted += len(numbers)
        run.train_mode()
        # A rank without samples learns from the others how many sums there are.
        mine = np.zeros(0) if total is None else here.array(total)
        facts = [len(mine), total is not None, ending.told.is_set()]
        lengths, ranks, cut = here.total(np.array(facts, np.float64))
        self.was_cut = self.ends = bool(cut)  # it is made again by who goes on from here
        length = round(lengths / ranks) if ranks else 0
        summed = here.total(np.append(mine if len(mine) else np.zeros(length), counted))
        return summed[:-1], round(summed[-1])

    def _save(self, step: int) -> None:
        assert self.checkpoints is not None
        broken = self.broken.gather_numbers(self.run.here.total)
        facts = {
            "reached": dataclasses.asdict(self.reached),
            "broken": broken,
            "was_cut": self.was_cut,
            "watch": self.watch.state(),
        }
        watch.at("in a checkpoint")
        write = partial(checkpoints.save_state, run=self.run)
        began = time.monotonic()
        failed = self.checkpoints.save(step, write, facts)
        self.saved_at = time.monotonic()
        told = {"step": step, "seconds": self.saved_at - began}
        self._event("checkpoint", {**told, "failed": failed} if failed else told)

    def finish(self, window: RankWindow) -> Mapping[str, object]:
        """Write the last lines; the summary's fields."""
        now = time.time()
        told = self.reached
        self._airank("test_finish", now)
        self._airank_seconds("total_use_time", self.watch.seconds(), now)
        settings, place = self.run.here.settings, self.run.here.place
        samples = window.steps * settings.batch_size * place.world_size
        speed = rate(samples, window.seconds) if window.steps > 0 else None
        if speed is not None:
            self._airank(f"avg_ips:{speed:.3f}{self.run.work.unit}/sec", now)
        return {
            "evaluations": told.evaluations,
            "best": told.best,
            "time_to_target_seconds": told.target_seconds,
            "ended_by": self.ended_by,
        }

    def _event(self, name: str, fields: Mapping[str, object]) -> None:
        if self.run.here.place.first:
            self.run.journal.timed(name, fields)

    def _airank(self, what: str, at: float | None = None) -> None:
        if self.run.here.place.first:
            self.run.journal.write(f"AI-Rank-log {time.time() if at is None else at:.3f} {what}")

    def _airank_seconds(self, what: str, seconds: float, at: float) -> None:
        if math.isfinite(seconds):
            self._airank(f"{what}:{seconds:.2f}sec", at)


# -- the time of all attempts ----------------------------------------------------------------------

BOOT = Path("/proc/sys/kernel/random/boot_id")
SET_SECONDS = 5.0  # a wall clock that leaves the monotonic one by more was set


def boot_id() -> str | None:
    """Identity of the machine's start; None if it has none."""
    try:
        return BOOT.read_text().strip() or None
    except (OSError, ValueError):
        return None


class Stopwatch:
    """Seconds since a training began, over all its attempts.

    The wall clock may be set at any moment, so each attempt is timed by the monotonic clock. It
    counts from the machine's start: between two attempts it counts on where the second one runs on
    the same machine. Elsewhere the pause is by the wall clocks of both, as long as they agree: NaN
    where only a wall clock that was set would tell it.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], str | None] = boot_id,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self.boot = boot()
        self.origin = monotonic()
        self._ahead = wall() - self.origin
        self._needs_wall = False

    def seconds(self) -> float:
        """Seconds since the start."""
        if self._needs_wall and not self._is_steady():
            return math.nan
        return self._monotonic() - self.origin

    def _is_steady(self) -> bool:
        """True if nobody has set the wall clock in this attempt."""
        return abs(self._wall() - self._monotonic() - self._ahead) < SET_SECONDS

    def state(self) -> dict[str, object]:
        """The state that `resume` needs, as plain JSON."""
        wall = self._wall() if self._is_steady() else math.nan
        now = self._monotonic()
        return {"seconds": self.seconds(), "boot": self.boot, "clock": now, "time": wall}

    def resume(self, state: Mapping[str, object]) -> None:
        """Go on from another attempt's `state`, the pause included."""
        seconds, clock, at = (float(str(state[name])) for name in ("seconds", "clock", "time"))
        now = self._monotonic()
        self._needs_wall = self.boot is None or self.boot != state["boot"]
        pause = self._wall() - at if self._needs_wall else now - clock
        self.origin = now - seconds - (pause if pause >= 0 else math.nan)
