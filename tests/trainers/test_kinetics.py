"""Kinetics' list files, and clips augmented as TSM's dataset.py and transforms.py have it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import kinetics, sample_sets
from tests.trainers.references import (
    Array,
    channels_first,
    coordinates,
    form,
    middle,
    near,
    saved,
    triangle,
)


@pytest.mark.parametrize(("frames", "segments"), [(3, 8), (8, 8), (9, 8), (24, 8), (59, 3), (5, 1)])
def test_a_frame_of_each_part_of_a_clip_is_taken(frames: int, segments: int) -> None:
    """The first one of a short clip; the middle ones to validate."""
    middle_ones = kinetics.indices_to_validate(frames, segments)
    drawn = [
        kinetics.indices_to_train(frames, segments, np.random.default_rng(seed))
        for seed in range(50)
    ]
    length = frames // segments
    for part in range(segments):
        told = {int(each[part]) for each in drawn}
        first = part * length + 1
        assert told <= ({1} if not length else set(range(first, first + length)))
        even = frames / segments
        expected = int(even / 2 + even * part) + 1 if frames > segments else 1
        assert middle_ones[part] == expected


@pytest.mark.parametrize(
    ("width", "height", "size"), [(340, 256, 224), (256, 340, 224), (60, 48, 32), (31, 33, 32)]
)
def test_a_crop_is_one_of_tsms_sizes_at_one_of_13_places(
    width: int, height: int, size: int
) -> None:
    random = np.random.default_rng(1)
    boxes = {kinetics.crop_box(width, height, size, random) for _ in range(5000)}
    sides = [int(min(width, height) * scale) for scale in (1, 0.875, 0.75, 0.66)]
    sides = [size if abs(side - size) < 3 else side for side in sides]
    sizes = {(right - left, bottom - top) for left, top, right, bottom in boxes}
    assert sizes == {(a, b) for i, a in enumerate(sides) for b in sides[max(i - 1, 0) : i + 2]}
    for columns, rows in sizes:
        places = {box[:2] for box in boxes if (box[2] - box[0], box[3] - box[1]) == (columns, rows)}
        across, down = (width - columns) // 4, (height - rows) // 4
        told = {(i * across, j * down) for i in range(5) for j in range(5) if (i + j) % 2 == 0}
        assert places == told


def frames_of(height: int, width: int, count: int = 3) -> list[Array]:
    return [np.roll(coordinates(height, width), 5 * frame, axis=1) for frame in range(count)]


def test_all_frames_of_a_clip_to_train_on_have_one_crop_and_one_mirror() -> None:
    frames = frames_of(40, 50)
    mirrored = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        left, top, right, bottom = kinetics.crop_box(50, 40, 24, random)
        flip = random.random() < 0.5
        mirrored += flip
        found = kinetics.to_train(
            [Image.fromarray(frame) for frame in frames], 24, np.random.default_rng(seed)
        )
        assert form(found) == "uint8 (3, 3, 24, 24)"
        for frame, each in zip(frames, found, strict=True):
            told = triangle(frame[top:bottom, left:right], 24, 24)
            told = told[:, ::-1] if flip else told
            assert near(each, channels_first(told))
    assert 7 < mirrored < 23


def test_a_clip_to_validate_is_the_middle_of_its_frames() -> None:
    frames = frames_of(60, 80)
    found = kinetics.to_validate([Image.fromarray(frame) for frame in frames], 56)
    for frame, each in zip(frames, found, strict=True):
        told = channels_first(middle(frame, 64, 56))
        assert near(each, told)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample_sets.kinetics(tmp_path, pictures=4, size=(20, 28))
    return tmp_path


def numbered(folder: Path, clip: str, frames: int, label: int, name: str = "train") -> None:
    """A clip whose frames are grey, each as its number."""
    for frame in range(1, frames + 1):
        grey = np.full((16, 16, 3), frame, np.uint8)
        saved(folder / "images" / clip / f"img_{frame:05d}.jpg", grey)
    (folder / "labels").mkdir(exist_ok=True)
    with (folder / "labels" / f"{name}_videofolder.txt").open("a") as listed:
        listed.write(f"{clip} {frames} {label}\n")


def test_a_sample_has_the_frames_and_the_class_of_its_line(tmp_path: Path) -> None:
    numbered(tmp_path, "a/first", 24, 2)
    numbered(tmp_path, "b/second", 5, 0)
    numbered(tmp_path, "c/third", 33, 1, "val")
    files = kinetics.open_set(tmp_path, size=8, segments=8, classes=3)
    random = np.random.default_rng(4)
    clip, label = files.training.sample(0, np.random.default_rng(4))
    assert clip[:, 0, 0, 0].tolist() == kinetics.indices_to_train(24, 8, random).tolist()
    assert (form(clip), form(label), int(label)) == ("uint8 (8, 3, 8, 8)", "int64 ()", 2)
    clip, label = files.training.sample(1, random)
    assert (clip[:, 0, 0, 0].tolist(), int(label)) == ([1] * 8, 0)
    clip, label = files.validation.sample(0, random)
    assert (clip[:, 0, 0, 0].tolist(), int(label)) == ([3, 7, 11, 15, 19, 23, 27, 31], 1)
