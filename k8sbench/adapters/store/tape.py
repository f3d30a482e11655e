"""A compressed tar file as a stream: written by Python's own library, read strictly.

What is read may come from anybody. A header is 512 bytes and nothing of it decides how much is read
at once; whatever is no plain file or folder is refused: links, devices, and the extended headers
that would be read into memory whole.
"""

from __future__ import annotations

import contextlib
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

from k8sbench.model.errors import InputError

BLOCK = 512
PIECE = 1 << 20
"""Bytes that are read at a time."""
MOST_PADDING = 1 << 20
"""Bytes after the end mark: a writer fills up its last record."""
LEVEL = 6
"""Of the compression: 9 takes twice the time of 6 and saves 1 % of a log."""


class Entry(NamedTuple):
    """One file of a tar file; what is not read of it is passed over."""

    name: str
    size: int
    pieces: Iterator[bytes]


@contextlib.contextmanager
def writing(out: BinaryIO) -> Iterator[tarfile.TarFile]:
    """Write a compressed tar file to a stream."""
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        yield tar


class Readable(Protocol):
    """What a file is read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes."""


def add(tar: tarfile.TarFile, name: str, size: int, at: float, content: Readable) -> None:
    """Add a file of a known size; one that has become shorter is an OSError."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(at), 0o600
    tar.addfile(info, content)  # type: ignore[arg-type]
    tar.members.clear()  # type: ignore[attr-defined]  # it keeps every header otherwise


def entries(file: BinaryIO, shown: str) -> Iterator[Entry]:
    """Read the files of a compressed tar file in their order; ``shown`` is its name in errors."""
    with gzip.GzipFile(fileobj=file, mode="rb") as tar:
        while any(header := _read(tar, BLOCK, shown)):
            try:
                info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
            except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as wrong:
                raise damaged(shown) from wrong
            if info.type == tarfile.DIRTYPE and info.size == 0:
                continue
            if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or info.size < 0:
                raise InputError(
                    f"It holds {info.name!r}, which is no plain file.",
                    "k8sbench store export writes none such; nothing was imported.",
                    file=shown,
                )
            pieces = _pieces(tar, info.size, shown)
            yield Entry(info.name, info.size, pieces)
            for _ in pieces:
                pass
            _read(tar, -info.size % BLOCK, shown)
        # To the end, where the checksum is compared.
        padding = 0
        while piece := _some(tar, PIECE, shown):
            padding += len(piece)
            if padding > MOST_PADDING:
                raise damaged(shown)


def damaged(shown: str) -> InputError:
    """Say that a file is cut off, damaged or something else."""
    return InputError(
        "It is cut off or damaged, or was not written by k8sbench store export.",
        "Nothing was imported. Export it again, or copy it again.",
        file=shown,
    )


def _pieces(tar: gzip.GzipFile, size: int, shown: str) -> Iterator[bytes]:
    while size:
        piece = _read(tar, min(size, PIECE), shown)
        size -= len(piece)
        yield piece


def _read(tar: gzip.GzipFile, size: int, shown: str) -> bytes:
    """Read so many bytes; fewer are a file that was cut off."""
    data = _some(tar, size, shown)
    if len(data) < size:
        raise damaged(shown)
    return data


def _some(tar: gzip.GzipFile, size: int, shown: str) -> bytes:
    try:
        return tar.read(size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as wrong:
        raise damaged(shown) from wrong
