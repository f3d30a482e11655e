"""The course of a run, which is the same with both frameworks.

A trainer describes its `Work`, and its step stands in the trainer itself::

    def train(run):
        for step in run.steps():
            ...  # forward pass, backward pass, update

    torch_session.run(work, settings, train)

`Run.steps` brings each batch, times the steps, writes the records and the last lines, and evaluates
and saves between the steps.
"""

from __future__ import annotations

import abc
import contextlib
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from k8sbench.trainers.parts import nvml, steps, watch, weights
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.metrics import Scoring
from k8sbench.trainers.parts.samples import (
    Files,
    Ledger,
    Normalise,
    Part,
    Reader,
    Samples,
    TrainingBatches,
    opened,
    source,
)
from k8sbench.trainers.parts.session import Session
from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.steps import Course, Schedule, StepPlan, StepRecord, StepTimer
from k8sbench.trainers.parts.training import Training

# The frameworks' own first scale; it halves itself until gradients are finite.
DYNAMIC_SCALE = 65536.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """Definition of one trainer, for both frameworks."""

    unit: str
    # Of a sample, in that unit: the tokens of a sequence.
    per_sample: int = 1
    # The data parallel model, of a `Session`.
    model: Callable[[Any], Any]
    # Steps, of a batch each, whose gradients are averaged before the weights change.
    accumulate: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Callable[[Course], Schedule]
    samples: Samples  # synthetic
    # Samples of upstream's data set, by which synthetic data have epochs; 0: they have none.
    epoch_samples: int = 0
    # Opens the folder of `--data DIR`, or raises `DataError`; None: the trainer reads no files.
    files: Callable[[Path], Files] | None = None
    # How it is evaluated on the validation part of its files.
    evaluation: Callable[[Files], Scoring] | None = None
    # Mean and standard deviation of RGB values of 0-255, of inputs that are uint8.
    normalise: Normalise | None = None
    sync_bn: bool = False
    # More for the framework's data parallelism.
    ddp: Mapping[str, Any] = field(default_factory=dict)
    sync_each_step: bool = False
    # The types of its operations under AMP, where it is stated (`segmentation`).
    amp_types: Mapping[str, str] = field(default_factory=dict)
    # The kind of norm that the summary names, if it is not synchronised.
    norm: str = "BatchNorm"
    # The fewest samples that batch norm can take the statistics of: 2 where it sees one pixel.
    norm_batch: int = 1
    # What of the trainer's own options the summary repeats.
    summary: Callable[[Any], Mapping[str, object]] = lambda _: {}
    # fp16 only: a fixed scale, under which no step is left out and the device is never asked for an
    # overflow (as in mmcv and in apex), or None for one that adapts.
    static_scale: float | None = None
    # Whether the printed values are means over the ranks (a collective each step) or rank 0's. They
    # are with `frozen_norm` and `no_dropout`, too.
    mean_values: bool = False
    # The trainer's own options, for the start line, of a `Session`.
    options: Callable[[Any], Mapping[str, object]] = lambda _: {}

    # PyTorch only. Parameter groups as torch.optim takes them; a group's "lr_mult" (default 1)
    # multiplies the rate that the schedule gives.
    groups: Callable[[Any], Iterable[Any]] = lambda model: model.parameters()
    # Makes the optimizer of groups, `lr` and `fused`; None: SGD, by momentum and weight decay.
    optimizer: Callable[..., Any] | None = None

    # Paddle only. A layer, of a `Session`, of which every rank trains a part of its own.
    sharded: Callable[[Any], Any] | None = None
    # Whether upstream counts batch norm's statistics among the model's parameters.
    statistics_are_parameters: bool = False
    # Paddle's own switches, as upstream sets them; on GPUs only.
    flags: Mapping[str, object] = field(default_factory=dict)
    # Additions to the lists of operators that AMP takes or leaves.
    amp_lists: Mapping[str, Any] = field(default_factory=dict)
    # fp16 only: where a scale that adapts begins.
    initial_scale: float = DYNAMIC_SCALE


@dataclass(frozen=True)
class Step:
    """One step: its batch, on the device, and what its number says."""

    inputs: Any
    targets: Any
    lr: float
    # False: its gradients are kept for the next step, and the weights stay.
    updates: bool


Printed = tuple[Sequence[str], Any]
"""Names of a step's values, and the values in one vector on the device."""


def begin(work: Work, here: Session, options: Mapping[str, object]) -> tuple[Journal, Files | None]:
    """Open the data, write the first lines, and meet the other ranks.

    Exits if batch norm has too few samples.
    """
    settings, place = here.settings, here.place
    _check_window(settings, work.accumulate)
    sharing = settings.batch_size * (place.world_size if here.synchronises(work.sync_bn) else 1)
    if sharing < work.norm_batch and not settings.frozen_norm:
        refuse(f"--batch-size must be at least {work.norm_batch} here: batch norm needs it")
    files = opened(work.files, settings, place)
    per_step = settings.batch_size * place.world_size * work.per_sample
    journal = here.begin(work.unit, {**options, **settings.checks}, per_step)
    if files is not None and place.first:
        parts = {"train": len(files.training), "val": len(files.validation) or None}
        journal.timed("data", {"name": files.name, **parts, "digest": files.digest})
    # Compiling joins operations, which then keep other types in between.
    half = settings.amp_dtype if here.precision_effective == "amp" else None
    if work.amp_types and half is not None and place.first and not settings.compile:
        journal.arithmetic(work.amp_types, half)
    return journal, files


def _check_window(settings: Settings, accumulate: int) -> None:
    """Exit unless the weights change with the last step of warm-up and window."""
    if settings.mode == "train":
        return
    asked = (settings.warmup, settings.iterations)
    whole = [math.ceil(steps / accumulate) * accumulate for steps in asked]
    if whole != [*asked]:
        refuse(
            "--warmup {} and --iterations {} must be multiples of --accumulate".format(*asked)
            + f" {accumulate}, as --warmup {whole[0]} and --iterations {whole[1]} are"
        )


class FixedScaler:
    """Gradient scaler with one scale, under which no overflow is looked for."""

    def __init__(
        self, scale: Any, parameters: Iterable[Any], unscale: Callable[[list[Any], Any], object]
    ) -> None:
        """`unscale` divides gradients by the scale, by one operation for all."""
        self.factor = scale
        self.parameters = list(parameters)
        self.unscale = unscale

    def scale(self, loss: Any) -> Any:
        """Return the scaled loss."""
        return loss * self.factor

    def step(self, optimizer: Any) -> None:
        """Unscale the gradients, and change the weights."""
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        self.unscale(gradients, self.factor)
        optimizer.step()

    def update(self) -> None:
        """Keep the scale."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing that a checkpoint keeps."""
        return {}


S = TypeVar("S", bound=Session)


class Run(abc.ABC, Generic[S]):
    """One rank's run from its first step to its last line."""

    # The framework's own kinds of layer.
    norms: ClassVar[tuple[Any, ...]]
    dropouts: ClassVar[tuple[Any, ...]]
    # Made by `prepare`.
    optimizer: Any
    scaler: Any

    def __init__(self, work: Work, here: S, journal: Journal, files: Files | None) -> None:
        self.work, self.here, self.journal, self.files = work, here, journal, files
        self.losses: list[float] = []  # since the record before
        self.last_loss = math.nan
        global_batch = here.settings.batch_size * here.place.world_size
        samples = work.epoch_samples if files is None else len(files.training)
        self.course = steps.course(here.settings, samples, global_batch)
        if self.course.steps < work.accumulate:
            refuse(
                f"{self.course.steps} steps never change the weights with --accumulate"
                f" {work.accumulate}; give a longer --length"
            )
        self.schedule = work.schedule(self.course)
        self._plan(done=0)
        self.gpu_samples = nvml.Sampler(journal)
        # None: the data are synthetic.
        self.broken = None if files is None else Ledger(files, journal)
        self.training: Training | None = None
        here.seed()
        self.bare = work.model(here)
        self.parameters = self.count_parameters()
        self.start_weights = self._load_weights()
        self.model, self.sync_bn = here.prepare(self.bare, sync_bn=work.sync_bn, **work.ddp)
        self.sharded: Any = None
        self.prepare()
        here.seed(1 + here.place.rank)  # ranks drop out different units
        if self.course.trains and self.files is not None and self.broken is not None:
            self.training = Training(self, self.files, self.broken)
            self._plan(done=self.training.resume())

    def _plan(self, *, done: int) -> None:
        """Time the steps that are left after those that an earlier process has done."""
        settings, course = self.here.settings, self.course
        self.plan = StepPlan(
            warmup=settings.warmup,
            iterations=course.steps - done - settings.warmup,
            log_interval=settings.log_interval,
            min_steady_seconds=0.0 if course.trains else settings.min_steady_seconds,
            done=done,
            evaluate_every=course.evaluate_every,
        )
        self.timer = StepTimer(
            self.plan, sync=self.here.sync, sync_each_step=self.work.sync_each_step
        )

    @abc.abstractmethod
    def count_parameters(self) -> int:
        """The parameters of the bare model, as upstream counts them."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Put the model into training mode, and make the optimizer and the scaler."""

    def _load_weights(self) -> str | None:
        """Put the weights that the settings name into the model, before it is distributed.

        Returns their SHA-256, hex; None without.
        """
        if self.here.settings.weights is None:
            return None
        path = Path(self.here.settings.weights)
        tensors = self.bare.state_dict()
        if not any("backbone." in name for name in tensors):
            refuse("--weights: this trainer's model takes none; it begins from scratch")
        loaded = weights.load(path, tensors, self.here.saved, self.here.put)
        if self.here.place.first:
            self.journal.timed("weights", vars(loaded))
        return loaded.digest

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets on the device, without end."""
        if self.files is None or self.broken is None:
            return source(self.work.samples, self.here, self.work.normalise)
        return self._training_batches(self.files.training, self.broken)

    def _training_batches(self, part: Part, broken: Ledger) -> Iterator[tuple[Any, Any]]:
        settings = self.here.settings
        order = TrainingBatches(
            len(part), settings.batch_size, self.here.place, settings.seed, self.plan.done
        )
        reader = Reader(part, settings.seed, tries=broken.limit + 1)
        for inputs, targets, note in self.here.files(reader, order):
            broken.read("train", note, wanted=settings.batch_size)
            yield self.here.on_device(inputs, targets, self.work.normalise)

    def share_statistics(self) -> None:
        """Copy rank 0's batch norm statistics to all ranks: one model is evaluated."""
        if self.here.place.world_size > 1:
            self.here.gather()
            for tensor in self.here.statistics(self.bare).values():
                self.here.distributed.broadcast(tensor, 0)

    @abc.abstractmethod
    def set_rate(self, lr: float) -> None:
        """Set the optimizer's learning rate."""

    def gradients_of(self, step: Step) -> contextlib.AbstractContextManager[object]:
        """Context of a step's forward and backward pass.

        The ranks sum the gradients only of steps after which the weights change.
        """
        apart = not step.updates and self.model is not self.bare
        return self.model.no_sync() if apart else contextlib.nullcontext()

    def values(self, **values: Any) -> Printed:
        """Return a step's scalars as they are printed, on the device; `loss` is one of them."""
        watch.at()
        row = self.here.row(values.values())
        settings = self.here.settings
        means = self.work.mean_values or settings.frozen_norm or settings.no_dropout
        return tuple(values), self.here.mean(row) if means else row

    def read(self, printed: Printed) -> None:
        """Wait for the values of a step; the device has then done what was asked before them.

        Each trainer reads them where its upstream does: before the backward pass mmsegmentation and
        TSM, after the step NVIDIA's ResNet-50, PaddleSeg and PLSC.
        """
        names, row = printed
        numbers = row.tolist()
        self.last_loss = numbers[names.index("loss")]
        self.losses.append(self.last_loss)
        if self.training is not None:
            self.training.look()

    def sum_gradients(self, step: Step) -> None:
        """Average the gradients over the ranks before an update, unless data parallelism does."""
        watch.at()
        if step.updates and self.here.sums_at_once:
            self.here.average(self.gradients())

    def whole(self, step: int) -> bool:
        """True if no gradients are kept after `step` for the next one."""
        return step % self.work.accumulate == 0

    @abc.abstractmethod
    def layers(self) -> Any:
        """All layers of the model, at any depth."""

    def train_mode(self) -> None:
        """Put the model into training mode, except what the work has frozen."""
        self.model.train()
        settings = self.here.settings
        frozen: tuple[Any, ...] = self.norms if settings.frozen_norm else ()
        if settings.frozen_norm or settings.no_dropout:
            frozen += self.dropouts
        for layer in self.layers():
            if isinstance(layer, frozen):
                layer.eval()

    def gradients(self) -> list[Any]:
        """Gradients of the data parallel model's parameters."""
        gradients = (parameter.grad for parameter in self.bare.parameters())
        return [gradient for gradient in gradients if gradient is not None]

    def steps(self) -> Iterator[Step]:
        """Yield every step; its time is what passes until the next one is asked for.

        After the last one all lines are written.
        """
        timer = self.timer
        batches = self.batches()
        self.gpu_samples.start(self.here.gpu_names())
        if self.training is not None:
            self.training.begin()
        timer.start()
        while timer.another(self.here.agree):
            watch.at(f"at the data of step {timer.steps + 1}")
            inputs, targets = next(batches)
            timer.data_ready()
            self.here.gather(f"in step {timer.steps + 1}")
            lr = self.schedule(timer.steps)
            if self.training is not None:
                self.here.seed_step(timer.steps)
            watch.at()
            yield Step(inputs, targets, lr, updates=self.whole(timer.steps + 1))
            record = timer.step_done()
            if record is not None and self.here.place.first:
                self._report(record, lr)
            if timer.steps == self.plan.warm:
                self.here.reset_peak_memory()
            if self.training is not None:
                self.training.after(timer.steps)
        self.finish()

    def _report(self, record: StepRecord, lr: float) -> None:
        loss = statistics.fmean(self.losses)
        memory = self.here.memory_mib()
        self.losses.clear()
        evaluates = self.course.evaluates(record.step)
        self.journal.step(record, loss=loss, lr=lr, memory_mib=memory, evaluates=evaluates)

    def finish(self) -> None:
        """Report the window, and what the training has reached."""
        watch.at("at its end")
        here = self.here
        timer = self.timer
        window = self.timer.window()
        more: dict[str, object] = {}
        if self.broken is not None:
            more["broken_samples"] = len(self.broken.gather_numbers(here.total))
        if self.training is not None:
            more |= self.training.finish(window)
            self.training = None  # which knows this run: both go before the process group does
        # Asked anew, while the GPU still has the clocks of its work.
        machine = here.environment()
        self.gpu_samples.stop()
        self.journal.rank(timer.step_seconds)
        here.wait_for_all()  # the summary is the job's last line, after the other ranks' own
        if here.place.first:
            self.journal.summary(
                self.plan,
                window,
                steps=timer.steps,
                # Of the weights; one that a scale left out for an overflow counts, too.
                updates=timer.steps // self.work.accumulate,
                parameters=self.parameters,
                precision_effective=here.precision_effective,
                sync_bn=self.sync_bn,
                norm="SyncBatchNorm" if self.sync_bn else self.work.norm,
                # None: all steps had been done before, and their loss was in an earlier summary.
                final_loss=self.last_loss if timer.steps > self.plan.done else None,
                max_memory_mib=here.memory_mib(),
                machine=machine,
                **self.work.summary(here),
                **more,
            )
