"""Logs of a run: one file per replica, each line with its time."""

from __future__ import annotations

import contextlib
import datetime
import heapq
import os
import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from k8sbench.adapters.lines import MARKED_BYTES, digest
from k8sbench.adapters.store import disk
from k8sbench.model.errors import StoreError
from k8sbench.ports import LogLine, LogMark

LOGS = "logs"
LOG_SUFFIX = ".log"
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ")


class LogWriter:
    """Writes a run's log lines, one file per replica.

    What is handed over is one write to the system, so a kill loses nothing of it. The first failure
    is raised; the lines after it are dropped, so that one full disk is one error. A file is open
    for its write only: a thousand runs have more logs than a process may have open files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LOGS
        self._paths: dict[str, Path] = {}
        """Paths of the logs that were written here, by replica."""
        self._failed = False

    def write(self, first: LogLine, *more: LogLine) -> None:
        """Append lines of one replica with their time stamps."""
        if self._failed:
            return
        try:
            doing = f"write the log of {first.replica} in {self._folder}"
            with disk.translated(doing), self._file(first.replica) as file:
                file.write(b"".join(map(_stamped, (first, *more))))
        except StoreError:
            self._failed = True
            raise

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


class LogTails:
    """Reader of the growing logs of a run's replicas."""

    def __init__(self, replica: str | None = None) -> None:
        self._replica = replica
        """Only this replica; None: all."""
        self._tails: dict[Path, LogTail] = {}

    def lines(self, paths: Iterable[Path], *, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
        """Yield time, replica and text of the files' new lines, in the order of time."""
        for path in paths:
            if path not in self._tails and self._replica in {None, path.stem}:
                self._tails[path] = LogTail(path)

        def stamped(tail: LogTail) -> Iterator[tuple[float, str, bytes]]:
            return ((at, tail.replica, text) for at, text in tail.lines(to_end=to_end))

        yield from heapq.merge(*map(stamped, self._tails.values()), key=itemgetter(0))

    @property
    def is_found(self) -> bool:
        """True if there was a file to read."""
        return bool(self._tails)

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()


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
