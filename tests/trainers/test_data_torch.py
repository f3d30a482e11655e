"""The data: shapes, samples independent of the rank count, working loaders."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from k8sbench.trainers.parts.events import RankPlace
from k8sbench.trainers.parts.samples import source
from tests.trainers.checks import read, session

if TYPE_CHECKING:
    from k8sbench.trainers.parts.torch_session import TorchSession

pytestmark = pytest.mark.tier("frameworks")


def at(rank: int, world_size: int, *argv: str) -> TorchSession:
    from k8sbench.trainers.parts.torch_session import TorchSession

    return TorchSession(
        read(*argv), RankPlace(rank=rank, local_rank=rank, world_size=world_size), None
    )


def kinds() -> dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """Each data set with the shapes of its samples."""
    from k8sbench.trainers.data import cityscapes
    from k8sbench.trainers.data.pictures import Pictures

    augment = functools.partial(cityscapes.mmseg, crop=(32, 64))
    scenes = cityscapes.Scenes((32, 64), 19, 3, augment)
    return {
        "streets": (scenes, (3, 32, 64), (32, 64)),
        "pictures": (Pictures(24, 10, seed=3), (3, 24, 24), ()),
        "clips": (Pictures(16, 10, seed=3, frames=4), (4, 3, 16, 16), ()),
    }


@pytest.mark.parametrize("kind", ["streets", "pictures", "clips"])
@pytest.mark.parametrize("way", ["ready", "decoded"])
def test_a_sample_is_fixed_by_its_number(kind: str, way: str) -> None:
    samples, inputs, targets = kinds()[kind]
    make = getattr(samples, way)
    first, again, other = make(7), make(7), make(8)
    assert first[0].shape == inputs
    assert first[1].shape == targets
    of_bytes = way == "decoded"  # to be normalised on the device
    assert first[0].dtype == (np.uint8 if of_bytes else np.float32)
    assert first[1].dtype == (np.uint8 if of_bytes and kind == "streets" else np.int64)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert np.isfinite(first[0]).all()


@pytest.mark.parametrize("data", ["synthetic", "synthetic-host"])
def test_ranks_share_the_samples_that_one_rank_has(data: str) -> None:
    import torch

    samples, *_ = kinds()["pictures"]
    options = ("--data", data, "--workers", "0")
    alone = source(samples, at(0, 1, *options, "--batch-size", "4"))
    shares = [source(samples, at(rank, 2, *options)) for rank in (0, 1)]
    for _ in range(3):
        whole = next(alone)
        parts = [next(share) for share in shares]
        assert torch.equal(whole[0], torch.cat([part[0] for part in parts]))
        assert torch.equal(whole[1], torch.cat([part[1] for part in parts]))


def test_synthetic_data_are_made_once_and_host_data_anew() -> None:
    import torch

    samples, *_ = kinds()["pictures"]
    fixed = source(samples, at(0, 1))
    assert next(fixed)[0] is next(fixed)[0]
    loaded = source(samples, at(0, 1, "--data", "synthetic-host", "--workers", "1"))
    first, second = itertools.islice(loaded, 2)
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
@pytest.mark.parametrize("clips", [False, True])
def test_bytes_become_normalised_numbers_on_the_device(framework: str, clips: bool) -> None:
    """Colour by colour, of pictures and of clips; numbers stay as they are."""
    mean, deviation = (120.0, 110.0, 100.0), (60.0, 50.0, 40.0)
    shape = (2, 4, 3, 5, 6) if clips else (2, 3, 5, 6)
    images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    told = np.stack([(images[..., i, :, :] - mean[i]) / deviation[i] for i in range(3)], axis=-3)
    targets = np.array([3, 255], np.uint8)
    here = session(framework)
    put = here.tensor
    made, labels = here.on_device(put(images), put(targets), (mean, deviation))
    same, _ = here.on_device(made, labels, (mean, deviation))
    np.testing.assert_allclose(made.numpy(), told, rtol=1e-5, atol=1e-6)
    assert made.numpy().dtype == np.float32
    assert np.array_equal(same.numpy(), made.numpy())
    assert labels.numpy().dtype == np.int64
    assert labels.numpy().tolist() == [3, 255]
