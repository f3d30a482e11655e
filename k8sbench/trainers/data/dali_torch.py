"""ImageNet's pictures to train on, decoded by NVIDIA DALI: on a GPU by nvJPEG.

Loader processes read the files and draw the same parts and mirrorings as for Pillow; DALI decodes,
resizes and mirrors a batch while the one before is trained on. Where it cannot decode one, Pillow
does, which names the broken sample and takes the next in its place. Needs DALI, which is no
dependency.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import feed_ndarray
from torch import Tensor
from torch.utils.data import DataLoader

from k8sbench.trainers.data import imagenet
from k8sbench.trainers.parts import file_samples
from k8sbench.trainers.parts.file_samples import At, Read, Reader
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.torch_session import Session

Batch = tuple[Tensor, Tensor, str]
INPUTS = {"encoded": (types.UINT8, 1), "at": (types.INT32, 1), "shape": (types.INT32, 1)} | {
    "mirrored": (types.INT32, 0)
}


def files(
    reader: Reader, batches: Iterable[list[At]], session: Session, *, size: int
) -> Iterator[Batch]:
    """Batches of uint8 [batch, 3, size, size] on the device, with targets and notes on the host.

    `batches` may be iterated over twice and gives the same both times. There are as many threads
    that decode as there are loader processes.
    """
    workers = session.settings.workers
    loader = DataLoader(
        dataclasses.replace(reader, part=_Encoded(reader.part)),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_collate,
        generator=torch.Generator(),
    )
    decoder = _Decoder(session.settings.batch_size, size, session.device, max(workers, 1))
    before: tuple[list[At], Batch] | None = None
    for numbers, (data, about, note) in zip(batches, loader, strict=True):
        made = before and _made(decoder, reader, *before)
        decoder.start(data.numpy(), about.numpy())
        before = numbers, (data, about, note)
        if made:
            yield made
    if before:
        yield _made(decoder, reader, *before)


def _made(decoder: _Decoder, reader: Reader, numbers: list[At], batch: Batch) -> Batch:
    _, about, note = batch
    pictures = decoder.pictures()
    if pictures is not None:
        return pictures, about[:, -1].clone(), note
    inputs, targets, note = file_samples.collate([reader[at] for at in numbers])
    return torch.from_numpy(inputs), torch.from_numpy(targets), note


class _Encoded:
    """A part of ImageNet whose samples are not decoded."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self.sample = functools.partial(imagenet.encoded, part)

    def __len__(self) -> int:
        return len(self._part)


def _collate(samples: Sequence[Read]) -> Batch:
    """The encoded pictures one after the other, and their lengths before what is said of them;
    nothing of a batch that is not whole.
    """
    pairs = [sample.pair for sample in samples if sample.pair is not None]
    if len(pairs) < len(samples):
        return torch.zeros(0), torch.zeros(0), file_samples.note(samples)
    data = np.concatenate([encoded for encoded, _ in pairs])
    about = np.stack([np.array([len(encoded), *told]) for encoded, told in pairs])
    return torch.from_numpy(data), torch.from_numpy(about), file_samples.note(samples)


class _Decoder:
    """DALI's pipeline, with one batch under way at most."""

    def __init__(self, batch_size: int, size: int, device: torch.device, threads: int) -> None:
        self._shape, self._device, self._threads = (batch_size, 3, size, size), device, threads
        self._pipe: Any = None  # built once the loader's processes are there
        self._started = False

    def start(self, data: Array, about: Array) -> None:
        """Start to decode a batch of :func:`_collate`."""
        self._started = len(about) > 0
        if not self._started:
            return
        if self._pipe is None:
            self._pipe = self._built()
        lengths, left, top, right, bottom, mirrored, _ = about.astype(np.int32).T
        fed = {
            "encoded": np.split(data, np.cumsum(lengths)[:-1]),
            "at": np.stack([top, left], 1),
            "shape": np.stack([bottom - top, right - left], 1),
            "mirrored": np.ascontiguousarray(mirrored),
        }
        for name in INPUTS:
            self._pipe.feed_input(name, fed[name])
        self._pipe.schedule_run()

    def pictures(self) -> Tensor | None:
        """The pictures of the batch, or None if it was not whole or cannot be decoded."""
        if not self._started:
            return None
        made = torch.empty(self._shape, dtype=torch.uint8, device=self._device)
        try:
            (outputs,) = self._pipe.share_outputs()
            # On the stream on which the memory of `made` may still be in use.
            stream = torch.cuda.current_stream(self._device) if made.is_cuda else None
            feed_ndarray(outputs.as_tensor(), made, cuda_stream=stream)
            if stream is not None:
                stream.synchronize()
            self._pipe.release_outputs()
        except RuntimeError as error:
            why = " ".join(str(error).split())[:300]
            sys.stderr.write(f"k8sbench: note: Pillow decodes a batch that DALI cannot: {why}\n")
            self._pipe = None  # DALI promises nothing of a pipeline after an error
            return None
        return made

    def _built(self) -> Any:
        on_gpu = self._device.type == "cuda"

        @pipeline_def(
            batch_size=self._shape[0],
            num_threads=self._threads,
            device_id=self._device.index if on_gpu else None,
            prefetch_queue_depth=1,
        )
        def steps() -> Any:
            encoded, at, shape, mirrored = (
                fn.external_source(name=name, dtype=dtype, ndim=dimensions)
                for name, (dtype, dimensions) in INPUTS.items()
            )
            images = fn.decoders.image_slice(
                encoded,
                at,
                shape,
                device="mixed" if on_gpu else "cpu",
                axis_names="HW",
                output_type=types.RGB,
                adjust_orientation=False,  # as Pillow leaves it
                jpeg_fancy_upsampling=True,  # as Pillow's and DALI's decoders on CPUs have it
            )
            images = fn.resize(
                images,
                size=self._shape[2:],
                interp_type=types.INTERP_TRIANGULAR,
                antialias=True,
            )
            return fn.transpose(fn.flip(images, horizontal=mirrored), perm=[2, 0, 1])

        pipe = steps()
        pipe.build()
        return pipe
