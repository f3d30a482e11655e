"""The Jinja2 templates: in the package once installed, at the top of the source tree.

Compiling them takes a tenth of the time of a submit. As with Python's own modules, what they
compile to is kept: in the user's cache folder, unless Python is asked to write no bytecode.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from k8sbench import __version__
from k8sbench.model.errors import BenchError
from k8sbench.render.templates import environment

SUFFIX = ".j2"


def load() -> jinja2.Environment:
    """Read all templates, ready to be rendered."""
    return environment(read(), None if sys.dont_write_bytecode else _compiled())


def read() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    package = Path(__file__).parents[2]
    for folder in (package / "_manifests", package.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it again."
    )


class _Compiled(jinja2.FileSystemBytecodeCache):
    """A cache that does without a folder that cannot be written, or a file that is damaged."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what was compiled from the same text."""
        with contextlib.suppress(Exception):  # whatever a damaged pickle raises
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, whole or not at all."""
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    named = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    # Another version may set the environment up differently, which changes what the same text
    # compiles to.
    folder = Path(named, "k8sbench", f"templates-{__version__}")
    # The XDG specification says to ignore a path that is not absolute.
    return _Compiled(str(folder)) if folder.is_absolute() else None
