"""Claims of runs: only one process of a store follows a run.

They are locks on single bytes of one file in the store's folder. A claim covers one machine, and
the system ends it with the process. The run's id decides the byte, so that any number of claims
take one open file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from k8sbench.adapters.store import disk

CLAIMS = "claims.lock"


class FileClaims:
    """The claims of one process on runs of a store."""

    def __init__(self, root: Path) -> None:
        self._path = root / CLAIMS
        self._file: int | None = None

    def claim(self, run_id: str) -> bool:
        """Claim a run; False if another process has it. Again is the same claim."""
        with disk.translated(f"lock {self._path}"):
            if self._file is None:
                # Kept open: the system ends all our claims when any descriptor of it is closed.
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(run_id))
            except (BlockingIOError, PermissionError):
                return False
        return True

    def release(self, run_id: str) -> None:
        """Release a claim; does nothing if there is none."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _offset(run_id))

    def close(self) -> None:
        """Release all claims; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _offset(run_id: str) -> int:
    """Return a run's own lock position among 2⁶²; it takes no disk space."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> 2
