"""Reads the trainers' source files as they are installed: what travels into the pods."""

from __future__ import annotations

from pathlib import Path

from k8sbench.render.trainer_sources import TrainerSources


def read() -> TrainerSources:
    """Read every source file under ``k8sbench/trainers``. All of them: a plan's digest then says
    which version of the trainers ran, whatever the framework.

    The package's own file is empty there: a version alone does not change the trainers.
    """
    package = Path(__file__).parents[2]
    texts = {
        file.relative_to(package.parent).as_posix(): file.read_text(encoding="utf-8")
        for file in package.glob("trainers/**/*.py")
    }
    return TrainerSources.of({f"{package.name}/__init__.py": "", **texts})
