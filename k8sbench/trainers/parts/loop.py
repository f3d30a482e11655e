"""The course of a run, which is the same with both frameworks.

A trainer describes its `Work`; `begin` tells who runs what and meets the other ranks; a `Loop`
takes the steps, reports the records, keeps evaluations apart and tells the end. What a step does
is the framework's part, in `torch_loop` and `paddle_loop`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from k8sbench.trainers.parts.events import Journal, Place
from k8sbench.trainers.parts.lines import Progress
from k8sbench.trainers.parts.schedules import Schedule
from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.steps import Meters, Record, StepPlan, StepTimer, Window


class Session(Protocol):
    """What a run needs of a framework's session: one rank, its device and its peers."""

    settings: Settings
    place: Place

    @property
    def device_kind(self) -> str:
        """The device as the start line names it: "cpu" or "cuda"."""

    @property
    def precision_effective(self) -> str:
        """What the arithmetic really is: "fp32" or "amp"."""

    def synchronises(self, sync_bn: bool) -> bool:
        """Whether batch norm is synchronised here if upstream has it so."""

    def connect(self) -> None:
        """Meet the other ranks; returns once all are there."""

    def wait_for_all(self) -> None:
        """Return once every rank is here."""

    def environment(self) -> dict[str, object]:
        """What is known of this rank's machine and libraries."""

    def sync(self) -> None:
        """Wait until the device has done all it was given."""

    def agree(self, number: int) -> int:
        """Rank 0's number, on every rank."""

    def memory_mib(self) -> float | None:
        """The most GPU memory that tensors held so far; None without a GPU."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What makes one trainer different from another, as far as no framework has a part in it."""

    unit: str
    momentum: float
    weight_decay: float
    schedule: Schedule
    line: Callable[[Progress], str]
    sync_bn: bool = False
    # The fewest samples that batch norm can take the statistics of: 2 where it sees one pixel.
    norm_batch: int = 1
    record_at: int = 0
    # Batch norm in evaluation mode and no dropout: for checks of equality, not for measuring.
    frozen_norm: bool = False
    # No dropout, and batch norm as it trains: for checks of equality with synchronised batch norm.
    no_dropout: bool = False
    # Called with the session and the bare model after every `evaluate_every` steps; its values
    # are an event.
    evaluate: Callable[[Any, Any], Mapping[str, float]] | None = None
    evaluate_every: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a finished run leaves behind on one rank."""

    parameters: int
    window: Window
    final_loss: float


def begin(
    work: Work,
    here: Session,
    *,
    framework: str,
    framework_version: str,
    options: Mapping[str, object],
) -> Journal:
    """Tell who runs what and meet the other ranks; what cannot run ends before it says a word."""
    settings, place = here.settings, here.place
    sharing = settings.batch_size * (place.world_size if here.synchronises(work.sync_bn) else 1)
    if sharing < work.norm_batch and not work.frozen_norm:
        refuse(f"--batch-size must be at least {work.norm_batch} here: batch norm needs it")
    journal = Journal(settings, place, unit=work.unit)
    journal.start(
        framework=framework,
        framework_version=framework_version,
        device=here.device_kind,
        precision_effective=here.precision_effective,
        options=options,
    )
    here.connect()
    journal.environment(here.environment())
    return journal


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
        self.plan = StepPlan(
            warmup=settings.warmup,
            iterations=settings.iterations,
            log_interval=settings.log_interval,
            min_steady_seconds=settings.min_steady_seconds,
            record_at=work.record_at,
        )
        self.timer = StepTimer(self.plan, sync=here.sync, sync_each_step=sync_each_step)

    @abc.abstractmethod
    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets on the device, without end."""

    @abc.abstractmethod
    def step(self, inputs: Any, targets: Any, lr: float) -> None:
        """Train on one batch at the rate `lr`, and `keep` the values that upstream reads."""

    @abc.abstractmethod
    def layers(self) -> Any:
        """All layers of the model, at any depth."""

    def train_mode(self) -> None:
        """Put the model into training mode, but for what the work wants frozen."""
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
        """Take a step's values, as they are printed."""
        for name, number in zip(names, numbers, strict=True):
            self.meters.add(name, number)
            if name == "loss":
                self.last_loss = number

    def to_its_end(self) -> Outcome:
        """Take all steps; the outcome once every line is written."""
        work, here, timer = self.work, self.here, self.timer
        batches = self.batches()
        timer.start()
        while timer.another(here.agree):
            inputs, targets = next(batches)
            timer.data_ready()
            lr = work.schedule(timer.steps)
            self.step(inputs, targets, lr)
            record = timer.step_done()
            if record is not None and here.place.first:
                self._report(record, lr)
            if work.evaluate_every and timer.steps % work.evaluate_every == 0:
                self._evaluate()
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

    def _evaluate(self) -> None:
        if self.work.evaluate is None:
            return
        self.timer.hold("evaluation")
        self.bare.eval()
        values = self.work.evaluate(self.here, self.bare)
        self.train_mode()
        if self.here.place.first:
            self.journal.event("evaluation", {"step": self.timer.steps, **values})

    def _finish(self) -> Outcome:
        here, timer, window = self.here, self.timer, self.timer.window()
        # Asked anew, before the GPU that has just been at work comes to rest.
        machine = here.environment()
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
                final_loss=self.last_loss,
                max_memory_mib=here.memory_mib(),
                machine=machine,
                more=self.more(),
            )
        return Outcome(self.parameters, window, self.last_loss)
