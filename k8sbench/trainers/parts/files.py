"""Reading of regular files.

A pipe, a socket or a device is refused: reading it could block for ever.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from pathlib import Path


def _open(path: Path | str) -> io.FileIO:
    """Open a regular file, unbuffered; raises OSError."""
    # An open of a pipe would wait for its writer.
    file = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return file


def content(path: Path | str) -> bytes:
    """All bytes of a regular file; raises OSError."""
    with _open(path) as file:
        return file.readall()


def digest(path: Path | str) -> str:
    """SHA-256 of a regular file, hex; raises OSError."""
    with _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
