"""Logs of a run: one file per replica, each line with its time."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from k8sbench.adapters.lines import MARKED_BYTES, digest
from k8sbench.adapters.store import disk
from k8sbench.model.errors import StoreError
from k8sbench.model.sample import LogGap
from k8sbench.ports import LogLine, LogMark

LOGS = "logs"
LOG_SUFFIX = ".log"
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ")
MOST_BYTES = 256 << 20
"""Maximum size of a replica's log: three days of ten lines a second.

Beyond it the middle is dropped, so that an endless program does not fill the disk.
"""
FIRST_BYTES, LAST_BYTES = MOST_BYTES // 2, MOST_BYTES // 4
"""Kept sizes of a shortened log: beginning, and at least the end."""
LEFT_OUT = (
    f"The log has grown beyond {MOST_BYTES >> 20} MiB, and its middle is left out: have the program"
    " print less."
)
_PIECE_BYTES = 1 << 20


class LogWriter:
    """Writes a run's log lines, one file per replica.

    What is handed over is one write to the system, so a kill loses nothing of it. The first failure
    is raised; the lines after it are dropped, so that one full disk is one error. A file is open
    for its write only: a thousand runs have more logs than a process may have open files.
    """

    def __init__(
        self,
        folder: Path,
        check: Callable[[], None] = lambda: None,
        shortened: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self._folder = folder / LOGS
        self._check = check
        """Raises when the run is no longer this process's to follow."""
        self._shortened = shortened
        """Called with replica, position and bytes before a log is shortened."""
        self._cuts: dict[str, tuple[int, int]] = {}
        """Part of a log to be left out, by replica, bytes."""
        self._paths: dict[str, Path] = {}
        """Paths of the logs that were written here, by replica."""
        self._failed = False

    def write(self, first: LogLine, *more: LogLine) -> LogGap | None:
        """Append lines of one replica with their time stamps."""
        if self._failed:
            return None
        self._check()
        try:
            with disk.translated(f"write the log of {first.replica} in {self._folder}"):
                if first.replica in self._cuts:
                    self._shorten(first.replica)
                with self._file(first.replica) as file:
                    file.write(b"".join(map(_stamped, (first, *more))))
                    is_long = file.tell() > MOST_BYTES
                return self._too_long(first.replica) if is_long else None
        except StoreError:
            self._failed = True
            raise

    def close(self) -> None:
        """Shorten the logs that are still too long; idempotent."""
        for replica in list(self._cuts):
            with contextlib.suppress(OSError, StoreError):
                self._shorten(replica)

    def _too_long(self, replica: str) -> LogGap:
        """Choose the lines to leave out of a log."""
        with disk.mapped(self._paths[replica]) as data:
            begin = data.rfind(b"\n", 0, FIRST_BYTES) + 1
            end = data.find(b"\n", len(data) - LAST_BYTES) + 1
            last = data[data.rfind(b"\n", 0, begin - 1) + 1 : begin]
            after, _ = split_stamp(last)
            before, _ = split_stamp(data[end : data.find(b"\n", end)])
        self._cuts[replica] = begin, end
        return LogGap(replica=replica, after=after, before=before, why=LEFT_OUT)

    def _shorten(self, replica: str) -> None:
        begin, end = self._cuts.pop(replica)
        path = self._paths[replica]
        self._shortened(replica, begin, end - begin)
        with disk.mapped(path) as data, disk.whole_file(path) as file:
            for first, last in ((0, begin), (end, len(data))):
                for piece in range(first, last, _PIECE_BYTES):
                    file.write(data[piece : min(piece + _PIECE_BYTES, last)])

    def _file(self, replica: str) -> BinaryIO:
        path = self._paths.get(replica)
        if path is not None:
            return path.open("ab")
        disk.make_folder(self._folder)
        path = self._folder / f"{replica}{LOG_SUFFIX}"
        file = disk.create(path, "ab")
        if file.tell():
            # Drop half a line of a killed writer; no mark counts it, so it is fetched again.
            file.truncate(disk.whole_size(path))
        self._paths[replica] = path
        return file


class LogTail:
    """Reader of a growing log file."""

    def __init__(self, path: Path) -> None:
        self.replica = path.stem
        self._path = path
        with disk.translated(f"read {path}"):
            self._file = path.open("rb")
        self._at = 0.0

    def lines(self, *, to_end: bool = False) -> Iterator[tuple[float, bytes]]:
        """Yield time and text of the lines since the last call.

        A line still without its end is left for the next call, or yielded with ``to_end``. Lines
        without a stamp get that of the line before; times never go back.
        """
        with disk.translated(f"read {self._path}"):
            while line := self._file.readline():
                if not (line.endswith(b"\n") or to_end):
                    self._file.seek(-len(line), os.SEEK_CUR)
                    return
                at, text = split_stamp(line.rstrip(b"\n"))
                self._at = max(self._at, at or 0.0)
                yield self._at, text

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def log_mark(path: Path, begin: int = 0) -> LogMark | None:
    """Return a log's archive mark from a byte on; None without lines.

    It reads from the end, as far back as needed, because a log may be large.
    """
    last, lines, is_run, texts = None, 0, True, b""
    with disk.translated(f"read {path}"), contextlib.suppress(FileNotFoundError):
        for line in _lines_backwards(path, begin):
            at, text = split_stamp(line)
            if at is None:
                continue
            last = at if last is None else last
            is_run = is_run and at == last
            lines += is_run
            if len(texts) < MARKED_BYTES:
                texts = digest(text.decode("utf-8", "surrogateescape")) + texts
            elif not is_run:
                break
    return None if last is None else LogMark(last, lines, texts)


def _lines_backwards(path: Path, begin: int) -> Iterator[bytes]:
    """Yield a file's complete lines from a byte on, last first."""
    with disk.mapped(path) as data:
        end = data.rfind(b"\n", begin)
        while end >= begin:
            start = max(data.rfind(b"\n", begin, end) + 1, begin)
            yield data[start:end]
            end = start - 1


def _stamped(line: LogLine) -> bytes:
    begin = stamp(line.at) + b" "
    text = line.text.encode("utf-8", "surrogateescape")
    # A text with line ends becomes several stamped lines.
    return begin + text.replace(b"\n", b"\n" + begin) + b"\n"


def stamp(at: float) -> bytes:
    """Format Unix seconds as the stamp of a log line.

    For example ``2026-11-20T08:15:30.123456Z``.
    """
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}Z".encode()


def split_stamp(line: bytes) -> tuple[float | None, bytes]:
    """Split a line into time (Unix seconds, None without) and text."""
    match = _STAMP.match(line)
    if match is None:
        return None, line
    try:
        at = datetime.datetime.fromisoformat(match[1].decode()).timestamp()
    except ValueError:
        return None, line
    return at, line[match.end() :]
