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
HEAD = 8 * 1024
"""Bytes that decide whether a file is text."""
_NOT_LOGS = """
.md .rst .html .htm .json .jsonl .yaml .yml .toml .ini .cfg .xml .csv .tsv .py .sh .ipynb
.png .jpg .jpeg .svg .pdf .pt .pth .ckpt .pdparams .pdopt .pdmodel .safetensors .onnx .npy
.npz .pkl .h5 .db .sqlite .zip .tar .tgz .bz2 .xz .zst .7z .whl .so .lock .pid
"""
NOT_LOGS = frozenset(_NOT_LOGS.split())
"""Endings of files that a folder may hold beside its logs. Everything else in a folder counts as
a log: their names follow no rule (``GPUx1.log@cb196e2e``, ``workerlog.0``, ``train_fp16``)."""

_GZIP = b"\x1f\x8b"
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""By the byte order mark that a file begins with; without one it is UTF-8."""
# Everything below space but tab, line ends, backspace, form feed and escape; and delete.
_CONTROL = bytes([*range(8), 11, *range(14, 27), *range(28, 32), 127])
MANY_CONTROLS = 0.05
"""Share of such characters from which a file is no text; random bytes have twice as many."""
_DIGITS = re.compile(r"(\d+)")
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
        try:
            with self._opened() as raw:
                yield from self._lines(self._text(raw))
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
        mode = os.stat(self._path).st_mode  # noqa: PTH116
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise InputError("is no file.", "Name a log file or a folder.", file=self.name)
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
            # A log that was cut while it was being written begins with a run of NULs.
            raw.read(len(head))
            head = raw.peek(HEAD)[:HEAD]
        encoding = next((name for mark, name in _ENCODINGS.items() if head.startswith(mark)), None)
        text = head.lstrip(b"\x00")
        controls = len(text) - len(text.translate(None, _CONTROL))
        is_binary = controls > MANY_CONTROLS * len(text) or not (text or empty)
        if encoding is None and is_binary:
            raise InputError(
                "is not a text file.",
                "Unpack it, or name the log that the program printed.",
                file=self.name,
            )
        return io.TextIOWrapper(raw, encoding or "utf-8", errors="replace", newline="")

    def _lines(self, text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
        number, is_rest = 1, False
        try:
            while piece := text.readline(LONGEST_LINE + 1):
                line = piece.rstrip("\r\n")
                if line and not is_rest:
                    self.cut_lines += len(line) > LONGEST_LINE
                    yield number, line[:LONGEST_LINE]
                is_rest = piece[-1] not in "\r\n"
                number += piece[-1] == "\n"
        finally:
            text.detach()  # whoever opened the stream closes it


def _unreadable(path: str, wrong: OSError) -> InputError:
    if isinstance(wrong, FileNotFoundError):
        return InputError("does not exist.", "Check the path.", file=path)
    if isinstance(wrong, PermissionError):
        return InputError("may not be read.", "Ask its owner for permission to read it.", file=path)
    return InputError(f"cannot be read: {_cause(wrong)}.", "Check the path.", file=path)


def _cause(wrong: Exception) -> str:
    text = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return (text or type(wrong).__name__).rstrip(".").lower()
