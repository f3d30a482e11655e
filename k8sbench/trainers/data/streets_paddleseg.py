"""PaddleSeg's augmentations of street scenes, as `benchmark/deeplabv3p.yml` has them.

Resize by 0.5–2 in steps of 0.25, pad, crop, flip, distort, normalise. As there, padding comes
first, so that it is flipped and distorted too, and colours are distorted by Pillow, with its own
rules of contrast, saturation and hue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from k8sbench.trainers.data.streets import Crop
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE

if TYPE_CHECKING:  # else on first use: trainers need no Pillow for synthetic data
    from PIL import Image

# Normalize, by its default 0.5 and 0.5 of values of 0–1.
NORMALISE = ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5))
SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
PADDING = 127  # of 127.5, once it is cut to bytes
# RandomDistort without arguments; hue in steps of which a full turn has 256.
ENHANCERS = ("Brightness", "Contrast", "Color")
DISTORTION, HUE = (0.5, 1.5), 18


def augmented(
    picture: Array, labels: Array, random: np.random.Generator, crop: tuple[int, int]
) -> tuple[Array, Array]:
    """Uint8 [rows, columns, 3] and [rows, columns]: uint8 [3, *crop] in RGB and [*crop]."""
    from PIL import Image

    scale = SCALES[random.integers(len(SCALES))]
    full = (round(scale * labels.shape[0]), round(scale * labels.shape[1]))
    window = Crop.drawn(full, crop, random)
    # Upstream resizes in floating point, and cuts where it goes on to Pillow.
    image = np.full((3, *crop), PADDING, np.uint8)
    image[:, : window.height, : window.width] = window.bilinear(picture, rounded=False)
    classes = np.full(crop, IGNORE, np.uint8)
    classes[: window.height, : window.width] = window.nearest(labels)
    if random.random() < 0.5:
        image, classes = image[:, :, ::-1], classes[:, ::-1]
    held = distorted(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), random)
    image = np.ascontiguousarray(np.asarray(held).transpose(2, 0, 1))
    return image, np.ascontiguousarray(classes)


def distorted(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Brightness, contrast, saturation and hue, each in half of the cases, in any order."""
    from PIL import ImageEnhance

    for chosen in random.permutation(len(ENHANCERS) + 1):
        if random.random() >= 0.5:
            continue
        if chosen < len(ENHANCERS):
            enhancer = getattr(ImageEnhance, ENHANCERS[chosen])(image)
            image = enhancer.enhance(random.uniform(*DISTORTION))
        else:
            image = hue_plus(image, random.uniform(-HUE, HUE))
    return image


def hue_plus(image: Image.Image, steps: float) -> Image.Image:
    """Shift hues by `steps`, cut to whole numbers, around the circle."""
    from PIL import Image

    bands = image.convert("HSV").split()
    turned = bands[0].point([int(hue + steps) % 256 for hue in range(256)])
    return Image.merge("HSV", (turned, *bands[1:])).convert("RGB")
