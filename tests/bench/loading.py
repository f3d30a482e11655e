"""How many samples a second one loader process makes, beside pipelines of the same steps.

Ours reads files of a generated data set of full-size pictures, as a worker of a training does it,
without the collation. The plain one has the same steps with Pillow and numpy, on whole pictures and
then cropped, as torchvision's transforms of Pillow's pictures do it. Both take turns in this
process, on one thread and the same samples, from files that are in memory. Printed are rates by the
processor's time and the clock's, and the median of the pairs' ratios of processor time, with its
quartiles. Exit code 1 if a median is below the limit.

    python tests/bench/loading.py [--pairs 11] [--only cityscapes ...]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.trainers.data import (
    cityscapes,
    faces,
    imagenet,
    kinetics,
    streets_mmseg,
    streets_paddleseg,
)
from k8sbench.trainers.parts.file_samples import Reader
from k8sbench.trainers.parts.samples import Files
from tests.bench.sides import pictures, plain_loaders

LIMIT = 1.0
PAIRS = 11
BLOCK_SECONDS = 0.3
CROP = plain_loaders.CROP
OPENERS: dict[str, Callable[[Path], Files]] = {
    "cityscapes, mmseg": partial(
        cityscapes.open_set, augment=partial(streets_mmseg.augmented, crop=CROP)
    ),
    "cityscapes, PaddleSeg": partial(
        cityscapes.open_set, augment=partial(streets_paddleseg.augmented, crop=CROP)
    ),
    "imagenet": imagenet.open_set,
    "kinetics": kinetics.open_set,
    "faces": faces.open_set,
}
Sample = Callable[[int], tuple[plain_loaders.Array, ...]]
Took = tuple[float, float]  # seconds of the processor and of the clock


def sources(folder: Path, count: int, name: str) -> list[list[Path]]:
    """The files of each sample to train on."""
    if name.startswith("cityscapes"):
        found = [
            sorted(folder.glob(f"{kind}/train/*/*_{kind}*.png"))
            for kind in ("leftImg8bit", "gtFine")
        ]
        return [list(both) for both in zip(*found, strict=True)]
    if name == "kinetics":
        return [sorted(folder.glob(f"images/clip_{number}/*")) for number in range(count)]
    return [
        [path] for path in sorted(folder.glob("train/*/*" if name == "imagenet" else "images/*"))
    ]


def ours(name: str, folder: Path) -> Sample:
    """A sample by its position in a stream of epochs, as a loader process makes it."""
    reader = Reader(OPENERS[name](folder).training, seed=0)

    def sample(position: int) -> tuple[plain_loaders.Array, ...]:
        pair = reader[divmod(position, len(reader.part))].pair
        assert pair is not None
        return pair

    return sample


def other(pipeline: plain_loaders.Pipeline, files: list[list[Path]]) -> Sample:
    """The same sample by another pipeline."""

    def sample(position: int) -> tuple[plain_loaders.Array, ...]:
        epoch, number = divmod(position, len(files))
        return pipeline(files[number], np.random.default_rng((0, epoch, number)))

    return sample


def timed(sides: dict[str, Sample], positions: range) -> dict[str, Took]:
    """Seconds of the processor and of the clock for some samples, each by all sides in turn."""
    took = dict.fromkeys(sides, (0.0, 0.0))
    for position in positions:
        for title in list(sides) if position % 2 else reversed(sides):
            began = time.process_time(), time.perf_counter()
            sides[title](position)
            now = time.process_time(), time.perf_counter()
            before = took[title]
            took[title] = before[0] + now[0] - began[0], before[1] + now[1] - began[1]
    return took


def compare(name: str, folder: Path, pairs: int) -> bool:
    """Print a pipeline's figures; whether the limit is kept."""
    _, count = pictures.WRITERS[name.partition(",")[0]]
    files = sources(folder, count, name)
    sides = {"ours": ours(name, folder), "plain": other(plain_loaders.PIPELINES[name], files)}
    _check(name, sides)
    each = timed(sides, range(count))["plain"][0] / count
    block = max(3, round(BLOCK_SECONDS / each))
    blocks = [timed(sides, range(n * block, (n + 1) * block)) for n in range(pairs)]
    took = {title: [block[title] for block in blocks] for title in sides}
    rates = {
        title: [block / statistics.median(each) for each in zip(*found, strict=True)]
        for title, found in took.items()
    }
    ratios = [plain[0] / ours[0] for ours, plain in zip(took["ours"], took["plain"], strict=True)]
    low, middle, high = statistics.quantiles(ratios)
    print(
        f"{name}: {rates['ours'][0]:.1f}/s ({rates['ours'][1]:.1f} by the clock), plain "
        f"{rates['plain'][0]:.1f} ({rates['plain'][1]:.1f}); {middle:.2f} × ({low:.2f}–{high:.2f}, "
        f"limit {LIMIT})" + (": MISSED" if middle < LIMIT else ""),
        flush=True,
    )
    return middle >= LIMIT


def _check(name: str, sides: dict[str, Sample]) -> None:
    """End here where the sides do not make the same samples."""
    for position in range(4):
        made = {title: sample(position) for title, sample in sides.items()}
        shape = made["ours"][0].shape
        for title, sample in made.items():
            if sample[0].shape != shape or sample[0].dtype != np.uint8:
                raise SystemExit(f"{name}: {title} makes {sample[0].shape}, ours {shape}")
        if name in plain_loaders.EQUAL and (made["ours"][0] != made["plain"][0]).any():
            raise SystemExit(f"{name}: the plain pipeline's pictures are not ours")


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", nargs="*", choices=pictures.WRITERS, default=[])
    given = parser.parse_args()
    held = True
    for data_set, (write, count) in pictures.WRITERS.items():
        if given.only and data_set not in given.only:
            continue
        with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
            write(Path(name), count)
            for pipeline in OPENERS:
                if pipeline.partition(",")[0] == data_set:
                    held &= compare(pipeline, Path(name), given.pairs)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
