"""Steps: their times, by which a run is measured, number and rates.

A step begins where the one before it ended, so that it holds everything that the loop does: wait
for data, compute, log. The time until its data are there is kept apart. A record covers the steps
since the record before it, and one always ends with the warm-up and one with the measured window,
so that the records of the window add up to it exactly. The device is brought to rest only where a
record ends, or after every step for a benchmark whose upstream does so.
"""

from __future__ import annotations

import contextlib
import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from k8sbench.trainers.parts.settings import Settings


@dataclass(frozen=True)
class StepPlan:
    """Number of steps, and the ends of records."""

    warmup: int
    iterations: int
    log_interval: int
    min_steady_seconds: float = 0.0
    # Steps that were done before this process went on with them.
    done: int = 0
    # A record ends before each evaluation; 0: there are none.
    evaluate_every: int = 0

    @property
    def warm(self) -> int:
        """The number of the last step of the warm-up."""
        return self.done + self.warmup

    @property
    def window_end(self) -> int:
        """The number of the last measured step."""
        return self.warm + self.iterations

    def ends_record(self, step: int) -> bool:
        """True if a record ends with `step`."""
        return (
            step % self.log_interval == 0
            or step == self.warm
            or step == self.window_end
            or (self.evaluate_every > 0 and step % self.evaluate_every == 0)
        )


@dataclass(frozen=True)
class StepRecord:
    """The `steps` steps that end with step number `step` (1-based, warm-up included)."""

    step: int
    of: int
    steps: int
    seconds: float
    data_seconds: float
    # Between the record before and this one, in none of its steps: evaluation, checkpoints.
    paused_seconds: float = 0.0


@dataclass(frozen=True)
class RankWindow:
    """The measured window as one rank saw it."""

    first_step: int
    last_step: int
    seconds: float

    @property
    def steps(self) -> int:
        """The number of measured steps."""
        return self.last_step - self.first_step + 1


def extension(plan: StepPlan, steps_done: int, steady_seconds: float) -> int:
    """Return further steps to fill the steady part's minimum, or 0.

    They are whole log intervals.

    `steady_seconds` is the time since the warm-up ended, over the steps since.
    """
    missing = plan.min_steady_seconds - steady_seconds
    if missing <= 0:
        return 0
    per_step = steady_seconds / max(steps_done - plan.warm, 1)
    needed = math.ceil(missing / per_step) if per_step > 0 else 1
    return math.ceil(needed / plan.log_interval) * plan.log_interval


class StepTimer:
    """Times the steps of one rank.

    ::

        timer.start()
        while timer.another(agree):
            batch = next(data)
            timer.data_ready()
            ...                         # the step itself
            record = timer.step_done()  # a Record where one ends

    `sync` waits until the device is idle. `agree` maps a number to rank 0's number on all ranks
    (a broadcast); it is called only after the window, and only if the run goes on after it.
    """

    def __init__(
        self,
        plan: StepPlan,
        *,
        sync: Callable[[], object] = lambda: None,
        sync_each_step: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.plan = plan
        self.steps = plan.done
        self.target = plan.window_end
        self.step_seconds = array("d")  # of the measured window only
        self._sync = sync
        self._sync_each_step = sync_each_step
        self._clock = clock
        self._step_began = self._record_began = math.nan
        self._warmup_ended = self._window_ended = math.nan
        self._data_wait = 0.0
        self._record_data = 0.0
        self._record_steps = 0
        self._record_paused = 0.0

    def start(self) -> None:
        """Start the clock of the first step."""
        self._sync()
        self._step_began = self._record_began = self._clock()
        if self.plan.warmup == 0:
            self._warmup_ended = self._step_began

    def another(self, agree: Callable[[int], int] = lambda steps: steps) -> bool:
        """True if another step follows; equal on every rank."""
        if self.steps < self.target:
            return True
        if self.plan.min_steady_seconds <= 0:
            return False
        # To the end of the last step: what came after it is in no step's time.
        steady = self._step_began - self._warmup_ended
        more = agree(extension(self.plan, self.steps, steady))
        self.target += more
        return more > 0

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Context whose time counts for no step and no window."""
        self._sync()
        began = self._clock()
        yield
        self._sync()
        paused = self._clock() - began
        self._step_began += paused
        self._record_began += paused
        self._warmup_ended += paused  # NaN, before it has ended, stays NaN
        self._window_ended += paused
        self._record_paused += paused

    def end(self) -> None:
        """End the window with the last step, at which a record ended."""
        self.target = self.steps
        self._window_ended = self._step_began

    def data_ready(self) -> None:
        """The step's data are at hand."""
        self._data_wait = self._clock() - self._step_began

    def step_done(self) -> StepRecord | None:
        """The step is over. Returns the record that ends here, if one does."""
        self.steps += 1
        ends_record = self.plan.ends_record(self.steps)
        if ends_record or self._sync_each_step:
            self._sync()
        now = self._clock()
        seconds = now - self._step_began
        wait = self._data_wait
        if self.plan.warm < self.steps <= self.plan.window_end:
            self.step_seconds.append(seconds)
        self._step_began, self._data_wait = now, 0.0
        self._record_data += wait
        self._record_steps += 1
        if not ends_record:
            return None
        if self.steps == self.plan.warm:
            self._warmup_ended = now
        if self.steps == self.plan.window_end:
            self._window_ended = now
        record = StepRecord(
            step=self.steps,
            of=self.target,
            steps=self._record_steps,
            seconds=now - self._record_began,
            data_seconds=self._record_data,
            paused_seconds=self._record_paused,
        )
        self._record_paused = 0.0
        self._record_began, self._record_data, self._record_steps = now, 0.0, 0
        return record

    def window(self) -> RankWindow:
        """Return the measured window after its last step.

        Without steps, and of unknown length, if the run ended with its warm-up.
        """
        return RankWindow(
            first_step=self.plan.warm + 1,
            last_step=min(self.plan.window_end, self.steps),
            seconds=self._window_ended - self._warmup_ended,
        )


# --- length, evaluations and learning rates -------------------------------------------------------
#
# An epoch is as many whole global batches as the data set has: the rest is left out, as upstreams
# leave it out. Everything that counts epochs (length, schedule, order of samples) asks `course` for
# their steps. A learning rate rule is a pure function from a number of finished steps to a rate:
# each maker returns ``lr(step)`` with `step` counted from 0. Past their end the rules stay at their
# last value: a run that goes on after its window must not divide by what is left.


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


def course(settings: Settings, samples: int, global_batch: int) -> Course:
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
