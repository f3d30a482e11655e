"""Unpacks tar and zip files below one folder, and goes on where it was cut off.

A file is written beside its place and renamed when it is whole, so that one of the right size was
unpacked before. Nothing is made outside of the folder; links and devices are left out and named.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from k8sbench.trainers.prepare.messages import EXIT_INPUT, Failed, Progress, say

_BLOCK = 1 << 20
_UTF_8 = 0x800  # in the flags of a zip's member
NAMED = 5  # of what is left out
_Member = tuple[str, int, Any]  # path, size in bytes, and the library's own; None: no file
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def unpack(archive: Path, folder: Path, wanted: frozenset[str], state: Path) -> None:
    """Unpack what `folder` needs; raises :class:`Failed`.

    `wanted` are the names that a set's folder has at its top: what stands before them in a path is
    left away, and members without one are left out. Empty: everything, under its own path.
    """
    try:
        with _opened(archive) as (members, read, total):
            progress = Progress(f"unpack {archive.name}", total)
            root = folder.resolve()
            left_out: list[str] = []
            for path, length, member in members:
                place = _placed(path, wanted)
                if member is None or place is None:
                    left_out.append(path)
                    continue
                target = root / place
                if not target.parent.resolve().is_relative_to(root):
                    raise Failed(
                        f"{target.parent} leads out of {folder}.", "Remove that link.", EXIT_INPUT
                    )
                if target.is_symlink() or not target.exists() or target.stat().st_size != length:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    incoming = state / "incoming"
                    with read(member) as source, incoming.open("wb") as file:
                        written = 0
                        while block := source.read(_BLOCK):
                            written += file.write(block)
                    if written != length:
                        raise EOFError(f"{path} ends after {written} of {length} bytes")
                    incoming.replace(target)
                progress.add(length)
            progress.say()
            if left_out:
                more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
                say(f"Left out of the archive: {', '.join(left_out[:NAMED])}{more}.")
    except _DAMAGED as error:
        archive.unlink()  # on a claim nobody else can
        why = str(error).partition(":")[0]
        raise Failed(
            f"{archive.name} is damaged or no archive: {why}. It was deleted.",
            "Check the URL, and prepare again with a checksum.",
            EXIT_INPUT,
        ) from None


def _placed(path: str, wanted: frozenset[str]) -> PurePosixPath | None:
    """Where a member goes below the folder; None: the set does not need it."""
    given = PurePosixPath(path.replace("\\", "/"))
    if given.is_absolute() or ".." in given.parts or "\0" in path:
        raise Failed(
            f"The archive holds {path!r}, which leads out of the folder: nothing more is unpacked.",
            "Do not use this archive.",
            EXIT_INPUT,
        )
    parts = given.parts
    if not wanted:
        return given if parts else None
    first = next((index for index, part in enumerate(parts) if part in wanted), None)
    return None if first is None else PurePosixPath(*parts[first:])


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tuple[Iterator[_Member], Any, int | None]]:
    """Give the files of an archive, what reads one, and the bytes of all where that is known."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            infos = opened.infolist()
            yield _of_zip(infos), opened.open, sum(info.file_size for info in infos)
        return
    with tarfile.open(archive) as tar:
        is_plain = isinstance(tar.fileobj, io.BufferedReader)
        yield _of_tar(tar), tar.extractfile, archive.stat().st_size if is_plain else None


def _of_zip(infos: list[zipfile.ZipInfo]) -> Iterator[_Member]:
    for info in infos:
        if not info.is_dir():
            # The upper half holds Unix' mode, where the archive was made on one.
            kind = info.external_attr >> 28
            name = info.filename
            if not info.flag_bits & _UTF_8:  # its bytes, as tar has them, and not as DOS reads them
                name = os.fsdecode(name.encode("cp437"))
            yield name, info.file_size, info if kind in {0, 0o10} else None


def _of_tar(tar: tarfile.TarFile) -> Iterator[_Member]:
    for info in tar:
        if not info.isdir():
            yield info.name, info.size, info if info.isreg() else None
        tar.members = []  # type: ignore[attr-defined]  # millions of them take memory
