"""Kinetics as frames with TSM's list files, and TSM's augmentations.

DIR/labels/{train,val}_videofolder.txt have a clip per line, "PATH FRAMES LABEL"; its frames are
DIR/images/PATH/img_00001.jpg and so on. As upstream, clips of fewer than 3 frames are left out, and
one with fewer frames than segments shows its first frame in all of them. Other than upstream, which
takes the first frame in place of one that it cannot read, and another clip in place of one without
a first frame, a clip with a broken frame is a broken sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError, Files

CLASSES = 400
SAMPLES = {"train": 234_584, "val": 19_760}  # as the report's checksum line counts them
FORM = "PATH FRAMES LABEL"
FEWEST_FRAMES = 3
SCALES = (1.0, 0.875, 0.75, 0.66)  # of a frame's shorter side
NEARLY = 3  # pixels: a side that is less than these from the model's becomes the model's
# In quarters of what a crop leaves of the width and of the height: corners, middle, middles of the
# edges, and between the corners and the middle.
PLACES = [(right, down) for right in range(5) for down in range(5) if (right + down) % 2 == 0]
Box = tuple[int, int, int, int]  # left, top, right, bottom
Line = tuple[str, int, int]


def indices_to_train(frames: int, segments: int, random: np.random.Generator) -> Array:
    """Draw one frame, from 1, in each of equal parts of a clip."""
    length = frames // segments
    if not length:
        return np.ones(segments, dtype=np.int64)
    return np.arange(segments) * length + random.integers(length, size=segments) + 1


def indices_to_validate(frames: int, segments: int) -> Array:
    """The frames, from 1, in the middle of equal parts of a clip."""
    if frames <= segments:
        return np.ones(segments, dtype=np.int64)
    length = frames / segments
    return np.array([int(length / 2 + length * segment) + 1 for segment in range(segments)])


def crop_box(width: int, height: int, size: int, random: np.random.Generator) -> Box:
    """One of 10 sizes at one of 13 places of a frame."""
    sides = [int(min(width, height) * scale) for scale in SCALES]
    sides = [size if abs(side - size) < NEARLY else side for side in sides]
    sizes = [
        (across, down)
        for i, down in enumerate(sides)
        for j, across in enumerate(sides)
        if abs(i - j) <= 1  # steps of SCALES between the two sides
    ]
    columns, rows = sizes[random.integers(len(sizes))]
    right, down = PLACES[random.integers(len(PLACES))]
    left = right * ((width - columns) // 4)
    top = down * ((height - rows) // 4)
    return left, top, left + columns, top + rows


def to_train(frames: Iterable[decoding.Picture], size: int, random: np.random.Generator) -> Array:
    """Crop, resize and maybe mirror all frames alike: uint8 [frames, 3, size, size]."""
    made: list[Array] = []
    for frame in frames:
        if not made:
            box = crop_box(*frame.size, size, random)
            mirrored = random.random() < 0.5
        part = frame.crop(box).resize((size, size), Image.Resampling.BILINEAR)
        made.append(decoding.pixels(decoding.mirrored(part) if mirrored else part))
    return np.stack(made)


def to_validate(frames: Iterable[decoding.Picture], size: int) -> Array:
    """The middle of the frames, of which the shorter side is 256: as :func:`to_train`."""
    resized = (decoding.shorter_side(frame, size * 256 // 224) for frame in frames)
    return np.stack([decoding.pixels(decoding.centre(frame, size)) for frame in resized])


def _made(
    folder: str,
    number: int,
    random: np.random.Generator,
    *,
    frames: Array,
    size: int,
    segments: int,
    training: bool,
) -> Array:
    count = int(frames[number])
    if training:
        indices = indices_to_train(count, segments, random)
        return to_train(_decoded(folder, indices.tolist()), size, random)
    return to_validate(_decoded(folder, indices_to_validate(count, segments).tolist()), size)


def _decoded(folder: str, indices: Iterable[int]) -> Iterator[decoding.Picture]:
    """Decode the frames one by one.

    Several at once would need new memory each time.
    """
    size, before = None, 0
    for index in indices:
        if index != before:  # a short clip has one frame many times
            picture = decoding.picture(_frame(folder, index))
            before = index
        if picture.size != (size := size or picture.size):
            raise BrokenSample(folder, "its frames have several sizes")
        yield picture


def open_set(folder: Path, *, size: int = 224, segments: int = 8, classes: int = CLASSES) -> Files:
    """The data set in `folder`, by `segments` frames of `size` pixels; raises `DataError`.

    Its digest is that of the list files: hundreds of frames per clip are too many to be asked for.
    """
    listed = {part: _listed(folder, part, classes) for part in SAMPLES}

    def part(name: str, *, training: bool) -> decoding.Listed:
        clips = [clip for clip in listed[name] if clip[1] >= FEWEST_FRAMES]
        if not clips:
            path = _list(folder, name)
            raise DataError(f"{path} has no clips of at least {FEWEST_FRAMES} frames")
        paths, frames, labels = zip(*clips, strict=True)
        how: dict[str, Any] = {"frames": np.array(frames), "size": size, "segments": segments}
        return decoding.Listed(
            folder / "images",
            decoding.names(paths),
            np.array(labels, dtype=np.int64),
            partial(_made, training=training, **how),
        )

    return Files(
        "kinetics",
        part("train", training=True),
        part("val", training=False),
        decoding.digest(decoding.listing(_list(folder, part)) for part in sorted(SAMPLES)),
        tuple(
            f"{name}: {path} has {frames} of at least {FEWEST_FRAMES} frames"
            for name, clips in listed.items()
            for path, frames, _ in clips
            if frames < FEWEST_FRAMES
        ),
    )


def _list(folder: Path, part: str) -> Path:
    return folder / "labels" / f"{part}_videofolder.txt"


def _frame(folder: Path | str, index: int) -> str:
    return f"{folder}/img_{index:05d}.jpg"


def _listed(folder: Path, part: str, classes: int) -> list[Line]:
    def read(line: str) -> Line:
        fields = line.split(" ")
        if len(fields) != len(FORM.split()) or not all(fields):
            raise ValueError(f"{len(fields)} fields")
        return fields[0], decoding.whole(fields[1]), decoding.label(fields[2], classes)

    return list(decoding.lines(_list(folder, part), read, FORM))
