"""Kinetics' list files, and clips augmented as TSM's dataset.py and transforms.py have it."""

import collections
import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import kinetics, sample_sets
from k8sbench.trainers.parts.samples import BrokenSample, DataError
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


def sample_indices(frames: int, segments: int, random: np.random.Generator) -> list[int]:
    """TSM's `_sample_indices` with new length 1, without its unreachable branch."""
    duration = (frames - 1 + 1) // segments
    if duration > 0:
        offsets = random.integers(duration, size=segments)
        return [segment * duration + int(offsets[segment]) + 1 for segment in range(segments)]
    assert frames <= segments
    return [1] * segments


def val_indices(frames: int, segments: int) -> list[int]:
    """TSM's `_get_val_indices` with a new length of 1."""
    if frames > segments + 1 - 1:
        tick = (frames - 1 + 1) / float(segments)
        return [int(tick / 2.0 + tick * x) + 1 for x in range(segments)]
    return [1] * segments


def test_the_frames_of_a_clip_are_tsms() -> None:
    for frames, segments in itertools.product(range(3, 60), (1, 3, 8)):
        for seed in range(5):
            found = kinetics.indices_to_train(frames, segments, np.random.default_rng(seed))
            told = sample_indices(frames, segments, np.random.default_rng(seed))
            assert found.tolist() == told
            assert 1 <= found.min() <= found.max() <= frames
        assert kinetics.indices_to_validate(frames, segments).tolist() == val_indices(
            frames, segments
        )


def multi_scale_crops(width: int, height: int, size: int) -> collections.Counter[tuple[int, ...]]:
    """All boxes of TSM's GroupMultiScaleCrop, with how often each is drawn in 130."""
    sides = [int(min(width, height) * scale) for scale in (1, 0.875, 0.75, 0.66)]
    sides = [size if abs(side - size) < 3 else side for side in sides]
    found: collections.Counter[tuple[int, ...]] = collections.Counter()
    for (i, h), (j, w) in itertools.product(enumerate(sides), enumerate(sides)):
        if abs(i - j) > 1:
            continue
        w_step, h_step = (width - w) // 4, (height - h) // 4
        for x, y in [
            *((0, 0), (4, 0), (0, 4), (4, 4), (2, 2), (0, 2), (4, 2)),
            *((2, 4), (2, 0), (1, 1), (3, 1), (1, 3), (3, 3)),
        ]:
            left, top = x * w_step, y * h_step
            found[left, top, left + w, top + h] += 1
    assert found.total() == 130
    return found


@pytest.mark.parametrize(
    ("width", "height", "size"), [(340, 256, 224), (256, 340, 224), (60, 48, 32), (31, 33, 32)]
)
def test_a_crop_is_one_of_tsms_fixed_ones(width: int, height: int, size: int) -> None:
    random = np.random.default_rng(1)
    told = multi_scale_crops(width, height, size)
    draws = 13_000
    found: collections.Counter[tuple[int, ...]] = collections.Counter(
        kinetics.crop_box(width, height, size, random) for _ in range(draws)
    )
    assert set(found) == set(told)
    for box, weight in told.items():  # equally likely: within 5 standard deviations
        mean = draws * weight / 130
        assert abs(found[box] - mean) < 5 * mean**0.5


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


def test_a_crop_larger_than_the_frame_is_black_beyond_it() -> None:
    """As Pillow has it, and so upstream: a side of 31 is nearly 32."""
    white = Image.fromarray(np.full((31, 31, 3), 255, np.uint8))
    found = [
        kinetics.to_train([white], 32, np.random.default_rng(seed)).min() for seed in range(60)
    ]
    assert set(found) == {0, 255}


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
    assert clip[:, 0, 0, 0].tolist() == sample_indices(24, 8, random)
    assert (form(clip), form(label), int(label)) == ("uint8 (8, 3, 8, 8)", "int64 ()", 2)
    clip, label = files.training.sample(1, random)
    assert (clip[:, 0, 0, 0].tolist(), int(label)) == ([1] * 8, 0)
    clip, label = files.validation.sample(0, random)
    assert (clip[:, 0, 0, 0].tolist(), int(label)) == (val_indices(33, 8), 1)


def test_clips_of_fewer_than_three_frames_are_left_out(folder: Path) -> None:
    for name in ("train", "val"):
        numbered(folder, f"short/{name}", 2, 0, name)
        numbered(folder, f"enough/{name}", 3, 0, name)
    files = kinetics.open_set(folder)
    assert (len(files.training), len(files.validation)) == (4 + 1, 2 + 1)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("class_0/clip 12", "2 fields"),
        ("class_0/my clip 12 0", "4 fields"),
        ("class_0/clip  12 0", "4 fields"),
        ("class_0/clip twelve 0", "'twelve' is not a whole number"),
        ("class_0/clip 12 -1", "'-1' is not a whole number"),
        ("class_0/clip 12 400", "class 400 is not one of 400"),
        ("class_0/clip 99999999999999999999 0", "'99999999999999999999' is not a whole number"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(folder: Path, line: str, why: str) -> None:
    path = folder / "labels" / "val_videofolder.txt"
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(DataError) as caught:
        kinetics.open_set(folder)
    told = f"{path}, line 4: {why}; expected PATH FRAMES LABEL, found {line!r}"
    assert str(caught.value) == told


def test_a_list_that_is_missing_or_empty_is_one_sentence(folder: Path) -> None:
    path = folder / "labels" / "train_videofolder.txt"
    path.write_text("\n")
    with pytest.raises(DataError, match="has no clips of at least 3 frames"):
        kinetics.open_set(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"train_videofolder\.txt cannot be read: No such file"):
        kinetics.open_set(folder)


def test_a_missing_frame_and_frames_of_several_sizes_are_broken_samples(folder: Path) -> None:
    training = kinetics.open_set(folder, segments=12).training
    frame = folder / "images/class_0/train_0000/img_00012.jpg"
    frame.rename(frame.with_suffix(".lost"))
    with pytest.raises(BrokenSample, match="No such file") as caught:
        training.sample(0, np.random.default_rng(0))
    assert caught.value.path == str(frame)
    saved(frame, coordinates(9, 9))
    with pytest.raises(BrokenSample, match="several sizes"):
        training.sample(0, np.random.default_rng(0))
    training.sample(1, np.random.default_rng(0))
