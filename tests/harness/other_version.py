"""Another version of k8sbench: a copy of the package with a changed line here and there."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from tests.harness import children
from tests.packaged import PACKAGE


def make(folder: Path, module: ModuleType, changes: Mapping[str, str]) -> Path:
    """Copy the package into a folder, with changed texts in one module; returns the folder."""
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / Path(str(module.__file__)).relative_to(PACKAGE)
    text = path.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)
    return folder


def call(version: Path, function: Callable[..., object], *given: object) -> str:
    """Call a function in a process of another version; returns what it prints."""
    of_version = f"import sys\nsys.path.insert(0, {str(version)!r})\nimport {PACKAGE.name}\n"
    code = of_version + children.calling(function, *given)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
