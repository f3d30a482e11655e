"""Who follows which run: one process of this machine at a time.

A claim is a record lock on one byte of a file in the store's folder, at an offset that the run's
id decides: any number of claims take one open file, and the system itself ends them with the
process. On a file system that cannot lock everybody is given the claim.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from pathlib import Path

from k8sbench.adapters.store import artifacts

CLAIMS = "claims.lock"
_TAKEN = {errno.EACCES, errno.EAGAIN}
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOTTY}


class FileClaims:
    """The claims of this process in one store."""

    def __init__(self, root: Path) -> None:
        self._path = root / CLAIMS
        self._file: int | None = None

    def claim(self, run_id: str) -> bool:
        """Claim a run; False if another process has it. Again is the same claim."""
        if self._file is None:
            # Kept open: the system ends all our claims when any descriptor of the file is closed.
            try:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as wrong:
                raise artifacts.store_error(wrong, f"open {self._path}") from wrong
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(run_id))
        except OSError as wrong:
            if wrong.errno in _TAKEN:
                return False
            if wrong.errno not in _NO_LOCKS:
                raise artifacts.store_error(wrong, f"lock {self._path}") from wrong
        return True

    def release(self, run_id: str) -> None:
        """Give a claim back; nothing if there is none."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _offset(run_id))

    def close(self) -> None:
        """Give all claims back; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _offset(run_id: str) -> int:
    """Return a place of a run's own among 2⁶², which no file system needs to store."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> 2
