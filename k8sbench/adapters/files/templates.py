"""The Jinja2 templates: in the package once installed, at the top of the source tree."""

from __future__ import annotations

from pathlib import Path

import jinja2

from k8sbench.model.errors import BenchError
from k8sbench.render.templates import environment

SUFFIX = ".j2"


def load() -> jinja2.Environment:
    """Read all templates, ready to be rendered."""
    return environment(read())


def read() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    package = Path(__file__).parents[2]
    for folder in (package / "_manifests", package.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it again."
    )
