"""Where the Jinja2 templates lie: in the package once installed, at the top of the source tree."""

from __future__ import annotations

from pathlib import Path

from k8sbench.model.errors import BenchError

SUFFIX = ".j2"


def read() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    package = Path(__file__).parents[2]
    for folder in (package / "_manifests", package.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it anew."
    )
