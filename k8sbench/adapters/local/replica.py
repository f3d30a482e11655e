"""One replica as k8sbench sees it: its warden, the pipe of its output, what it has said so far."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from k8sbench.adapters.lines import Lines
from k8sbench.adapters.local import warden
from k8sbench.adapters.local.launch import MARK, Launch

CHUNK = 64 * 1024
REMEMBERED = 400
"""Last lines kept for the diagnosis: torchrun's table and a traceback or two."""
REMEMBERED_LENGTH = 1000
"""Of each of them, characters."""
EMPTY_LOOKS = 3
"""In a row, that a search by mark must find empty before it ends."""
PATIENCE = 5.0
"""Beyond what a warden may take to end its replica, seconds; then it is killed itself."""


class Replica:
    """A started replica. Reading is for one thread at a time; ending is for any, at any time."""

    def __init__(self, launch: Launch, ground: Mapping[str, str], grace: float) -> None:
        self.launch = launch
        self.name = launch.replica
        self.grace = grace
        self.pid: int | None = None
        """Of the main process."""
        self.code: int | None = None
        """How the main process ended, as Kubernetes counts: 128 + N where signal N ended it."""
        self.ended_at = 0.0
        """When it ended: the machine's monotonic clock, the same for all replicas."""
        self.problem: str | None = None
        """Why it could not start, or what became of its warden."""
        self.asked = False
        """Whether we asked for its end."""
        self.told = False
        """Whether its warden has begun to end it, on our word or on a signal from outside."""
        self.left: tuple[int, ...] = ()
        """Processes of it that would not die."""
        self.last: deque[str] = deque(maxlen=REMEMBERED)
        self._lines = Lines()
        self._news = b""
        # Held while writing to the warden or letting go of the pipe to it. Reentrant: a signal
        # handler may ask for the end while its own thread is inside.
        self._lock = threading.RLock()
        self._control: int | None = None
        self.output: int | None = None
        self.report: int | None = None
        self._warden: subprocess.Popen[bytes] | None = None
        self._spawn(ground)

    # -- starting ---------------------------------------------------------------------------

    def _spawn(self, ground: Mapping[str, str]) -> None:
        """Start the warden; :meth:`start` then lets it start the replica."""
        control, self._control = os.pipe()
        self.report, report = os.pipe()
        self.output, output = os.pipe()
        try:
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__],
                stdin=control,
                stdout=report,
                stderr=output,
                env=dict(ground),
                cwd="/",
                # The terminal's signals are for k8sbench, which then ends its replicas in order.
                start_new_session=True,
            )
        except BaseException:
            self.close()
            raise
        finally:
            for theirs in (control, report, output):
                os.close(theirs)
        for ours in (self.report, self.output):
            os.set_blocking(ours, False)

    def start(self) -> None:
        """Tell the warden what to start."""
        wish = {
            "command": self.launch.command,
            "environ": self.launch.environ,
            "cwd": self.launch.cwd,
            "folders": (self.launch.scratch, *self.launch.folders),
            "grace": self.grace,
            "parent": os.getpid(),
        }
        self._say(json.dumps(wish).encode() + b"\n")

    def _say(self, words: bytes) -> None:
        with self._lock:
            while words and self._control is not None:
                try:
                    words = words[os.write(self._control, words) :]
                except OSError:  # the warden has gone; its report's end will say so
                    return

    # -- what it says -----------------------------------------------------------------------

    def read_output(self) -> list[str] | None:
        """Return the lines that are there; None at the end of all output."""
        assert self.output is not None
        try:
            data = os.read(self.output, CHUNK)
        except BlockingIOError:
            return []
        return self._spoken(self._lines.feed(data)) if data else None

    def last_output(self) -> list[str]:
        """Close the output; returns what stood there without a line end."""
        if self.output is None:
            return []
        os.close(self.output)
        self.output = None
        return self._spoken(self._lines.end())

    def _spoken(self, lines: list[str]) -> list[str]:
        self.last.extend(line[:REMEMBERED_LENGTH] for line in lines)
        return lines

    def read_report(self) -> bool:
        """Take in the warden's news; False once it is over."""
        assert self.report is not None
        try:
            data = os.read(self.report, CHUNK)
        except BlockingIOError:
            return True
        *whole, self._news = (self._news + data).split(b"\n")
        for line in whole:
            self._take(json.loads(line))
        return bool(data)

    def _take(self, news: dict[str, Any]) -> None:
        self.pid = news.get("started", self.pid)
        self.told = self.told or "ending" in news
        self.left = tuple(news.get("left", self.left))
        if "exited" in news:
            self.code = news["exited"] if news["exited"] >= 0 else 128 - news["exited"]
            self.ended_at = news["at"]
        if "failed" in news:
            self.problem = f"could not be started: {news['failed']}"
            self.code, self.ended_at = warden.NO_COMMAND, time.monotonic()

    # -- ending -----------------------------------------------------------------------------

    def end(self) -> None:
        """Ask for the end: SIGTERM, and SIGKILL after the grace. Returns at once."""
        if not self.asked:
            self.asked = True
            self._say(warden.END)

    @property
    def longest_end(self) -> float:
        """Seconds after :meth:`end` by which even a stubborn replica is over."""
        return self.grace + warden.SWEEP_SECONDS + PATIENCE

    def bury(self, timeout: float | None = None) -> bool:
        """Wait for the warden; False if it is not over in time. Sweeps up if it was killed."""
        if self._warden is None:
            return True
        try:
            status = self._warden.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        if status < 0:
            # The warden was killed. Its main process is dead by that; what that one had started
            # still has our mark.
            mark = f"{MARK}={self.launch.environ[MARK]}".encode()
            self.left = tuple(warden.sweep(lambda: warden.marked(mark), _nothing_for_a_while()))
            shutil.rmtree(self.launch.scratch, ignore_errors=True)
        if self.code is None:
            self.code = 128 - status if status < 0 else warden.NO_COMMAND
            self.ended_at = time.monotonic()
            self.problem = self.problem or (
                f"lost its warden (process {self._warden.pid}), which ended by "
                + (f"signal {-status}" if status < 0 else f"a fault (code {status})")
            )
        return True

    def kill(self) -> None:
        """Kill the warden, which kills the replica; for one that does not answer."""
        if self._warden is not None:
            with contextlib.suppress(OSError):
                self._warden.kill()

    def close(self) -> None:
        """Let go of all pipes; the end of the control pipe ends a replica that still runs."""
        with self._lock:
            control, self._control = self._control, None
            if control is not None:
                os.close(control)
        report, self.report = self.report, None
        output, self.output = self.output, None
        for pipe in (report, output):
            if pipe is not None:
                os.close(pipe)


def _nothing_for_a_while() -> Callable[[list[warden.Process]], bool]:
    """Say that it is over when several looks in a row found nothing."""
    empty = 0

    def is_over(found: list[warden.Process]) -> bool:
        nonlocal empty
        empty = 0 if found else empty + 1
        if empty < EMPTY_LOOKS:
            threading.Event().wait(warden.LOOK_MS / 1000)
        return empty >= EMPTY_LOOKS

    return is_over


def oom_kills() -> int | None:
    """Count what the kernel killed for want of memory since it started; None where unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None
