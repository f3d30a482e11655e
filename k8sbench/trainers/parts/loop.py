"""The course of a run, which is the same with both frameworks.

A trainer describes its `Work`; `begin` writes the first lines and meets the other ranks; a `Loop`
takes the steps and writes the records and the last lines. What a step does is in `torch_loop` and
`paddle_loop`.
"""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from k8sbench.trainers.parts import course, gpu_samples
from k8sbench.trainers.parts.arithmetic import Tally, statement
from k8sbench.trainers.parts.course import Course
from k8sbench.trainers.parts.evaluation import Evaluation
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.lines import Progress
from k8sbench.trainers.parts.samples import Files
from k8sbench.trainers.parts.schedules import Schedule
from k8sbench.trainers.parts.session import Session
from k8sbench.trainers.parts.settings import refuse
from k8sbench.trainers.parts.steps import Meters, Record, StepPlan, StepTimer, Window


@dataclass(frozen=True, kw_only=True)
class Work:
    """What makes one trainer different from another, whatever the framework."""

    unit: str
    momentum: float
    weight_decay: float
    schedule: Callable[[Course], Schedule]
    line: Callable[[Progress], str]
    # Samples of upstream's data set, by which synthetic data have epochs; 0: they have none.
    epoch_samples: int = 0
    # Opens the folder of `--data DIR`, or raises `DataError`; None: the trainer reads no files.
    files: Callable[[Path], Files] | None = None
    # How it is evaluated on the validation part of its files.
    evaluation: Callable[[Files], Evaluation] | None = None
    # Mean and standard deviation of RGB values of 0-255, of inputs that are uint8.
    normalise: tuple[Sequence[float], Sequence[float]] | None = None
    sync_bn: bool = False
    # The fewest samples that batch norm can take the statistics of: 2 where it sees one pixel.
    norm_batch: int = 1
    record_at: int = 0
    # Batch norm in evaluation mode and no dropout: for checks of equality, not for measuring.
    frozen_norm: bool = False
    # No dropout, and batch norm as it trains: for checks of equality with synchronised batch norm.
    no_dropout: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a finished run leaves behind on one rank."""

    parameters: int
    window: Window
    final_loss: float


def begin(work: Work, here: Session, options: Mapping[str, object]) -> Journal:
    """Write the first lines and meet the other ranks, unless batch norm has too few samples."""
    settings, place = here.settings, here.place
    sharing = settings.batch_size * (place.world_size if here.synchronises(work.sync_bn) else 1)
    if sharing < work.norm_batch and not work.frozen_norm:
        refuse(f"--batch-size must be at least {work.norm_batch} here: batch norm needs it")
    return here.begin(work.unit, options)


W = TypeVar("W", bound=Work)
S = TypeVar("S", bound=Session)


class Loop(abc.ABC, Generic[W, S]):
    """One rank's run from its first step to its last line."""

    # The framework's own kinds of layer.
    norms: ClassVar[tuple[Any, ...]]
    dropouts: ClassVar[tuple[Any, ...]]
    # Set by the framework's part when it builds the model.
    bare: Any
    model: Any
    parameters: int
    sync_bn: bool

    def __init__(self, work: W, here: S, journal: Journal, *, sync_each_step: bool = False) -> None:
        settings = here.settings
        self.work, self.here, self.journal = work, here, journal
        self.meters = Meters()
        self.last_loss = math.nan
        self.course = course.plan(
            settings, work.epoch_samples, settings.batch_size * here.place.world_size
        )
        self.schedule = work.schedule(self.course)
        self.plan = StepPlan(
            warmup=settings.warmup,
            iterations=settings.iterations,
            log_interval=settings.log_interval,
            min_steady_seconds=settings.min_steady_seconds,
            record_at=work.record_at,
        )
        self.timer = StepTimer(self.plan, sync=here.sync, sync_each_step=sync_each_step)
        self.gpu_samples = gpu_samples.Sampler(journal)

    @abc.abstractmethod
    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets on the device, without end."""

    @abc.abstractmethod
    def step(self, inputs: Any, targets: Any, lr: float) -> None:
        """Train on one batch at the rate `lr`, and `keep` the values that upstream reads."""

    @abc.abstractmethod
    def watch(self, tally: Tally) -> contextlib.AbstractContextManager[object]:
        """Count the operations that run inside by their types."""

    @property
    def types_by(self) -> str:
        """How `watch` knows the types."""
        return "seen"

    def noting(self) -> contextlib.AbstractContextManager[None]:
        """The context of a step's forward pass: in the first one its arithmetic is noted.

        That is part of the warm-up, or nothing is noted; nor is it of a compiled model, whose
        operations are joined and keep other types in between.
        """
        if self.timer.steps or not self.plan.warmup or self.here.settings.compile:
            return contextlib.nullcontext()
        return self._noting()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        tally = Tally()
        with self.watch(tally):
            yield
        types = tally.types()
        if types and self.here.place.first:
            self.journal.arithmetic(statement(types, by=self.types_by))

    @abc.abstractmethod
    def layers(self) -> Any:
        """All layers of the model, at any depth."""

    def train_mode(self) -> None:
        """Put the model into training mode, except what the work has frozen."""
        self.model.train()
        frozen: tuple[Any, ...] = self.norms if self.work.frozen_norm else ()
        if self.work.frozen_norm or self.work.no_dropout:
            frozen += self.dropouts
        for layer in self.layers():
            if isinstance(layer, frozen):
                layer.eval()

    def grad_scale(self) -> float:
        """What the loss is multiplied by."""
        return 1.0

    def more(self) -> Mapping[str, object]:
        """Further fields of the summary."""
        return {}

    def keep(self, names: Sequence[str], numbers: Sequence[float]) -> None:
        """Record a step's values, as they are printed."""
        for name, number in zip(names, numbers, strict=True):
            self.meters.add(name, number)
            if name == "loss":
                self.last_loss = number

    def to_its_end(self) -> Outcome:
        """Take all steps; the outcome once every line is written."""
        timer = self.timer
        batches = self.batches()
        self.gpu_samples.start(self.here.gpu_names())
        timer.start()
        while timer.another(self.here.agree):
            inputs, targets = next(batches)
            timer.data_ready()
            lr = self.schedule(timer.steps)
            self.step(inputs, targets, lr)
            record = timer.step_done()
            if record is not None and self.here.place.first:
                self._report(record, lr)
        return self._finish()

    def _report(self, record: Record, lr: float) -> None:
        readings = self.meters.close()
        memory = self.here.memory_mib()
        self.journal.text(
            self.work.line(
                Progress(
                    at=datetime.now().astimezone(),
                    record=record,
                    batch_size_per_gpu=self.here.settings.batch_size,
                    world_size=self.here.place.world_size,
                    lr=lr,
                    values=readings,
                    memory_mib=memory,
                    grad_scale=self.grad_scale(),
                )
            )
        )
        self.journal.step(record, loss=readings["loss"].mean, lr=lr, memory_mib=memory)

    def _finish(self) -> Outcome:
        here, timer, window = self.here, self.timer, self.timer.window()
        # Asked anew, while the GPU still has the clocks of its work.
        machine = here.environment()
        self.gpu_samples.stop()
        self.journal.rank(timer.step_seconds, timer.data_seconds, machine)
        here.wait_for_all()  # the summary is the job's last line, after the other ranks' own
        if here.place.first:
            self.journal.summary(
                self.plan,
                window,
                steps=timer.steps,
                parameters=self.parameters,
                precision_effective=here.precision_effective,
                sync_bn=self.sync_bn,
                norm="SyncBatchNorm" if self.sync_bn else "BatchNorm",
                final_loss=self.last_loss,
                max_memory_mib=here.memory_mib(),
                machine=machine,
                **self.more(),
            )
        return Outcome(self.parameters, window, self.last_loss)
