"""Where the table of images comes from: the package's own file; and what is installed here."""

from __future__ import annotations

import contextlib
from importlib import resources

from k8sbench.adapters.files import strict_yaml
from k8sbench.model.image import PACKAGES, ImageTable
from k8sbench.model.spec import Framework

FILE = "images.yaml"


def load() -> ImageTable:
    """Read the built-in table."""
    file = f"built-in {FILE}"
    data = resources.files("k8sbench").joinpath(FILE).read_bytes()
    return strict_yaml.parse(strict_yaml.decode(data, file=file), ImageTable, file=file)


def installed() -> dict[Framework, str]:
    """Versions of the frameworks in this environment, of those that have kernels for GPUs."""
    from importlib import metadata

    images: dict[Framework, str] = {}
    for framework, package in PACKAGES.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            images[framework] = metadata.version(package)
    return images
