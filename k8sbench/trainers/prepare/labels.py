"""Cityscapes' labels as train ids: 19 classes, and 255 for what is not evaluated."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from k8sbench.trainers.prepare.messages import EXIT_INPUT, Failed, Progress

# The label ids that are evaluated, in the order of their train ids: road, sidewalk, building, wall,
# fence, pole, traffic light, traffic sign, vegetation, terrain, sky, person, rider, car, truck,
# bus, train, motorcycle, bicycle.
EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
TABLE = [EVALUATED.index(label) if label in EVALUATED else 255 for label in range(256)]
IDS, TRAIN_IDS = "_gtFine_labelIds.png", "_gtFine_labelTrainIds.png"


def make_train_ids(folder: Path, state: Path) -> None:
    """Make each ``…_labelTrainIds.png`` that is missing beside its ``…_labelIds.png``."""
    missing = [
        (path, made)
        for part in ("train", "val")
        for path in sorted((folder / "gtFine" / part).glob(f"*/*{IDS}"))
        if not (made := path.with_name(path.name.replace(IDS, TRAIN_IDS))).exists()
    ]
    if not missing:
        return
    progress = Progress("make train ids", len(missing), "files")
    for path, made in missing:
        try:
            with Image.open(path) as picture:
                if picture.mode not in {"L", "P"}:
                    raise OSError(f"its pixels are {picture.mode}, not label ids")
                labels = Image.frombytes("L", picture.size, picture.tobytes()).point(TABLE)
        except (OSError, SyntaxError, ValueError) as error:
            raise Failed(f"{path}: {error}.", "Delete it and prepare again.", EXIT_INPUT) from None
        labels.save(state / "incoming", "PNG")
        (state / "incoming").replace(made)
        progress.add(1)
    progress.say()
