"""Batches for Paddle, from the sources that `samples` describes, whose data sets give numpy arrays,
and from files.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from k8sbench.trainers.parts import file_samples
from k8sbench.trainers.parts.file_samples import At, Reader
from k8sbench.trainers.parts.paddle_session import Session
from k8sbench.trainers.parts.samples import Batches, Decoded, Normalise, Samples, shares

Sample = tuple[Any, Any]


def source(
    samples: Samples[Any], session: Session, normalise: Normalise | None = None
) -> Iterator[Sample]:
    """Batches on the device, without end, from the synthetic source that the settings name."""
    if session.settings.data == "synthetic":
        return _fixed(samples, session)
    return _loaded(samples, session, normalise)


def _fixed(samples: Samples[Any], session: Session) -> Iterator[Sample]:
    numbers = next(shares(session.place, session.settings.batch_size))
    inputs, targets = (
        paddle.to_tensor(np.stack(column))
        for column in zip(*map(samples.ready, numbers), strict=True)
    )
    return itertools.repeat((_in_layout(inputs, session), targets))


def _loaded(
    samples: Samples[Any], session: Session, normalise: Normalise | None
) -> Iterator[Sample]:
    batches = Batches(session.place, session.settings.batch_size)
    for inputs, targets in _batches(Decoded(samples), batches, session):
        yield on_device(inputs, targets, session, normalise)


@dataclass(frozen=True)
class _Files:
    reader: Reader
    batches: Iterable[list[At]]
    session: Session

    def __iter__(self) -> Iterator[tuple[Any, Any, str]]:
        return _batches(self.reader, self.batches, self.session, collate_fn=file_samples.collate)


def files(
    reader: Reader, batches: Iterable[list[At]], session: Session
) -> Iterable[tuple[Any, Any, str]]:
    """Batches of real files with their notes, as often as they are asked for."""
    return _Files(reader, batches, session)


def _batches(data: Any, batches: Any, session: Session, **options: Any) -> Iterator[Any]:
    loader = paddle.io.DataLoader(
        data,
        batch_sampler=batches,
        num_workers=session.settings.workers,
        return_list=True,
        worker_init_fn=_in_loader,
        **options,
    )
    iterator = iter(loader)
    try:
        yield from iterator
    finally:
        # Batches on their way lie in /dev/shm, and stay there unless this is called: Paddle leaves
        # it to the interpreter's clean-up, which never reaches an iterator with threads of its own.
        iterator._try_shutdown_all()


def _in_loader(_: int) -> None:
    """Leave no batch in /dev/shm where the trainer ends by an error or a signal (`ending`)."""

    def remove(*_: object) -> None:
        for batch in Path("/dev/shm").glob(f"paddle_{os.getpid()}_*"):  # noqa: S108
            batch.unlink(missing_ok=True)
        os._exit(1)

    signal.signal(signal.SIGTERM, remove)


def on_device(
    inputs: Any, targets: Any, session: Session, normalise: Normalise | None = None
) -> Sample:
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
