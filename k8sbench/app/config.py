"""The configuration files of the user and the project."""

from __future__ import annotations

import os
from typing import Any


def files() -> dict[str, dict[str, Any]]:
    """Read the files that there are, the project's before the user's: path → its values."""
    from k8sbench.adapters.files import config_files

    return config_files.load(os.environ)
