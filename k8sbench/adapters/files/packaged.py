"""Files of the package: templates, trainers' sources, table of images.

The templates are in the package once installed, and at the top of the source tree.
"""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

import jinja2

from k8sbench.adapters.files import strict_yaml
from k8sbench.model.errors import BenchError
from k8sbench.model.image import ImageTable
from k8sbench.render import manifest
from k8sbench.render.trainer_sources import TrainerSources

PACKAGE = Path(__file__).parents[2]
SUFFIX = ".j2"
IMAGES = "images.yaml"
CRD = "benchmarks.k8sbench.io.yaml"


@functools.cache
def load_templates() -> jinja2.Environment:
    """Read all templates, ready to be rendered; each is compiled once."""
    return manifest.environment(template_texts())


def template_texts() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    for folder in (PACKAGE / "_manifests", PACKAGE.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it again."
    )


def crd() -> str:
    """Read the text of the CRD of ``Benchmark``, which the chart installs, too."""
    for folder in (PACKAGE / "_crds", PACKAGE.parent / "charts" / "crds"):
        if (file := folder / CRD).is_file():
            return file.read_text(encoding="utf-8")
    raise BenchError("This installation of k8sbench has no CRD.", "Install it again.")


def trainer_sources() -> TrainerSources:
    """Read all source files under ``k8sbench/trainers``.

    A plan's digest of them identifies the trainers' version, whatever the framework. The package's
    own file is empty there, because a version alone does not change the trainers.
    """
    texts = {
        file.relative_to(PACKAGE.parent).as_posix(): file.read_text(encoding="utf-8")
        for file in PACKAGE.glob("trainers/**/*.py")
    }
    return TrainerSources.of({f"{PACKAGE.name}/__init__.py": "", **texts})


def image_table() -> ImageTable:
    """Read the table of images."""
    file = f"built-in {IMAGES}"
    data = resources.files("k8sbench").joinpath(IMAGES).read_bytes()
    return strict_yaml.parse(strict_yaml.decode(data, file=file), ImageTable, file=file)
