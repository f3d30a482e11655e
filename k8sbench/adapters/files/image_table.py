"""Where the table of images comes from: the package's own file."""

from __future__ import annotations

from importlib import resources

from k8sbench.adapters.files import strict_yaml
from k8sbench.model.image import ImageTable

FILE = "images.yaml"


def load() -> ImageTable:
    """Read the built-in table."""
    file = f"built-in {FILE}"
    data = resources.files("k8sbench").joinpath(FILE).read_bytes()
    return strict_yaml.parse(strict_yaml.decode(data, file=file), ImageTable, file=file)
