"""The configuration files of the user and the project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k8sbench.adapters.files.config_files import ConfigFile

__all__ = ["ConfigFile", "files"]


def files() -> tuple[ConfigFile, ...]:
    """Read the files that there are, the project's before the user's."""
    from k8sbench.adapters.files import config_files

    return config_files.load(os.environ)
