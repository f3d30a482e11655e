"""Recipes of CONTRIBUTING.md, carried out on a copy of the product."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests.tiers import ROOT

Recipe = Mapping[str, str | tuple[tuple[str, str], ...]]
"""File → text of a new one, or (anchor line, inserted lines) pairs."""


def carried_out(tree: pathlib.Path, *recipes: Recipe) -> pathlib.Path:
    """Copy the product into a folder, and change the copy as the recipes say."""
    for folder in ("k8sbench", "manifests"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tree / folder, copy_function=os.link, ignore=unwanted)
    for name, change in ((name, recipe[name]) for recipe in recipes for name in recipe):
        if isinstance(change, str):
            assert not (tree / name).exists(), name
            (tree / name).write_text(change)
            continue
        text = (tree / name).read_text()
        for before, added in change:
            assert text.count(before) == 1, f"{name}: {before}"
            text = text.replace(before, added + before)
        (tree / name).unlink()  # a link to the product's own file
        (tree / name).write_text(text)
    return tree


def python(tree: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy, and with the tests."""
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": f"{tree}:{ROOT}", "K8SBENCH_STORE": str(tree / "store")},
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def k8sbench(tree: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the copy."""
    return python(tree, "-m", "k8sbench", *words)
