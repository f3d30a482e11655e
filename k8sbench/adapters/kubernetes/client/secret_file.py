"""Files for secrets, which do not belong on a disk, and a disk may be full besides."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def secret_file() -> Iterator[tuple[IO[bytes], str]]:
    """Open an unbuffered file and give its path; it is gone at the end.

    It is in memory; on systems other than Linux it is a temporary file of this user alone.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("secret"), "r+b", buffering=0) as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(buffering=0) as named:
            yield named, named.name
