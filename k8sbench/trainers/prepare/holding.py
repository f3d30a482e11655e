"""One at a time: a lock of the operating system, in a folder that several machines may share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from k8sbench.trainers.prepare.messages import Failed, say


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; raises :class:`Failed` where another process is at work.

    The lock ends with its process, also with one that is killed.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Failed(
                f"The folder is being prepared by {file.read() or 'another process'}.",
                "Wait for its end; then the same command says that all is there.",
            ) from None
        except OSError as error:  # of a file system without locks
            say(f"{path} cannot be locked ({error.strerror}): start nothing else on this folder.")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
