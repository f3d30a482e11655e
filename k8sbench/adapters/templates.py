"""Templates of manifests, and the trainers' sources.

The templates are in the package once installed, and at the top of the source tree.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.model.errors import BenchError
from k8sbench.render.trainer_sources import TrainerSources

if TYPE_CHECKING:
    import jinja2

PACKAGE = Path(__file__).parents[1]
SUFFIX = ".j2"


@functools.cache
def load_templates() -> jinja2.Environment:
    """Read all templates, ready to be rendered; each is compiled once."""
    # Completion reads the catalog, and has no time for Jinja2.
    from k8sbench.render import manifest

    return manifest.environment(template_texts())


def template_texts() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    for folder in (PACKAGE / "_manifests", PACKAGE.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it again."
    )


def trainer_sources() -> TrainerSources:
    """Read all source files under ``k8sbench/trainers``.

    A plan's digest of them identifies the trainers' version, whatever the framework. The package's
    own file is empty there, because a version alone does not change the trainers.
    """
    texts = {
        file.relative_to(PACKAGE.parent).as_posix(): file.read_text(encoding="utf-8")
        for file in PACKAGE.glob("trainers/**/*.py")
    }
    return TrainerSources.from_files({f"{PACKAGE.name}/__init__.py": "", **texts})
