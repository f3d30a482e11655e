"""Archived logs: one file per replica in a run's folder, each line after its time."""

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

from k8sbench.model.errors import StoreError
from k8sbench.model.kinds import rank_order
from k8sbench.model.replica_logs import LogLine, LogMark, replica_of_log
from k8sbench.store import disk
from k8sbench.store.run_folder import LOG_SUFFIX, LOGS
from k8sbench.store.stamped_lines import MARKED_BYTES, digest

_STAMP_BYTES = 64
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ")


class LogWriter:
    """Writes a run's log lines, one file per replica.

    Each call is one write to the system, so that a kill loses no part of it. The first failure is
    raised; later lines are dropped, so that one full disk is one error. A file is open for its
    write only: a thousand runs have more logs than a process may have open files.
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
            with disk.translate_errors(doing), self._file(first.replica) as file:
                file.write(b"".join(map(_stamp_line, (first, *more))))
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


def sort_by_attempt(logs: Iterable[Path]) -> list[Path]:
    """Sort the logs of an observed run: first attempts before later ones, then by rank."""
    attempts: dict[str, list[Path]] = {}
    for path in sorted(logs, key=_first_line_at):
        attempts.setdefault(replica_of_log(path.stem), []).append(path)
    numbers = {path: at for paths in attempts.values() for at, path in enumerate(paths)}
    return sorted(numbers, key=lambda path: (numbers[path], rank_order(replica_of_log(path.stem))))


def _first_line_at(log: Path) -> float:
    """Return the time of a log's first line, Unix seconds."""
    with disk.translate_errors(f"read {log}"), log.open("rb") as file:
        return split_stamp(file.read(_STAMP_BYTES))[0] or 0.0


def shorten_log(path: Path, most: int) -> tuple[float | None, float | None] | None:
    """Cut whole lines out of the middle of a log of over ``most`` bytes.

    Returns the times of the lines before and after the cut; None if the log is shorter.
    """
    with disk.translate_errors(f"shorten {path}"), disk.map_file(path) as data:
        if len(data) <= most:
            return None
        first = data.rfind(b"\n", 0, most // 2) + 1
        last = data.find(b"\n", len(data) - most // 2) + 1
        before, _ = split_stamp(data[data.rfind(b"\n", 0, max(first - 1, 0)) + 1 : first])
        after, _ = split_stamp(data[last : last + 64])
        part = path.with_suffix(".part")
        with disk.create(part, "wb") as file:
            file.write(data[:first])
            file.write(data[last:])
        part.replace(path)
    return before, after


class LogTails:
    """Reader of the growing logs of a run's replicas."""

    def __init__(self, replica: str | None = None) -> None:
        self._replica = replica
        """Only this replica; None: all."""
        self._files: dict[Path, BinaryIO] = {}
        self._at: dict[Path, float] = {}
        """Time of the last line of each file, Unix seconds."""

    def lines(self, paths: Iterable[Path], *, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
        """Yield time, replica and text of the files' new lines, in the order of time.

        A line still without its end is left for the next call, or yielded with ``to_end``. Lines
        without a stamp get that of the line before; times never go back.
        """
        for path in paths:
            if path not in self._files and self._replica in {None, path.stem}:
                with disk.translate_errors(f"read {path}"):
                    self._files[path] = path.open("rb")
        new = (self._new_lines(path, to_end=to_end) for path in self._files)
        yield from heapq.merge(*new, key=itemgetter(0))

    def _new_lines(self, path: Path, *, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
        file = self._files[path]
        with disk.translate_errors(f"read {path}"):
            while line := file.readline():
                if not (line.endswith(b"\n") or to_end):
                    file.seek(-len(line), os.SEEK_CUR)
                    return
                at, text = split_stamp(line.rstrip(b"\n"))
                self._at[path] = max(self._at.get(path, 0.0), at or 0.0)
                yield self._at[path], path.stem, text

    @property
    def is_found(self) -> bool:
        """True if there was a file to read."""
        return bool(self._files)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def find_log_mark(path: Path, begin: int = 0) -> LogMark | None:
    """Return a log's archive mark from a byte on; None without lines.

    It reads from the end, as far back as needed, because a log may be large.
    """
    last, lines, is_run, texts = None, 0, True, b""
    with disk.translate_errors(f"read {path}"), contextlib.suppress(FileNotFoundError):
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
    with disk.map_file(path) as data:
        end = data.rfind(b"\n", begin)
        while end >= begin:
            start = max(data.rfind(b"\n", begin, end) + 1, begin)
            yield data[start:end]
            end = start - 1


def _stamp_line(line: LogLine) -> bytes:
    begin = format_stamp(line.at) + b" "
    text = line.text.encode("utf-8", "surrogateescape")
    # A text with line ends becomes several stamped lines.
    return begin + text.replace(b"\n", b"\n" + begin) + b"\n"


def format_stamp(at: float) -> bytes:
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
