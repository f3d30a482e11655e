"""Reads the trainers' source files as they are installed: what travels into the pods."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from k8sbench.render.trainer_sources import TrainerSources

FOLDER = "k8sbench/trainers"
PACKAGE = "k8sbench/__init__.py"
"""The package's own file goes along; like in the tree, it imports nothing."""


def read() -> TrainerSources:
    """Read every source file under ``k8sbench/trainers``. All of them: a plan's digest then says
    which version of the trainers ran, whatever the framework.
    """
    package = resources.files("k8sbench")
    found = {PACKAGE: (package / "__init__.py").read_text(encoding="utf-8")}
    found.update(_sources(package / "trainers", FOLDER))
    return TrainerSources.of(found)


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for each in folder.iterdir():
        inner = f"{path}/{each.name}"
        if each.name.endswith(".py"):
            yield inner, each.read_text(encoding="utf-8")
        elif each.is_dir() and each.name != "__pycache__":
            yield from _sources(each, inner)
