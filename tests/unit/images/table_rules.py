"""The rules of the built-in table of images that no field alone can state."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from k8sbench.model.image import TITLES, ImageTable, number

At = tuple[str | int, ...]
"""Path of the offending key."""


def problems(table: ImageTable) -> Iterator[tuple[At, str]]:
    """Yield what is wrong with a table as a whole."""
    seen: dict[tuple[str, ...], str] = {}
    for index, row in enumerate(table.gpus):
        if row.capability in seen.values():
            yield ("gpus", index, "capability"), f"says {row.capability} a second time"
        for name in (*row.data_center, *row.other):
            words = tuple(words_of(name))
            if words in seen:
                yield ("gpus", index), f"has {name}, which {seen[words]} has too"
            seen[words] = row.capability
    for index, line in enumerate(table.builds):
        if line.before is not None and number(line.before) <= number(line.since):
            yield ("builds", index, "before"), f"is {line.before}, not after {line.since}"
    for framework, origin in itertools.product(TITLES, ("public", "built")):
        count = sum((i.framework, i.origin) == (framework, origin) for i in table.images)
        if count != 1:
            yield ("images",), f"has {count} {origin} images of {framework}, not one"
    for index, image in enumerate(table.images):
        if table.build(image) is None:
            yield ("images", index), f"is of no build in builds: {image.version}, CUDA {image.cuda}"
        if image.origin == "public" and table.content(image.name) is None:
            yield (
                ("images", index, "name"),
                f"is {image.name!r}, whose tag says no version and CUDA",
            )


def words_of(name: str) -> list[str]:
    """The words of a GPU's name, as the table compares them."""
    return re.findall(r"[a-z0-9]+", name.lower())
