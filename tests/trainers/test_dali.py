"""ImageNet's pictures to train on by NVIDIA DALI, beside those by Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import decoding, imagenet, sample_sets
from k8sbench.trainers.parts.events import Place
from k8sbench.trainers.parts.file_samples import Reader, TrainingBatches
from k8sbench.trainers.parts.samples import BrokenSample
from tests.trainers.dali_checks import by_both, decodes_as_pillow, resnet50
from tests.trainers.references import coordinates, encoded, saved
from tests.trainers.torch_runs import Captured, losses, only, refusal

FRAMEWORKS, DALI = pytest.mark.tier("frameworks"), pytest.mark.tier("dali")
ON_CPU = ("--device", "cpu", "--threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample_sets.imagenet(tmp_path, pictures=24, size=(60, 72))
    return tmp_path


def damaged(folder: Path) -> Path:
    """A JPEG whose damage shows only when it is decoded."""
    path = min(folder.glob("train/*/*.JPEG"))
    data = path.read_bytes()
    scan = data.index(b"\xff\xda")
    path.write_bytes(data[: scan + 4] + b"\x99" * 40 + b"\xff\xd9")
    return path


@DALI
@pytest.mark.parametrize("workers", [0, 2])
def test_dali_gives_the_pictures_of_pillow_in_the_same_order(folder: Path, workers: int) -> None:
    """Also of kinds that decoders read in different ways, and in the second epoch."""
    first, second, third, *_ = sorted(folder.glob("train/*/*.JPEG"))
    pixels = coordinates(50, 90)
    saved(first.with_suffix(".png"), np.dstack([pixels, pixels[..., 2]]))
    first.unlink()
    saved(second, pixels[..., 0])
    Image.fromarray(pixels).convert("CMYK").save(third, "JPEG")
    decodes_as_pillow(folder, "cpu", workers=workers, most=2, mean=0.35)


@DALI
def test_a_picture_that_neither_decodes_is_named_and_replaced(
    folder: Path, capfd: Captured
) -> None:
    """The rest of its batch is Pillow's, and DALI goes on with the next."""
    broken = damaged(folder)
    ours, theirs = by_both(folder, "cpu", workers=0)
    assert [note for _, _, note in ours] == [note for _, _, note in theirs]
    hit = [str(broken) in note for _, _, note in ours]
    assert hit.count(True) == 2  # once in each epoch
    same = [bool((a[0] == b[0]).all()) for a, b in zip(ours, theirs, strict=True)]
    assert same == hit
    assert capfd.readouterr().err.count("Pillow decodes a batch that DALI cannot") == 2


@DALI
def test_a_batch_with_a_gap_is_the_one_of_pillow(folder: Path) -> None:
    """Whose sample nothing may replace: the run ends by it."""
    broken = min(folder.glob("train/*/*.JPEG"))
    broken.write_bytes(b"")
    ours, theirs = by_both(folder, "cpu", workers=0, tries=1)
    assert [note for _, _, note in ours] == [note for _, _, note in theirs]
    assert [len(inputs) for inputs, _, _ in ours] == [len(inputs) for inputs, _, _ in theirs]
    assert sorted({len(inputs) for inputs, _, _ in ours}) == [3, 4]


@DALI
def test_a_training_by_dali_is_that_by_pillow(folder: Path, capfd: Captured) -> None:
    broken = damaged(folder)
    found = {
        name: resnet50(capfd, folder, "--decoder", name, *ON_CPU) for name in ("pillow", "dali")
    }
    for name, events in found.items():
        assert events[0]["options"]["decoder"] == name
        assert [each["path"] for each in only(events, "broken")] == [str(broken)]
    assert losses(found["dali"]) == pytest.approx(losses(found["pillow"]), rel=0.01)
    assert losses(found["dali"]) != losses(found["pillow"])


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
        data, about = part.encoded(at[1], random)  # type: ignore[attr-defined]
        *box, mirrored, label = about.tolist()
        cut = decoding.decoded(data.tobytes(), "").crop(tuple(box))
        cut = cut.resize((16, 16), Image.Resampling.BILINEAR)
        told = decoding.pixels(decoding.mirrored(cut) if mirrored else cut)
        assert (told == pair[0]).all()
        assert label == pair[1]


@FRAMEWORKS
def test_without_dali_the_trainer_says_what_it_needs(folder: Path) -> None:
    block = "import sys; sys.modules['nvidia.dali'] = None; "
    run = "from k8sbench.trainers import resnet50; resnet50.main(sys.argv[1:])"

    refused = refusal(["-c", block + run, "--decoder", "dali", "--data", str(folder)])
    assert "needs NVIDIA DALI, and it cannot be imported" in refused
