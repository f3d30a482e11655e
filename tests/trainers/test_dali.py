"""What NVIDIA DALI is given to decode; what it makes of it is asked in `tests/gpu`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import decoding, imagenet, sample_sets
from k8sbench.trainers.parts.events import Place
from k8sbench.trainers.parts.file_samples import Reader, TrainingBatches
from k8sbench.trainers.parts.samples import BrokenSample
from tests.trainers.references import coordinates, encoded
from tests.trainers.torch_runs import refusal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample_sets.imagenet(tmp_path, pictures=24, size=(60, 72))
    return tmp_path


def test_what_dali_would_read_otherwise_is_handed_over_as_png(tmp_path: Path) -> None:
    pixels = coordinates(20, 30)
    whole = encoded(pixels, "JPEG")
    for name, data, as_is in (("a", whole, True), ("b", whole + b"\0", False)):
        (tmp_path / name).write_bytes(data)
        found, size = decoding.encoded(tmp_path / name)
        assert size == (30, 20)
        assert (found == data) is as_is
        pictures = [decoding.pixels(decoding.decoded(each, "")) for each in (found, data)]
        assert (pictures[0] == pictures[1]).all()
    Image.fromarray(pixels).convert("CMYK").save(tmp_path / "c", "JPEG")
    found, _ = decoding.encoded(tmp_path / "c")
    assert found.startswith(b"\x89PNG")
    (tmp_path / "d").write_bytes(whole[:-60])
    with pytest.raises(BrokenSample, match="truncated"):
        decoding.encoded(tmp_path / "d")


def test_what_is_handed_over_is_cropped_and_mirrored_as_by_pillow(folder: Path) -> None:
    part = imagenet.open_set(folder, size=16).training
    reader = Reader(part, seed=3)
    for at in next(iter(TrainingBatches(len(part), 8, Place(), 3))):
        pair = reader[at].pair
        assert pair is not None
        random = np.random.default_rng((3, *at))
        data, about = imagenet.encoded(part, at[1], random)  # type: ignore[arg-type]
        *box, mirrored, label = about.tolist()
        cut = decoding.decoded(data.tobytes(), "").crop(tuple(box))
        cut = cut.resize((16, 16), Image.Resampling.BILINEAR)
        told = decoding.pixels(decoding.mirrored(cut) if mirrored else cut)
        assert (told == pair[0]).all()
        assert label == pair[1]


@pytest.mark.tier("frameworks")
def test_without_dali_the_trainer_says_what_it_needs(folder: Path) -> None:
    block = "import sys; sys.modules['nvidia.dali'] = None; "
    run = "from k8sbench.trainers import resnet50; resnet50.main(sys.argv[1:])"

    refused = refusal(["-c", block + run, "--decoder", "dali", "--data", str(folder)])
    assert "needs NVIDIA DALI, and it cannot be imported" in refused
