"""The API server's audit log of all requests except those of components."""

import json
from pathlib import Path
from typing import Any


def requests(log: Path) -> list[dict[str, Any]]:
    """Return logged requests in order of their answers, without an unfinished line.

    A line is written after the answer, so the newest may be missing.
    """
    *whole, _ = log.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]
