"""What is true of NVIDIA DALI's pictures on a CPU and on a GPU."""

from __future__ import annotations

import types
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from k8sbench.trainers.data import imagenet
from k8sbench.trainers.parts.events import Place
from k8sbench.trainers.parts.file_samples import Reader, TrainingBatches
from tests.trainers.torch_runs import Event, run

Batches = list[tuple[Any, Any, str]]
SIZE, BATCH = 32, 4


def by_both(folder: Path, device: str, *, workers: int) -> tuple[Batches, Batches]:
    """Two epochs of a set of 24 pictures by DALI and by Pillow, on the host."""
    import torch

    from k8sbench.trainers.data import dali_torch
    from k8sbench.trainers.parts import torch_data

    training = imagenet.open_set(folder, size=SIZE).training
    reader = Reader(training, seed=1, tries=3)
    settings = types.SimpleNamespace(workers=workers, batch_size=BATCH)
    on_gpu = device == "cuda"
    index = torch.device(device, 0) if on_gpu else torch.device(device)
    session: Any = types.SimpleNamespace(settings=settings, device=index, on_gpu=on_gpu)

    def taken(found: Iterable[tuple[Any, Any, str]]) -> Batches:
        both = islice(found, 2 * len(training) // BATCH)
        return [(inputs.cpu(), targets.cpu(), note) for inputs, targets, note in both]

    order = TrainingBatches(len(training), BATCH, Place(), seed=1)
    return (
        taken(dali_torch.files(reader, order, session, size=SIZE)),
        taken(torch_data.files(reader, order, session)),
    )


def decodes_as_pillow(folder: Path, device: str, *, workers: int, most: int, mean: float) -> None:
    """The same samples, whose bytes are `mean` away on average and at most `most`, but in the
    outermost pixels: what is beyond them Pillow leaves out, and DALI takes for equal to the edge.
    """
    import torch

    ours, theirs = by_both(folder, device, workers=workers)
    assert len(ours) == 12
    for (inputs, targets, note), (told, labels, told_note) in zip(ours, theirs, strict=True):
        assert note == told_note
        assert targets.tolist() == labels.tolist()
        assert (inputs.dtype, inputs.shape) == (torch.uint8, (BATCH, 3, SIZE, SIZE))
        away = (inputs.int() - told.int()).abs().float()
        assert away[..., 1:-1, 1:-1].max() <= most
        assert away.mean() <= mean


def resnet50(capfd: pytest.CaptureFixture[str], folder: Path, *options: str) -> list[Event]:
    """A short training of a small network."""
    return run(
        capfd,
        "resnet50",
        *("--input-size", str(SIZE), "--classes", "8", "--width-divisor", "8", "--workers", "0"),
        *("--batch-size", str(BATCH), "--lr", "1e-5", "--data", str(folder), "--warmup", "1"),
        *("--iterations", "8", "--log-interval", "3", "--frozen-norm", *options),
    )
