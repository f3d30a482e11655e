"""A limit on the time that a log's reader may take for one line.

A declared pattern can be such that a line of thirty characters keeps it busy for ever. Python's
regular expressions ask for signals now and then, so a timer ends them, in the main thread, which
alone is given signals. It counts the time that this process computes: a busy machine ends nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator, Mapping
from types import FrameType

from k8sbench.adapters.files.log_files import LogFile
from k8sbench.measure.run.log_facts import OpenedLog
from k8sbench.model.errors import InputError

SECONDS = 2.0
"""Enough for any sensible pattern: most take less than a thousandth of that."""
_READER = "k8sbench.parse"


def opened(files: Mapping[str, str | None], *, declared: bool) -> list[OpenedLog]:
    """Open logs by path, under the names that they are given; None: their path."""
    logs = [LogFile(file, name) for file, name in files.items()]
    return [Limited(log) for log in logs] if declared else list(logs)


class Limited:
    """A log file whose reader gets so much time for each of its lines.

    Lines come in blocks, so the timer strikes again and again: a line is too slow at which it
    finds the reader for the second time, after the limit at least and twice the limit at most.
    """

    def __init__(self, log: LogFile) -> None:
        self.name = log.name
        self._log = log
        self._found_at = 0
        self._reading = self._blocks()

    def __iter__(self) -> Iterator[str]:
        return self._reading

    def _blocks(self) -> Generator[str, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield from self._log
            return
        before = signal.signal(signal.SIGVTALRM, self._strike)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)
            yield from self._log
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    def _strike(self, _signal: int, frame: FrameType | None) -> None:
        line = _line_read(frame)
        if line is None or line != self._found_at:
            self._found_at = line or 0
            return
        # Whoever catches the error holds on to the reader: without this, the file would stay
        # open, and the signal this log's.
        self._reading.close()
        raise InputError(
            f"keeps a pattern of the declared format busy for more than {SECONDS:g} s.",
            "Repeat nothing that is repeated already: (\\S+\\s*)+ tries every way to divide "
            "a line.",
            file=self.name,
            line=line,
        )


def _line_read(frame: FrameType | None) -> int | None:
    """Return the number of the line that is being read; None: none is.

    What tries a pattern on a line has its number as ``number``.
    """
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_READER) and "number" in frame.f_locals:
            return int(frame.f_locals["number"])
        frame = frame.f_back
    return None
