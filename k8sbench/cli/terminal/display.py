"""The terminal: what goes on is drawn at its bottom, a few times a second.

What is told for good goes above and stays in the scrollback. A thread of its own draws, so that
times go on while nothing happens, and no more often than :data:`PAUSE`, however much does.
"""

from __future__ import annotations

import contextlib
import threading

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from k8sbench.cli.terminal import drawing
from k8sbench.cli.terminal.live_state import LiveRun
from k8sbench.cli.terminal.progress import Progress
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent
from k8sbench.report.text_table import clean

PAUSE = 0.25
"""Seconds between two drawings."""


class Display(Progress):
    """Tells of runs on a terminal; to be closed, or its cursor stays hidden."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        # Our caller has seen that this is a terminal. What an environment that was made for other
        # programs says of it (TTY_COMPATIBLE, FORCE_COLOR) may not half undo that.
        self._console = Console(
            stderr=True,
            force_terminal=True,
            force_interactive=True,
            markup=False,
            emoji=False,
            highlight=False,
        )
        # Reentrant: a signal's handler may tell something while the same thread is telling.
        self._lock = threading.RLock()
        self._said: list[str] = []
        """What is to go above the next drawing."""
        self._live: Live | None = None
        self._over = threading.Event()
        self._closed = False

    def planned(self, run: Run) -> None:
        """Print the plan, and draw from now on."""
        with self._lock:
            super().planned(run)
        if self._live is None and not self._closed:
            # Whatever else is printed to stderr goes above the drawing too. Not so stdout: it is
            # for data, and may be a file.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                vertical_overflow="crop",
            )
            self._live.start()
            self._drawer = threading.Thread(
                target=self._draw_on, args=(self._live,), name="k8sbench-display", daemon=True
            )
            self._drawer.start()

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Take a change in; it is seen with the next drawing."""
        with self._lock:
            super().on_event(run, event)

    def ended(self, run: Run) -> None:
        """Print the verdict where it is not simply valid; count the run from now on."""
        with self._lock:
            super().ended(run)

    def close(self) -> None:
        """Take the drawing off the terminal and show the cursor; idempotent."""
        self._closed = True
        if self._live is None:
            return
        live = self._live
        try:
            self._over.set()
            self._drawer.join()
        finally:
            self._live = None
            # A terminal that has gone is no reason to fail.
            with contextlib.suppress(OSError), self._console:
                self._print_said()
                live.update("")
                live.stop()

    def _say(self, text: str) -> None:
        if self._live is None:
            super()._say(text)
        else:
            with self._lock:
                self._said.append(clean(text))

    def _stepped(self, live: LiveRun) -> None:
        """Do nothing: steps are drawn."""

    def _draw_on(self, live: Live) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._lock:
                    frame = self._frame(*self._console.size)
                with self._console:  # one write for both
                    self._print_said()
                    live.update(frame, refresh=True)
                if self._over.wait(PAUSE):
                    return

    def _frame(self, width: int, height: int) -> RenderableType:
        """Draw what goes on, a line lower than the terminal: nothing of it may scroll away."""
        now, room = self._clock(), max(1, height - 1)
        if self._several:
            return drawing.several_runs(self._runs.values(), self._ended, now, width, room)
        for live in self._runs.values():
            return drawing.one_run(live, now, width, room)
        return ""

    def _print_said(self) -> None:
        with self._lock:
            said, self._said = self._said, []
        if said:
            self._console.print(Text("\n".join(said)), soft_wrap=True)
