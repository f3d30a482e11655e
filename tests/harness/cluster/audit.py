"""The API server's audit log of all requests except those of components."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def requests(log: Path) -> list[dict[str, Any]]:
    """Read them in the order of their answers; a line that is still being written is left out.

    One is written when its answer has gone out: the newest may be missing.
    """
    *whole, _ = log.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]
