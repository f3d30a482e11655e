"""Batches for Paddle, of synthetic samples and of files."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paddle

from k8sbench.trainers.parts import file_samples
from k8sbench.trainers.parts.paddle_session import Session
from k8sbench.trainers.parts.samples import Array, Normalise


@dataclass(frozen=True)
class Batches:
    """Batches on the host with their notes, as often as they are asked for.

    `reader` gives the samples of `batches` of numbers.
    """

    reader: Any
    batches: Iterable[Any]
    session: Session

    def __iter__(self) -> Iterator[tuple[Any, Any, str]]:
        loader = paddle.io.DataLoader(
            self.reader,
            batch_sampler=self.batches,
            num_workers=self.session.settings.workers,
            return_list=True,
            worker_init_fn=_in_loader,
            collate_fn=file_samples.collate,
        )
        iterator = iter(loader)
        try:
            yield from iterator
        finally:
            # Batches on their way lie in /dev/shm, and stay there unless this is called: Paddle
            # leaves it to the interpreter's clean-up, which never reaches an iterator with threads
            # of its own.
            iterator._try_shutdown_all()


files = Batches


def tensor(values: Array) -> Any:
    """An array as a tensor."""
    return paddle.to_tensor(values)


def _in_loader(_: int) -> None:
    """Leave no batch in /dev/shm where the trainer ends by an error or a signal (`ending`)."""

    def remove(*_: object) -> None:
        for batch in Path("/dev/shm").glob(f"paddle_{os.getpid()}_*"):  # noqa: S108
            batch.unlink(missing_ok=True)
        os._exit(1)

    signal.signal(signal.SIGTERM, remove)


def on_device(
    inputs: Any, targets: Any, session: Session, normalise: Normalise | None = None
) -> tuple[Any, Any]:
    """Inputs, normalised if they are bytes, and targets as int64."""
    if inputs.dtype == paddle.uint8 and normalise is not None:
        mean, deviation = _constants(normalise)
        inputs = (inputs.astype("float32") - mean) / deviation
    return _in_layout(inputs, session), targets.astype("int64")


@functools.cache
def _constants(normalise: Normalise) -> tuple[Any, ...]:
    return tuple(
        paddle.to_tensor(triple, dtype="float32").reshape([-1, 1, 1]) for triple in normalise
    )


def _in_layout(inputs: Any, session: Session) -> Any:
    channels_last = session.layout == "NHWC" and inputs.ndim == 4
    return inputs.transpose([0, 2, 3, 1]) if channels_last else inputs
