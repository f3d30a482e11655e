"""Live progress on a terminal, drawn below the printed lines.

Printed lines stay in the scrollback. Rich draws in a thread of its own, so that times advance
without events and many events cost no more.
"""

from __future__ import annotations

import contextlib
import sys

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from k8sbench.cli.terminal import drawing, output
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.cli.terminal.progress import Progress, sweep_words
from k8sbench.model.plain_text import clean
from k8sbench.model.run import Run
from k8sbench.ports import Clock

DRAWINGS_PER_SECOND = 4.0


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
        self._drawn: RenderableType = ""
        self._is_closed = False
        # What others print to stderr appears above the drawing. Not so stdout: it is for data, and
        # may be a file.
        self._live = Live(
            console=self._console,
            get_renderable=self._frame,
            refresh_per_second=DRAWINGS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )

    def planned(self, run: Run) -> None:
        """Print the plan, and draw from now on."""
        super().planned(run)
        if not self._live.is_started and not self._is_closed:
            self._live.start()
            # A process that Ctrl-Z stops cannot show a cursor that it has hidden.
            self._console.show_cursor(show=True)

    def close(self) -> None:
        """Remove the drawing; idempotent."""
        self._is_closed = True
        # A terminal that has gone is no reason to fail.
        with contextlib.suppress(OSError):
            self._live.stop()

    def note(self, text: str) -> None:
        """Print one line above the drawing."""
        if not self._live.is_started:
            super().note(text)
            return
        with contextlib.suppress(OSError):
            self._console.print(Text(clean(text)), soft_wrap=True)

    def _stepped(self, live: LiveRun) -> None:
        """Do nothing: steps are drawn."""

    def _frame(self) -> RenderableType:
        """Draw one line less than the terminal has: nothing of it may scroll away."""
        if self._is_closed:
            return ""
        width, height = self._console.size
        # What changes while it is looked at is drawn the next time.
        with contextlib.suppress(RuntimeError):
            self._drawn = self._of_runs(width, max(1, height - 1))
        return self._drawn

    def _of_runs(self, width: int, room: int) -> RenderableType:
        now, runs = self._clock(), [*self._runs.values()]
        words = sweep_words(self._sweep, now) if self._sweep is not None else ""
        return drawing.drawn(runs, self._ended, len(self._left), now, width, room, words)
