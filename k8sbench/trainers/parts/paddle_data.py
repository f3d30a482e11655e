"""Batches for Paddle, from the sources that `samples` describes; data sets give numpy arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle

from k8sbench.trainers.parts.paddle_session import Session
from k8sbench.trainers.parts.samples import Batches, Decoded, Samples, shares

Sample = tuple[Any, Any]


def source(samples: Samples[Any], session: Session) -> Iterator[Sample]:
    """Batches on the device, without end, from the source that the settings name."""
    made = {"synthetic": _fixed, "synthetic-host": _loaded}[session.settings.data]
    return made(samples, session)


def _fixed(samples: Samples[Any], session: Session) -> Iterator[Sample]:
    numbers = next(shares(session.place, session.settings.batch_size))
    inputs, targets = (
        paddle.to_tensor(np.stack(each)) for each in zip(*map(samples.ready, numbers), strict=True)
    )
    return itertools.repeat((_in_layout(inputs, session), targets))


def _loaded(samples: Samples[Any], session: Session) -> Iterator[Sample]:
    loader = paddle.io.DataLoader(
        Decoded(samples),
        batch_sampler=Batches(session.place, session.settings.batch_size),
        num_workers=session.settings.workers,
        return_list=True,
    )
    batches = iter(loader)
    try:
        for inputs, targets in batches:
            yield _in_layout(inputs, session), targets
    finally:
        # Batches on their way lie in /dev/shm, and stay there unless this is called: Paddle leaves
        # it to the interpreter's clean-up, which never reaches an iterator with threads of its own.
        batches._try_shutdown_all()


def _in_layout(inputs: Any, session: Session) -> Any:
    channels_last = session.layout == "NHWC" and inputs.ndim == 4
    return inputs.transpose([0, 2, 3, 1]) if channels_last else inputs
