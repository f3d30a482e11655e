"""A small network trained to an accuracy on made-up files, by either framework's loop.

`python -m tests.trainers.toy_training FRAMEWORK LINES` runs a job for each line, PORT OPTIONS, one
after the other in one process. A line REMOVE=FOLDER removes a folder instead.
"""

import argparse
import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts import ending, events, settings, steps, training
from k8sbench.trainers.parts.loop import Work
from k8sbench.trainers.parts.metrics import Scoring
from k8sbench.trainers.parts.samples import Array, BrokenSample, Files, Normalise
from tests.trainers.runs import part

CLASSES = 4
RANK = os.environ.get("RANK", os.environ.get("PADDLE_TRAINER_ID", ""))
TRAINING, VALIDATION = 23, 11
"""Numbers of samples that no number of ranks and no batch divides."""
DEFAULTS = settings.Defaults(
    benchmark="toy",
    recipes=("toy",),
    batch_size=2,
    warmup=1,
    log_interval=1,
    workers=0,
    speed_options=(),
)
UNUSED: Any = None
"""In place of synthetic samples."""
NORMALISE: Normalise = ((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))


@dataclass(frozen=True)
class Part:
    """Noisy 4×4 pictures whose brightness encodes their class."""

    samples: int
    broken: frozenset[int]

    def __len__(self) -> int:
        return self.samples

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Sample `number`."""
        if number in self.broken:
            raise BrokenSample(f"/data/{number}.png", "cut off")
        label = number % CLASSES
        noise = random.integers(0, 20, (3, 4, 4))
        return (60 * label + noise).astype(np.uint8), np.asarray(label, np.int64)


def figures(sums: Array) -> dict[str, float]:
    """Return hits and each sample's number of evaluations."""
    hits, batches, once, squared, *times = sums
    assert set(times) <= {0.0, 1.0}, times  # no sample is counted twice
    assert squared / batches == pytest.approx((once / batches) ** 2)  # all by the same model
    return {"top-1": 100 * hits / sum(times), "seen": sum(times)}


def evaluation(framework: str, given: argparse.Namespace, files: Files) -> Scoring:
    """Sum hits, batch norm statistics and counts of samples."""
    seen, batches = np.eye(len(files.validation)), itertools.count(1)

    def sums(model: Any, inputs: Any, targets: Any, numbers: list[int]) -> Any:
        assert not model.training
        batch = next(batches)
        assert not 0 < given.cut < batch  # nor goes another rank on
        if batch == given.cut and RANK in ("", "1"):
            ending.told.set()
        if given.set_clock:
            time.time = lambda wall=time.time: wall() + 3600.0  # type: ignore[misc]
        hits = model(inputs).argmax(1) == targets
        state = model.state_dict()
        (mark,) = [float(each.sum()) for name, each in state.items() if "mean" in name]
        values = np.concatenate([[int(hits.sum()), 1, mark, mark**2], seen[numbers].sum(0)])
        made = {"pytorch": ("torch", "from_numpy"), "paddle": ("paddle", "to_tensor")}[framework]
        return getattr(sys.modules[made[0]], made[1])(values)

    return Scoring(metric="top-1", batch_size=given.batch, sums=sums, figures=figures)


def take_steps(run: Any, loss: Callable[[Any, Any, Any], Any]) -> None:
    """Train on either framework by the plainest step; `loss` is of model, inputs and targets."""
    optimizer, scaler = run.optimizer, run.scaler
    forget = optimizer.zero_grad if hasattr(optimizer, "zero_grad") else optimizer.clear_grad
    for step in run.steps():
        run.set_rate(step.lr)
        with run.gradients_of(step):
            with run.here.autocast():
                found = loss(run.model, step.inputs, step.targets)
            printed = run.values(loss=found)
            scaler.scale(found / run.work.accumulate).backward()
        run.sum_gradients(step)
        if step.updates:
            scaler.step(optimizer)
            scaler.update()
            forget()
        run.read(printed)


def train(framework: str, session: Any, common: settings.Settings, work: dict[str, Any]) -> None:
    """Run one rank."""
    nn = session.nn
    norm = nn.BatchNorm1d if framework == "pytorch" else nn.BatchNorm1D

    def model(_: Any) -> Any:
        layers = nn.Linear(48, 16), norm(16), nn.Dropout(0.3), nn.Linear(16, CLASSES)
        return nn.Sequential(nn.Flatten(), *layers)

    def loss(model: Any, inputs: Any, targets: Any) -> Any:
        layers = model.modules() if framework == "pytorch" else model.sublayers()
        assert all(layer.training for layer in layers)
        return nn.functional.cross_entropy(model(inputs), targets)

    described = Work(model=model, samples=UNUSED, **work)
    session.run(described, common, partial(take_steps, loss=loss))


def main(framework: str, argv: list[str]) -> None:
    """Train by `framework`."""
    session = part(framework)
    common, own = settings.read("toy", "", DEFAULTS, _options, argv)

    def files(_: Any) -> Files:
        part = Part(TRAINING, frozenset(own.broken))
        return Files("toy", part, Part(own.validation, frozenset(own.broken_val)), "0123abcd")

    def schedule(course: steps.Course) -> steps.Schedule:
        plain = steps.stepped(0.05, [2 * course.epoch_steps])

        def rate(step: int) -> float:
            if step == own.terminated and RANK in ("", "1"):
                for loader in multiprocessing.active_children():
                    loader.terminate()
                os.kill(os.getpid(), signal.SIGTERM)
                ending.told.wait()
            return plain(step) if step < own.diverges else float("nan")

        return rate

    training.NOT_FINITE_STEPS = 5
    if own.set_clock:
        defaults: Any = events.Journal.__init__.__kwdefaults__
        defaults["now"] = lambda: time.time()  # noqa: PLW0108 - the clock as it is set by then
    if own.save_at:

        def look(here: training.Training) -> None:
            here.due = here.run.timer.steps + 1 in own.save_at

        setattr(training.Training, "look", look)  # noqa: B010
    if framework == "pytorch":
        sys.modules["torch"].set_num_threads(1)
    train(
        framework,
        session,
        common,
        {
            "unit": "pictures",
            "accumulate": own.accumulate,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "schedule": schedule,
            "files": files,
            "evaluation": lambda opened: evaluation(framework, own, opened),
            "normalise": NORMALISE,
        },
    )


def _options(group: argparse._ArgumentGroup) -> None:
    for name in ("--broken", "--broken-val", "--save-at"):
        group.add_argument(name, type=int, nargs="*", default=[])
    for name in ("--diverges", "--terminated"):
        group.add_argument(name, type=int, default=10**9, help="after that step")
    group.add_argument("--cut", type=int, default=0, help="as SIGTERM in that evaluated batch")
    group.add_argument("--set-clock", action="store_true", help="by an hour per evaluated batch")
    group.add_argument("--accumulate", type=int, default=1)
    group.add_argument("--batch", type=int, default=3, help="of an evaluation")
    group.add_argument("--validation", type=int, default=VALIDATION)


if __name__ == "__main__":
    ending.end_on_signals()  # loader processes end with this one
    for line in sys.argv[2].splitlines():
        if line.startswith("REMOVE="):
            # By the first rank alone: it is done before the ranks meet in the next job.
            if RANK in ("", "0"):
                shutil.rmtree(line.removeprefix("REMOVE="))
        else:
            port, *options = line.split()
            os.environ["MASTER_PORT"] = port
            main(sys.argv[1], options)
