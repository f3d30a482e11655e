"""What is drawn of the runs that go on, for a terminal of any size.

One run is drawn with its replicas, several with a line each. No line is broken: where columns are
few the less important ones are left out, where lines are few the rest is counted. Foreign text is
plain text: no control characters, no markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.live_state import LiveRun, Output
from k8sbench.cli.terminal.progress import rate, rate_unit, step_count, step_words
from k8sbench.model.phase import Phase
from k8sbench.report.text_table import clean

Item = TypeVar("Item")

SILENT_SECONDS = 30.0
"""After so long without a line it is said how long."""
GAP = 2
"""Blanks between columns."""
SHORTEST_SENTENCE = 12
"""Columns of a terminal; a sentence cut shorter says nothing and is left out."""
STARTING_UP = (Phase.STARTING, Phase.PULLING, Phase.PENDING, Phase.QUEUED, Phase.CREATED)
STYLES: dict[str, str] = {
    **dict.fromkeys(STARTING_UP, "yellow"),
    Phase.RUNNING: "green",
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "bold red",
    Phase.LOST: "bold red",
    Phase.CANCELLED: "magenta",
}
TROUBLE_FIRST = (
    *(Phase.FAILED, Phase.LOST, Phase.CANCELLED),
    *reversed(STARTING_UP),
    *(Phase.RUNNING, Phase.SUCCEEDED),
)
"""Which replicas are shown where not all fit: those that the others wait for."""
ACTIVE_FIRST = (Phase.RUNNING, *STARTING_UP)
"""Which runs are shown where not all fit, and how they are counted: those that get on."""


class _Field(NamedTuple):
    """A column, when there is room, and what stands in it of each item."""

    title: str
    keep: int
    """The higher, the longer it is kept in a narrow terminal; 0 for good."""
    cell: Callable[[Any], str | None]
    right: bool = False
    sentence: bool = False
    """Whether it may be cut to what room there is."""


def one_run(live: LiveRun, now: float, width: int, room: int) -> RenderableType:
    """Draw a run and its replicas on at most ``room`` lines."""
    parts = [f"{live.phase} {output.duration(now - live.created_at)}"]
    steps, last_line_at = live.steps(), live.last_line_at()
    if steps is not None:
        parts += step_words(steps, live.plan, now)
    if last_line_at is not None and (steps is None or now - last_line_at > SILENT_SECONDS):
        parts.append(f"last line {output.duration(now - last_line_at)} ago")
    lines = _packed(parts, width)
    lines[0].stylize(STYLES[live.phase], 0, len(live.phase))
    if live.phase in STARTING_UP:
        lines += [_line(text) for text in (live.state.cause, live.state.action) if text]
    replicas = live.replicas()
    # Rank 0 tells the steps, so it is always shown.
    rest = sorted(replicas[1:], key=lambda each: TROUBLE_FIRST.index(each.phase))
    shown, more = _fitting([*replicas[:1], *rest], room - len(lines))
    names = {each.replica for each in shown}
    items = [(each, live.output(each.replica)) for each in replicas if each.replica in names]
    fields = (
        _Field("REPLICA", 0, lambda item: item[0].replica),
        _Field("STATE", 0, lambda item: item[0].phase),
        _Field("NODE", 1, lambda item: item[0].node),
        _Field("RESTARTS", 2, lambda item: str(item[0].restarts), right=True),
        _Field("STEP", 5, lambda item: item[1] and step_count(item[1]), right=True),
        _Field(rate_unit(live.plan).upper(), 3, lambda item: _rate(item[1]), right=True),
        _Field("DETAIL", 4, lambda item: item[0].detail, sentence=True),
    )
    return _drawn(lines, fields, items, [each.phase for each in more], width, room)


def several_runs(
    runs: Collection[LiveRun], ended: Counter[Phase], now: float, width: int, room: int
) -> RenderableType:
    """Draw a line for each run that goes on, on at most ``room`` lines; count the others."""
    ended = ended + Counter(live.phase for live in runs if live.phase.final)
    going_on = [live for live in runs if not live.phase.final]
    parts = [_counted([live.phase for live in going_on]) or "none going on"]
    if ended:
        parts.append(f"{ended.total()} ended: {_counted(list(ended.elements()))}")
    lines = _packed(parts, width)
    shown, more = _fitting(sorted(going_on, key=_by_activity), room - len(lines))
    fields = (
        _Field("RUN", 0, lambda live: live.run_id),
        _Field("STATE", 0, lambda live: live.phase),
        _Field("TIME", 1, lambda live: output.duration(now - live.created_at), right=True),
        _Field("STEP", 5, lambda live: (steps := live.steps()) and step_count(steps), right=True),
        _Field("RATE", 3, _run_rate, right=True),
        _Field("ETA", 4, lambda live: _remaining(live, now), right=True),
        _Field(
            "WAITS FOR",
            2,
            lambda live: live.state.cause if live.phase in STARTING_UP else None,
            sentence=True,
        ),
    )
    return _drawn(lines, fields, shown, [live.phase for live in more], width, room)


def _rate(printed: Output | None) -> str | None:
    step = printed.last if printed else None
    return rate(step.rate) if step else None


def _run_rate(live: LiveRun) -> str | None:
    steps = live.steps()
    return f"{rate(steps.last.rate)} {rate_unit(live.plan)}" if steps and steps.last else None


def _remaining(live: LiveRun, now: float) -> str:
    steps = live.steps()
    return output.duration(steps.remaining(now) if steps else None)


def _by_activity(live: LiveRun) -> tuple[bool, int]:
    return not live.state.hopeless, ACTIVE_FIRST.index(live.phase)


def _fitting(items: Sequence[Item], room: int) -> tuple[Sequence[Item], Sequence[Item]]:
    """Split into those that fit below the table's head, and the rest, which takes a line."""
    if len(items) < room:
        return items, ()
    fit = max(0, room - 2)
    return items[:fit], items[fit:]


def _drawn(
    lines: list[Text],
    fields: Sequence[_Field],
    items: Sequence[Any],
    more: Sequence[Phase],
    width: int,
    room: int,
) -> RenderableType:
    parts: list[RenderableType] = [*lines[:room]]
    rows = [[clean(field.cell(item) or output.ABSENT) for field in fields] for item in items]
    if rows:
        parts.append(_table(fields, rows, width))
    if more and len(lines) < room:
        phases = set(more)
        what = f"all {more[0]}" if len(phases) == 1 and len(more) > 1 else _counted(more)
        parts.append(_line(f"{'and ' if rows else ''}{len(more)} more: {what}", style="dim"))
    return Group(*parts)


def _table(fields: Sequence[_Field], rows: Sequence[Sequence[str]], width: int) -> Table:
    widths = [
        max(cell_len(field.title), *(cell_len(row[i]) for row in rows))
        for i, field in enumerate(fields)
    ]
    least = [
        min(each, SHORTEST_SENTENCE) if field.sentence else each
        for field, each in zip(fields, widths, strict=True)
    ]
    shown = [
        i
        for i, field in enumerate(fields)
        if not field.keep or any(row[i] != output.ABSENT for row in rows)
    ]

    while sum(least[i] + GAP for i in shown) - GAP > width and (
        others := [i for i in shown if fields[i].keep]
    ):
        shown.remove(min(others, key=lambda i: fields[i].keep))
    table = Table(
        *(
            Column(
                fields[i].title,
                justify="right" if fields[i].right else "left",
                # rich takes from the sentence alone what room is lacking
                no_wrap=not fields[i].sentence,
                min_width=least[i],
                overflow="ellipsis",
            )
            for i in shown
        ),
        box=None,
        padding=(0, GAP, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for row in rows:
        # Text, so that nothing in it is taken for markup.
        table.add_row(
            *(
                Text(row[i], STYLES.get(row[i], ""), no_wrap=True, overflow="ellipsis")
                for i in shown
            )
        )
    return table


def _packed(parts: Sequence[str], width: int) -> list[Text]:
    """Put parts beside each other, and below each other where they do not fit."""
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
