"""Optional dependencies (extras), written out for pip.

k8sbench itself is on no package index, so that ``pip install 'k8sbench[torch]'`` finds nothing. A
test holds these requirements equal to those of ``pyproject.toml``.
"""

from __future__ import annotations

import shlex
import sys

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "torch": ("torch==2.10.0", "numpy<2", "pillow>=10"),
    "paddle": ("paddlepaddle==2.6.2", "numpy<2", "pillow>=10", "setuptools<81"),
    "operator": (
        "psycopg[binary]>=3.1,<4",
        "starlette>=1.10,<2",
        "uvicorn>=0.54,<1",
    ),
}
"""Extra → its requirements."""


def how_to_install(extra: str) -> str:
    """Write the command that installs an extra for the running Python."""
    words = (sys.executable, "-m", "pip", "install", *REQUIREMENTS[extra])
    return f"Install it: {shlex.join(words)}"
