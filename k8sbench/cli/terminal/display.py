"""Live progress on a terminal, drawn below the printed lines.

Printed lines stay in the scrollback. A thread draws every :data:`PAUSE`, so that times advance
without events and many events cost no more.
"""

from __future__ import annotations

import contextlib
import sys
import threading

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from k8sbench.cli.terminal import drawing, output
from k8sbench.cli.terminal.progress import Progress, sweep_words
from k8sbench.lifecycle.live import LiveRun
from k8sbench.model.plain_text import clean
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent

PAUSE = 0.25
"""Seconds between two drawings."""


class Display(Progress):
    """Reports on runs on a terminal."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        # The caller has checked that this is a terminal: TTY_COMPATIBLE and FORCE_COLOR, which may
        # be set for other programs, do not change that.
        self._console = Console(
            stderr=True,
            force_terminal=True,
            force_interactive=True,
            markup=False,
            emoji=False,
            highlight=False,
            no_color=not output.wanted(sys.stderr),
        )
        # Reentrant: a signal's handler may report while the same thread is reporting.
        self._lock = threading.RLock()
        self._lines: list[str] = []
        """To be printed above the next drawing."""
        self._live: Live | None = None
        self._stop = threading.Event()
        self._drawer = threading.Thread(target=self._draw, name="k8sbench-display", daemon=True)

    def planned(self, run: Run) -> None:
        """Print the plan, and draw from now on."""
        with self._lock:
            super().planned(run)
        if self._live is None and not self._stop.is_set():
            # What others print to stderr appears above the drawing. Not so stdout: it is for data,
            # and may be a file.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                vertical_overflow="crop",
            )
            self._live.start()
            # A process that Ctrl-Z stops cannot show a cursor that it has hidden.
            self._console.show_cursor(show=True)
            self._drawer.start()

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Record a change; the next drawing shows it."""
        with self._lock:
            super().on_event(run, event)

    def ended(self, run: Run) -> None:
        """Print the figure and the verdict; count the run from now on."""
        with self._lock:
            super().ended(run)

    def close(self) -> None:
        """Remove the drawing; idempotent."""
        self._stop.set()
        if self._live is None:
            return
        live = self._live
        try:
            self._drawer.join()
        finally:
            self._live = None
            # A terminal that has gone is no reason to fail.
            with contextlib.suppress(OSError), self._console:
                self._print_lines()
                live.update("")
                live.stop()

    def note(self, text: str) -> None:
        """Print one line above the drawing."""
        if self._live is None:
            super().note(text)
        else:
            with self._lock:
                self._lines.append(clean(text))

    def _stepped(self, live: LiveRun) -> None:
        """Do nothing: steps are drawn."""

    def _draw(self) -> None:
        live = self._live
        assert live is not None
        with contextlib.suppress(OSError):
            while True:
                with self._lock:
                    frame = self._frame(*self._console.size)
                with self._console:  # one write for both
                    self._print_lines()
                    live.update(frame, refresh=True)
                if self._stop.wait(PAUSE):
                    return

    def _frame(self, width: int, height: int) -> RenderableType:
        """Draw one line less than the terminal has: nothing of it may scroll away."""
        now, room = self._clock(), max(1, height - 1)
        if self._several or self._sweep is not None:
            left = len(self._left)
            words = sweep_words(self._sweep, now) if self._sweep is not None else ""
            return drawing.several_runs(
                self._runs.values(), self._ended, left, now, width, room, words
            )
        for live in self._runs.values():
            return drawing.one_run(live, now, width, room)
        return ""

    def _print_lines(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
        if lines:
            self._console.print(Text("\n".join(lines)), soft_wrap=True)
