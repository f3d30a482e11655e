"""``config``: the files of settings."""

from __future__ import annotations

import os
from typing import Any


def read() -> dict[str, dict[str, Any]]:
    """Read existing config files, the project's first: path → values."""
    from k8sbench.catalog import config_files

    return config_files.load(os.environ)
