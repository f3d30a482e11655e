"""Where the Jinja2 templates lie: in the package once installed, at the top of the source tree."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from k8sbench.model.errors import BenchError

SUFFIX = ".j2"


def read() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    found = _texts(resources.files("k8sbench") / "_manifests")
    if not found:
        found = _texts(Path(__file__).parents[3] / "manifests")
    if not found:
        raise BenchError(
            "This installation of k8sbench has no templates for manifests.", "Install it anew."
        )
    return found


def _texts(folder: Traversable) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    files = sorted((each for each in folder.iterdir() if each.name.endswith(SUFFIX)), key=_name)
    return {each.name: each.read_text(encoding="utf-8") for each in files}


def _name(each: Traversable) -> str:
    return each.name
