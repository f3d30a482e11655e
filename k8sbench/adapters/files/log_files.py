"""Log files as they lie on a disk: found, opened, unpacked, read line by line in little memory.

Nothing here knows what a line means. What cannot be read is an
:class:`~k8sbench.model.errors.InputError` that names the file and says what to do.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from k8sbench.model.errors import InputError

STDIN = "-"
LONGEST_LINE = 64 * 1024
"""Characters of a line; what follows in it is skipped and counted. No training line is near it."""
CHUNK = 256 * 1024
"""Bytes read at once."""
LOOKED_AT = 8 * 1024
"""Bytes by which a file is told to be text."""
_NOT_LOGS = """
.md .rst .html .htm .json .jsonl .yaml .yml .toml .ini .cfg .xml .csv .tsv .py .sh .ipynb
.png .jpg .jpeg .svg .pdf .pt .pth .ckpt .pdparams .pdopt .pdmodel .safetensors .onnx .npy
.npz .pkl .h5 .db .sqlite .zip .tar .tgz .bz2 .xz .zst .7z .whl .so .lock .pid
"""
NOT_LOGS = frozenset(_NOT_LOGS.split())
"""Endings of files that a folder may hold beside its logs. Everything else in a folder counts as
a log: their names follow no rule (``GPUx1.log@cb196e2e``, ``workerlog.0``, ``train_fp16``)."""

_GZIP = b"\x1f\x8b"
_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Everything below space but tab, line ends, backspace, form feed and escape; and delete.
_CONTROL = bytes([*range(8), 11, *range(14, 27), *range(28, 32), 127])
MANY_CONTROLS = 0.05
"""Share of such characters from which a file is no text; random bytes have twice as many."""
_DIGITS = re.compile(r"(\d+)")
_END = re.compile(r"[\r\n]")
_Stream = io.BufferedReader | gzip.GzipFile


def find(paths: Sequence[str]) -> list[str]:
    """Expand folders, recursively and in natural order; each log once, in the order given."""
    found: dict[str, None] = {}
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
            found |= dict.fromkeys(logs)
        else:
            found[path] = None
    return list(found)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - a Path would rewrite the name
    except OSError as wrong:
        raise _unreadable(path, wrong) from wrong
    except ValueError as wrong:
        raise InputError(f"{path!r} is not a file name.", "Name a log file.") from wrong


def _in_folder(folder: str) -> Iterator[str]:
    def refuse(wrong: OSError) -> None:
        raise _unreadable(wrong.filename or folder, wrong) from wrong

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted((f for f in folders if not f.startswith(".")), key=_natural)
        for name in sorted(files, key=_natural):
            path = Path(root, name)
            if _counts(name) and path.is_file():
                yield str(path)


def _counts(name: str) -> bool:
    bare = name.removesuffix(".gz")
    return not name.startswith(".") and Path(bare).suffix.lower() not in NOT_LOGS


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key by which ``workerlog.10`` follows ``workerlog.9``."""
    parts = _DIGITS.split(name)
    return [(int(part) if part.isdecimal() else 0, part) for part in parts]


class LogFile:
    """One log: iterate over it once for its numbered lines.

    A carriage return ends a piece of a line as a line feed ends the line: progress bars are
    rewritten in place, and what is printed next stands behind them. The pieces of one line share
    its number.
    """

    def __init__(self, path: str, name: str | None = None) -> None:
        self.name = name or ("<stdin>" if path == STDIN else path)
        self.cut_lines = 0
        self._path = path

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield line numbers from 1, and lines without their ends."""
        with self._opened() as raw:
            try:
                yield from self._lines(raw)
            except (EOFError, zlib.error, gzip.BadGzipFile) as wrong:
                raise InputError(
                    f"is a damaged gzip file: {_cause(wrong)}.",
                    "Get a complete copy of it.",
                    file=self.name,
                ) from wrong
            except OSError as wrong:
                raise _unreadable(self.name, wrong) from wrong

    @contextlib.contextmanager
    def _opened(self) -> Iterator[_Stream]:
        if self._path == STDIN:
            yield self._unpacked(sys.stdin.buffer)
            return
        try:
            if not _is_readable(os.stat(self._path).st_mode):  # noqa: PTH116
                raise InputError("is no file.", "Name a log file or a folder.", file=self.name)
            raw = open(self._path, "rb", CHUNK)  # noqa: PTH123, SIM115 - closed below
        except OSError as wrong:
            raise _unreadable(self.name, wrong) from wrong
        with raw:
            yield self._unpacked(raw)

    def _unpacked(self, raw: BinaryIO) -> _Stream:
        assert isinstance(raw, io.BufferedReader)
        try:
            head = raw.peek(LOOKED_AT)
        except OSError as wrong:
            raise _unreadable(self.name, wrong) from wrong
        if head.startswith(_GZIP):
            return gzip.GzipFile(fileobj=raw, mode="rb")
        return raw

    def _lines(self, raw: _Stream) -> Iterator[tuple[int, str]]:
        number, pending, skipping = 1, "", False
        for text in self._texts(raw):
            if skipping:
                end = _END.search(text)
                if end is None:
                    continue
                text, skipping = text[end.start() :], False  # noqa: PLW2901
            *lines, pending = (pending + text).split("\n")
            for line in lines:
                yield from self._pieces(number, line)
                number += 1
            if len(pending) > LONGEST_LINE:
                # Bounded, however long the line is: what carriage returns ended is out already.
                ended, _, pending = pending.rpartition("\r")
                yield from self._pieces(number, ended)
                if len(pending) > LONGEST_LINE:
                    yield from self._pieces(number, pending)
                    pending, skipping = "", True
        yield from self._pieces(number, pending)

    def _pieces(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        for piece in line.split("\r") if "\r" in line else (line,):
            if len(piece) > LONGEST_LINE:
                self.cut_lines += 1
            if piece:
                yield number, piece[:LONGEST_LINE]

    def _texts(self, raw: _Stream) -> Iterator[str]:
        """Decode the stream chunk by chunk, once its beginning looks like text."""
        first = chunk = raw.read1(CHUNK)
        while chunk and not chunk.strip(b"\x00"):
            # A log that was cut while it was being written begins with a run of NULs.
            chunk = raw.read1(CHUNK)
        self._reject_binary(chunk[:LOOKED_AT] or first[:LOOKED_AT])
        encoding = next((name for mark, name in _BOMS if chunk.startswith(mark)), "utf-8")
        decode = codecs.getincrementaldecoder(encoding)("replace").decode
        while chunk:
            yield decode(chunk)
            chunk = raw.read1(CHUNK)
        yield decode(b"", final=True)

    def _reject_binary(self, head: bytes) -> None:
        if any(head.startswith(mark) for mark, _ in _BOMS):
            return
        text = head.lstrip(b"\x00")
        controls = len(text) - len(text.translate(None, _CONTROL))
        if controls > MANY_CONTROLS * len(text) or (head and not text):
            raise InputError(
                "is not a text file.",
                "Unpack it, or name the log that the program printed.",
                file=self.name,
            )


def _is_readable(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _unreadable(path: str, wrong: OSError) -> InputError:
    if isinstance(wrong, FileNotFoundError):
        return InputError("does not exist.", "Check the path.", file=path)
    if isinstance(wrong, PermissionError):
        return InputError("may not be read.", "Ask its owner for permission to read it.", file=path)
    return InputError(f"cannot be read: {_cause(wrong)}.", "Check the path.", file=path)


def _cause(wrong: Exception) -> str:
    text = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return (text or type(wrong).__name__).rstrip(".").lower()
