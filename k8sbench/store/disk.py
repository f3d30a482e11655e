"""File access that survives kills, and locks, with errors as :class:`.StoreError`.

Files are readable for their owner only, whatever the umask, because logs and plans may be
confidential.

Whole files are written under another name, flushed to the disk and renamed. Lines are appended with
one write each; a killed writer may leave a last line without its end, which readers skip.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from k8sbench.model.errors import StoreError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents."""
    try:
        path.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(0o700, exist_ok=True)


def create(path: Path, mode: str = "wb", buffering: int = -1) -> BinaryIO:
    """Open a file for writing; a new one is readable for its owner only."""
    opener = functools.partial(os.open, mode=0o600)
    return open(path, mode, buffering, opener=opener)  # type: ignore[return-value]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically; make its folder if missing.

    A reader or a kill finds the old or the new content.
    """
    with translate_errors(f"make {path.parent}"):
        make_folder(path.parent)
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file in pieces; it appears when complete."""
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with translate_errors(f"write {path}"):
        try:
            with create(half) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        except BaseException:
            half.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def read(path: Path) -> bytes | None:
    """Read a file; None if it is not there."""
    with translate_errors(f"read {path}"), contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def whole_size(path: Path) -> int:
    """Count the bytes of a file up to its last line end."""
    with map_file(path) as data:
        return data.rfind(b"\n") + 1


@contextlib.contextmanager
def map_file(path: Path) -> Iterator[mmap.mmap | bytes]:
    """Map a file into memory, to read only parts."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # nothing can be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def sync_folder(path: Path) -> None:
    """Flush a rename or a new folder, if the file system supports it."""
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


LOCK_SECONDS = 0.1
"""Interval of attempts to take a lock."""
LOCK_SHOWN_SECONDS = 5.0
"""Interval of lines on a lock that another process holds."""


@contextlib.contextmanager
def lock_folder(
    folder: Path, *, is_shared: bool = False, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a lock on a folder; others wait, unless all of them share it.

    With ``tell`` a process that waits says so now and then.
    """
    with translate_errors(f"lock {folder}"):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    how = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    told_at = time.monotonic()
    try:
        if tell is None:
            fcntl.flock(lock, how)
        while tell is not None and not _try_lock(lock, how):
            if time.monotonic() - told_at >= LOCK_SHOWN_SECONDS:
                told_at = time.monotonic()
                tell(f"waiting for another process that uses {folder} alone")
            time.sleep(LOCK_SECONDS)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def translate_errors(doing: str, option: str = "--store or K8SBENCH_STORE") -> Iterator[None]:
    """Turn system errors into :class:`StoreError`; ``option`` is how to name another place."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            what = "the disk is full, or its quota is used up"
            action = "Free some space and try again; what was recorded before is kept."
        else:
            what = error.strerror or str(error)
            action = f"Name another place with {option} if this one cannot be used."
        raise StoreError(f"Cannot {doing}: {what}.", action) from error


# -- claims of runs: only one open store follows a run ------------------------------------------

CLAIMS = "claims.lock"


class FileClaims:
    """The claims of one open store on runs.

    A claim is a lock on one byte of a file in the store's folder. The run's id decides the byte, so
    that any number of claims needs one open file. A claim is valid on one machine, and the system
    releases it when the process ends. The locks belong to the open file, not to the process:
    threads of a Python client with a store each exclude each other, too.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / CLAIMS
        self._file: int | None = None

    def claim(self, run_id: str) -> bool:
        """Claim a run; False if another process or store has it. Idempotent."""
        with translate_errors(f"lock {self._path}"):
            try:
                _lock(self._open_file(), fcntl.F_WRLCK, _offset(run_id))
            except (BlockingIOError, PermissionError):
                return False
        return True

    def is_taken(self, run_id: str) -> bool:
        """Return True if another process or store has a run."""
        with translate_errors(f"look at {self._path}"):
            return _is_locked(self._open_file(), _offset(run_id))

    def release(self, run_id: str) -> None:
        """Release a claim; does nothing if there is none."""
        if self._file is not None:
            _lock(self._file, fcntl.F_UNLCK, _offset(run_id))

    def _open_file(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def close(self) -> None:
        """Release all claims; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lock(file: int, kind: int, offset: int) -> None:
    """Lock or unlock one byte of an open file; raises :class:`BlockingIOError` if it is locked."""
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _byte(kind, offset))


def _is_locked(file: int, offset: int) -> bool:
    """Return True if another open file has locked a byte."""
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _byte(fcntl.F_WRLCK, offset))
    (kind,) = struct.unpack_from("h", answer)
    return bool(kind != fcntl.F_UNLCK)


def _byte(kind: int, offset: int) -> bytes:
    """Return the C struct ``flock`` of one byte."""
    whence, length, pid = os.SEEK_SET, 1, 0
    return struct.pack("hhqqi", kind, whence, offset, length, pid)


def _offset(run_id: str) -> int:
    """Return a run's own lock position among 2⁶²; it takes no disk space."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> 2
