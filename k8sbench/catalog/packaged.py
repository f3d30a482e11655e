"""Files of the package: the table of images, and the CRD of ``Benchmark``.

The CRD is in the package once installed, and in ``charts`` in the source tree.
"""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.catalog import strict_yaml, yaml_text
from k8sbench.catalog.image import ImageTable, ListedImage
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.errors import BenchError

if TYPE_CHECKING:
    from k8sbench.model.object_schema import ObjectSchema

PACKAGE = Path(__file__).parents[1]
IMAGES = "images.yaml"
CRD = "benchmarks.k8sbench.io.yaml"


def read_crd() -> str:
    """Read the text of the CRD of ``Benchmark``, which the chart installs, too."""
    for folder in (PACKAGE / "_crds", PACKAGE.parent / "charts" / "crds"):
        if (file := folder / CRD).is_file():
            return file.read_text(encoding="utf-8")
    raise BenchError("This installation of k8sbench has no CRD.", "Install it again.")


@functools.cache
def object_schema() -> ObjectSchema:
    """Return the schema of ``Benchmark`` objects that the CRD states."""
    from k8sbench.model.object_schema import ObjectSchema

    return ObjectSchema(yaml_text.load(read_crd()))


def read_image_table() -> ImageTable:
    """Read the table of images."""
    file = f"built-in {IMAGES}"
    data = resources.files("k8sbench.catalog").joinpath(IMAGES).read_bytes()
    return strict_yaml.parse(strict_yaml.decode(data, file=file), ImageTable, file=file)


def benchmark_images(spec: BenchmarkSpec) -> tuple[ListedImage, ...]:
    """Return the images that the variants of a benchmark run in."""
    return tuple(read_image_table().list_images(spec))
