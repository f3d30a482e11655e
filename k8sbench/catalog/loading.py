"""Benchmarks by name or by the path of a user's file. Imports YAML on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.spec import BenchmarkSpec

if TYPE_CHECKING:
    from k8sbench.catalog.image import ListedImage

EVERY = "all"
"""Stands for every built-in benchmark."""


def load_all() -> list[LoadedSpec]:
    """Return the built-in catalog."""
    from k8sbench.catalog import spec_files

    return list(spec_files.load_all())


def names() -> list[str]:
    """Return the names of the built-in benchmarks, without reading them."""
    from k8sbench.catalog import spec_files

    return spec_files.names()


def load_one(name: str) -> LoadedSpec:
    """Return one benchmark by its name, or by the path of its file."""
    from k8sbench.catalog import spec_files

    return spec_files.find(name)


def load(name: str) -> list[LoadedSpec]:
    """Return the benchmark of a name or a file's path; ``all``: every built-in one."""
    return load_all() if name == EVERY else [load_one(name)]


def images(spec: BenchmarkSpec) -> tuple[ListedImage, ...]:
    """Return the images that the variants of a benchmark run in."""
    from k8sbench.catalog import packaged

    return tuple(packaged.image_table().list_images(spec))
