"""Benchmark objects that the API server and a store take or refuse alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from k8sbench.catalog import yaml_text

FOLDER = Path(__file__).parents[2] / "fixtures" / "benchmarks"


def accepted() -> list[dict[str, Any]]:
    return _documents("accepted.yaml")


def refused() -> list[dict[str, Any]]:
    return _documents("refused.yaml")


def changes() -> list[dict[str, Any]]:
    """Specs before, patches of them, and whether they are taken."""
    (found,) = _documents("changes.yaml")
    return list(found)


def _documents(name: str) -> list[Any]:
    return yaml_text.load_manifests((FOLDER / name).read_text())
