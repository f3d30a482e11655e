"""Log files: found, opened, unpacked, read in blocks of lines.

Memory stays small; nothing here interprets a line. An unreadable log is an
:class:`~k8sbench.model.errors.InputError` with the file and an action.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from k8sbench.catalog.imported_logs import STDIN_NAME
from k8sbench.model.errors import InputError
from k8sbench.model.plain_text import readable

STDIN = "-"
LONGEST_LINE = 64 * 1024
"""Maximum characters of a line; the rest is skipped and counted.

No training line is near it.
"""
CHUNK = 128 * 1024
"""Bytes, and characters, read at once."""
HEAD = 8 * 1024
"""Bytes that decide whether a file is text."""
_NOT_LOGS = """
.md .rst .html .htm .json .jsonl .yaml .yml .toml .ini .cfg .xml .csv .tsv .py .sh .ipynb
.png .jpg .jpeg .svg .pdf .pt .pth .ckpt .pdparams .pdopt .pdmodel .safetensors .onnx .npy
.npz .pkl .h5 .db .sqlite .zip .tar .tgz .bz2 .xz .zst .7z .whl .so .lock .pid
"""
NOT_LOGS = frozenset(_NOT_LOGS.split())
"""Endings of files in a folder that are not logs.

All others count as logs, whose names follow no rule (``GPUx1.log@cb196e2e``, ``workerlog.0``,
``train_fp16``).
"""

_GZIP = b"\x1f\x8b"
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encoding by byte order mark; UTF-8 without one."""
# Controls but tab, line ends, backspace, form feed and escape.
_CONTROL = bytes([*range(8), 11, *range(14, 27), *range(28, 32), 127])
MANY_CONTROLS = 0.05
"""Minimum share of control characters in binary data.

Random bytes have twice as many.
"""
_DIGITS = re.compile(r"(\d+)")
_TOO_LONG = re.compile(rf"(?<![^\r\n])([^\r\n]{{{LONGEST_LINE}}})[^\r\n]+")
_Stream = io.BufferedReader | gzip.GzipFile


def find(paths: Sequence[str]) -> list[str]:
    """Expand folders in natural order; return each log once."""
    files: dict[str, None] = {}
    for path in paths:
        if path != STDIN and _is_folder(path):
            logs = list(_in_folder(path))
            if not logs:
                raise InputError(
                    "is a folder without a log.",
                    "Name the files: hidden ones and those with endings such as .json do not "
                    "count as logs.",
                    file=path,
                )
            files |= dict.fromkeys(logs)
        else:
            files[path] = None
    return list(files)


def names(given: Sequence[str], files: Iterable[str]) -> dict[str, str | None]:
    """Map log files to their names in rows; None: the path itself.

    Files under absolute paths are named from the common folder of those paths, so that nothing
    printed, recorded or published shows a user's home. ``given`` are the paths at or below which
    the files were found.
    """
    absolute = [path for path in given if Path(path).is_absolute()]
    folders = [path if Path(path).is_dir() else str(Path(path).parent) for path in absolute]
    above = os.path.commonpath(folders) if folders else ""
    parts = {
        file: str(Path(file).relative_to(above)) if Path(file).is_absolute() else None
        for file in files
    }
    # a/b.log and /c/a/b.log would have one name.
    is_unique = len({name or file for file, name in parts.items()}) == len(parts)
    return parts if is_unique else dict.fromkeys(parts)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - a Path would rewrite the name
    except OSError as error:
        raise _unreadable(path, error) from error


def _in_folder(folder: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise _unreadable(error.filename or folder, error) from error

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted((f for f in folders if not f.startswith(".")), key=_natural)
        for name in sorted(files, key=_natural):
            path = Path(root, name)
            if _counts(name) and os.path.isfile(path):  # noqa: PTH113 - of /proc/1/cwd a Path raises
                yield str(path)


def _counts(name: str) -> bool:
    bare = name.removesuffix(".gz")
    return not name.startswith(".") and Path(bare).suffix.lower() not in NOT_LOGS


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key by which ``workerlog.10`` follows ``workerlog.9``."""
    parts = _DIGITS.split(name)
    return [(int(part) if part.isdecimal() else 0, part) for part in parts]


def opened(files: Mapping[str, str | None]) -> list[LogFile]:
    """Open logs by path, with their names; None: the path."""
    return [LogFile(file, name) for file, name in files.items()]


class LogFile:
    """One log; iterate over it once for blocks of whole lines.

    A line ends at a line feed, a carriage return, or both (:mod:`k8sbench.reader.lines`).
    """

    def __init__(self, path: str, name: str | None = None) -> None:
        self.name = readable(name or (STDIN_NAME if path == STDIN else path))
        self._path = path

    def unpacked(self) -> Iterator[bytes]:
        """Yield the log's bytes as they are, but unpacked."""
        with self._translated(), self._opened() as raw:
            while piece := raw.read(CHUNK):
                yield piece

    def __iter__(self) -> Iterator[str]:
        """Yield whole lines; only the log's last one may have no end."""
        with self._translated(), self._opened() as raw:
            yield from self._blocks(self._text(raw))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"is damaged gzip data: {_cause(error)}.",
                "Get a complete copy of it.",
                file=self.name,
            ) from error
        except OSError as error:
            raise _unreadable(self.name, error) from error

    @contextlib.contextmanager
    def _opened(self) -> Iterator[_Stream]:
        if self._path == STDIN:
            yield self._unpacked(sys.stdin.buffer)
            return
        mode = os.stat(self._path).st_mode  # noqa: PTH116
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            what = "is a folder." if stat.S_ISDIR(mode) else "is neither file nor pipe."
            raise InputError(what, "Name a log file.", file=self.name)
        with open(self._path, "rb", CHUNK) as raw:  # noqa: PTH123
            yield self._unpacked(raw)

    def _unpacked(self, raw: BinaryIO) -> _Stream:
        assert isinstance(raw, io.BufferedReader)
        return gzip.GzipFile(fileobj=raw) if raw.peek(HEAD).startswith(_GZIP) else raw

    def _text(self, raw: _Stream) -> io.TextIOWrapper:
        """Decode the stream, once its beginning looks like text."""
        head = raw.peek(HEAD)[:HEAD]
        empty = not head
        while head and not head.strip(b"\x00"):
            # A log that was truncated while it was written begins with NULs.
            raw.read(len(head))
            head = raw.peek(HEAD)[:HEAD]
        encoding = next((name for mark, name in _ENCODINGS.items() if head.startswith(mark)), None)
        text = head.lstrip(b"\x00")
        controls = len(text) - len(text.translate(None, _CONTROL))
        is_binary = controls > MANY_CONTROLS * len(text) or not (text or empty)
        if encoding is None and is_binary:
            action = "Unpack it, or name the log that the program printed."
            raise InputError("is not text.", action, file=self.name)
        return io.TextIOWrapper(raw, encoding or "utf-8", errors="replace", newline="")

    def _blocks(self, text: io.TextIOWrapper) -> Iterator[str]:
        limit = LONGEST_LINE + 1
        try:
            while block := text.read(CHUNK):
                # Complete the last line, or only its line feed.
                last = text.readline(limit)
                block += last
                while last and last[-1] not in "\r\n":
                    # The line is too long already: keep only the end of the rest.
                    last = text.readline(limit)
                    block += last[-1:] if last[-1:] in "\r\n" else ""
                if "\r" in block:  # blocks without one are searched faster
                    block = block.replace("\r\n", "\n")
                yield self._cut(block)
        finally:
            text.detach()  # whoever opened the stream closes it

    @staticmethod
    def _cut(block: str) -> str:
        """Cut the lines of a block that are too long."""
        at = 0
        while len(block) - at > LONGEST_LINE:
            ends = (block.rfind(end, at, at + LONGEST_LINE + 1) for end in "\r\n")
            if (found := max(ends)) < 0:
                return _TOO_LONG.sub(r"\1", block)
            at = found + 1
        return block


def _unreadable(path: str, error: OSError) -> InputError:
    action = "Check the path, and the permissions of the file."
    return InputError(f"cannot be read: {_cause(error)}.", action, file=path)


def _cause(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__).rstrip(".").lower()
