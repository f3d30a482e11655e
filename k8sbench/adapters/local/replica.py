"""One replica: its subreaper, its output, and its end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import deque

from k8sbench.adapters.lines import Lines
from k8sbench.adapters.local import subreaper
from k8sbench.adapters.local.launch import Launch
from k8sbench.model.phase import Phase

CHUNK = 64 * 1024
"""Most that is read from the output at once, bytes."""
LAST_LINES = 400
"""Lines kept for the diagnosis: torchrun's table and some tracebacks."""
LAST_LINES_LENGTH = 1000
"""Maximum characters of each kept line."""
EXTRA_SECONDS = 5.0
"""Seconds beyond a subreaper's limit until it is killed itself."""


class Replica:
    """A started replica.

    One thread reads it; any thread or signal handler may end it.
    """

    def __init__(self, launch: Launch, grace: float) -> None:
        """Start it; ``grace`` is the time between SIGTERM and SIGKILL, seconds.

        Raises OSError if its folders or its process cannot be made.
        """
        self.name = launch.replica
        self.phase = Phase.STARTING
        """Phase that was last reported."""
        self.longest_end = grace + subreaper.KILL_SECONDS + EXTRA_SECONDS
        """Seconds after :meth:`end` by which even a stubborn replica is over."""
        self.code: int | None = None
        """Exit code of the main process; 128 + N after signal N."""
        self.ended_at = 0.0
        """End of the main process, monotonic seconds; comparable among replicas."""
        self.was_asked = False
        """True if it ended after a request."""
        self.is_over = False
        """True if its subreaper, and so all its processes, ended."""
        self.problem: str | None = None
        """Failure of its subreaper; None without one."""
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._lines = Lines()
        self.control, control = socket.socketpair()
        self.control.setblocking(False)
        output, writer = os.pipe()
        os.set_blocking(output, False)
        self.output: int | None = output
        try:
            for folder in launch.folders:
                os.mkdir(folder, 0o700)  # noqa: PTH102 - a string
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", subreaper.__file__),
                    *(str(grace), launch.scratch, *launch.command),
                ],
                stdin=control.fileno(),
                stdout=writer,
                stderr=writer,
                env=launch.environ,
                cwd=launch.cwd,
                # Signals of the terminal go to k8sbench, which then ends its replicas.
                start_new_session=True,
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            control.close()
            os.close(writer)

    @property
    def pid(self) -> int:
        """Process id of its subreaper."""
        return self._process.pid

    def read_output(self) -> list[str] | None:
        """Return available lines; None at the end of the output."""
        assert self.output is not None
        try:
            data = os.read(self.output, CHUNK)
        except BlockingIOError:
            return []
        return self._keep(self._lines.feed(data)) if data else None

    def close_output(self) -> list[str]:
        """Close the output; returns what stood there without a line end."""
        if self.output is not None:
            os.close(self.output)
            self.output = None
        return self._keep(self._lines.end())

    def _keep(self, lines: list[str]) -> list[str]:
        self.last.extend(line[:LAST_LINES_LENGTH] for line in lines)
        return lines

    def read_control(self) -> None:
        """Read the main process's end or the subreaper's; one is there."""
        report = b""
        with contextlib.suppress(OSError):
            report = self.control.recv(256)
        if report:
            code, ended_at, was_asked = report.split()
            self.code, self.ended_at = int(code), float(ended_at)
            self.was_asked = was_asked == b"1"
            return
        self.is_over = True
        status = self._process.wait()
        if self.code is None:
            how = f"by signal {-status}" if status < 0 else f"with code {status}"
            self.problem = f"lost its subreaper (process {self.pid}), which ended {how}"
            self.code = 128 - status if status < 0 else subreaper.NO_COMMAND
            self.ended_at = time.monotonic()

    def end(self) -> None:
        """Request the end: SIGTERM, SIGKILL after the grace; idempotent."""
        with contextlib.suppress(OSError):  # it is over, or closed
            self.control.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill an unresponsive subreaper; the main process ends with it."""
        self._process.kill()

    def close(self) -> None:
        """End it if it runs, wait, and close the pipes."""
        self._close_pipes()
        try:
            self._process.wait(self.longest_end)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def _close_pipes(self) -> None:
        self.control.close()
        self.close_output()
