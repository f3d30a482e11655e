"""Live progress on a terminal, drawn below the printed lines.

Printed lines stay in the scrollback. Rich draws in a thread of its own, so that times advance
without events and many events cost no more. Each run is a line. No line is broken: a narrow
terminal drops optional columns, a low one counts the remaining rows. Text from logs and clusters
has no control characters or markup.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.cli.terminal.progress import SILENT_SECONDS, Progress, rate, step_count, sweep_words
from k8sbench.model import times
from k8sbench.model.masking import masked
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean
from k8sbench.model.run import Run
from k8sbench.model.times import Clock
from k8sbench.results.report.tables import Column, plain_table

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
            self._console.print(Text(masked(clean(text))), soft_wrap=True)

    def _stepped(self, live: LiveRun) -> None:
        """Do nothing: steps are drawn."""

    def _frame(self) -> RenderableType:
        """Draw one line less than the terminal has: nothing of it may scroll away."""
        if self._is_closed:
            return ""
        width, height = self._console.size
        # What changes while it is looked at is drawn the next time.
        with contextlib.suppress(RuntimeError):
            self._drawn = self._draw_runs(width, max(1, height - 1))
        return self._drawn

    def _draw_runs(self, width: int, room: int) -> RenderableType:
        now = self._clock()
        runs = [*self._runs.values()]
        words = sweep_words(self._sweep, now) if self._sweep is not None else ""
        return drawn(runs, self.ended_runs, len(self.left), now, width, room, words)


# -- drawing of active runs, for a terminal of any size --------------------------------------------


STARTING_UP = (Phase.STARTING, Phase.PULLING, Phase.PENDING, Phase.QUEUED, Phase.CREATED)
ACTIVE_FIRST = (Phase.RUNNING, *STARTING_UP)
"""Order of runs if not all fit, and in counts."""


_field = functools.partial(Column, whole=True)
_number = functools.partial(Column, whole=True, right=True)


def drawn(
    runs: Collection[LiveRun],
    ended: Counter[Phase],
    left: int,
    now: float,
    width: int,
    room: int,
    words: str = "",
) -> RenderableType:
    """Draw a line per active run within ``room`` lines; count the others.

    ``left`` is the number of runs to be collected, ``words`` the progress of their sweep.
    """
    ended = ended + Counter(live.phase for live in runs if live.phase.final)
    active = [live for live in runs if not live.phase.final]
    parts = [_counted([live.phase for live in active]) or "none going on"]
    if ended:
        parts.append(f"{ended.total()} ended: {_counted(list(ended.elements()))}")
    if left:
        parts.append(f"{left} to be collected")
    lines = _packed([*filter(None, words.split(", ")), *parts], width)
    shown, more = _fitting(sorted(active, key=_by_activity), room - len(lines))
    rows: list[RenderableType] = [*lines[:room]]
    if shown:
        rows.append(_table(_run_columns(now), shown, width))
    if more and len(lines) < room:
        phases = {live.phase for live in more}
        what = _counted([live.phase for live in more])
        what = f"all {more[0].phase}" if len(phases) == 1 and len(more) > 1 else what
        rows.append(_line(f"{'and ' if shown else ''}{len(more)} more: {what}", style="dim"))
    return Group(*rows)


def _run_columns(now: float) -> tuple[Column, ...]:
    return (
        _field("RUN", lambda live: live.run_id),
        _field("STATE", lambda live: live.phase, states=True),
        _number("TIME", lambda live: times.duration(now - live.created_at), optional=5),
        _number("STEP", lambda live: (steps := live.steps()) and step_count(steps), optional=1),
        _number("RATE", _run_rate, optional=3),
        _number("ETA", lambda live: _remaining(live, now), optional=2),
        _number("RESTARTS", lambda live: str(live.restarts) if live.restarts else None, optional=6),
        Column("DETAIL", lambda live: _detail(live, now), cut=True, optional=4),
    )


def _detail(live: LiveRun, now: float) -> str | None:
    if live.phase in STARTING_UP:
        return live.state.cause or None
    silent_s = now - (live.last_line_at() or now)
    return f"last line {times.duration(silent_s)} ago" if silent_s > SILENT_SECONDS else None


def _run_rate(live: LiveRun) -> str | None:
    steps = live.steps()
    return f"{rate(steps.rate)} {live.plan.rate_unit}" if steps else None


def _remaining(live: LiveRun, now: float) -> str:
    steps = live.steps()
    return times.duration(steps.remaining(now) if steps else None)


def _by_activity(live: LiveRun) -> tuple[bool, int]:
    return not live.state.unrecoverable, ACTIVE_FIRST.index(live.phase)


def _fitting(items: Sequence[LiveRun], room: int) -> tuple[Sequence[LiveRun], Sequence[LiveRun]]:
    """Split items: those with a line, and those counted in the last line."""
    if len(items) < room:
        return items, ()
    fit = max(0, room - 2)
    return items[:fit], items[fit:]


def _table(columns: Sequence[Column], items: Sequence[Any], width: int) -> Text:
    drawn = plain_table(columns, items, room=width, paint=output.painted)
    text = Text.from_ansi(drawn.rstrip("\n"))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _packed(parts: Sequence[str], width: int) -> list[Text]:
    """Join parts to lines; a part that does not fit starts the next line."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]} · {part}"
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return [_line(text) for text in lines]


def _line(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis")


def _counted(phases: Sequence[Phase]) -> str:
    """``20 Running, 8 Pending``."""
    counts = Counter(phases)
    order = (*ACTIVE_FIRST, *(phase for phase in Phase if phase.final))
    return ", ".join(f"{counts[phase]} {phase}" for phase in order if counts[phase])
