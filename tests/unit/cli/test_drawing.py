"""Live view of active runs: the important first, within the terminal."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from k8sbench.cli.terminal import display
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.model.phase import Phase
from k8sbench.ports.cluster import JobEvent
from tests.unit import goldens
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, line, moved, step

FOLDER = Path(__file__).parent / "golden"


def text(drawn: RenderableType, width: int, *, no_color: bool) -> str:
    terminal = Console(
        file=io.StringIO(),
        width=width,
        height=25,
        force_terminal=True,
        color_system="standard",
        no_color=no_color,
    )
    with terminal.capture() as capture:
        terminal.print(drawn)
    return capture.get()


def lines(drawn: RenderableType, width: int) -> list[str]:
    printed = text(drawn, width, no_color=True).replace("\x1b[1m", "").replace("\x1b[2m", "")
    return [each.rstrip() for each in printed.replace("\x1b[0m", "").splitlines()]


def alive(run_id: str, *events: JobEvent) -> LiveRun:
    live = LiveRun(live_runs.run(run_id))
    for event in events:
        live.take(event)
    return live


def drawn(
    live: Sequence[LiveRun],
    *,
    width: int = 100,
    room: int = 30,
    now: float = NOW + 83,
    left: int = 0,
    words: str = "",
    **ended: int,
) -> list[str]:
    counts = Counter({Phase[name.upper()]: count for name, count in ended.items()})
    return lines(display.drawn(live, counts, left, now, width, room, words), width)


def one(*events: JobEvent, now: float = NOW + 83, width: int = 100) -> list[str]:
    return drawn([alive("seg-1", *events)], now=now, width=width)


WHY = "Back-off pulling image registry.example/train:1.0: not found"
FOUL = "\x1b[2J[bold]no[/bold] [/] :smile: \r\n\x07"
STEPS = (moved(Phase.RUNNING), step(10, at=NOW), step(30, at=NOW + 20))
RESTARTED = moved(Phase.CREATED, "Attempt 2 of 4: worker-0 was killed.", cause_id="restarting")


def runs(count: int) -> list[LiveRun]:
    """As many, an eighth of them running."""
    phases = (Phase.QUEUED, Phase.RUNNING, *[Phase.QUEUED] * 6)
    return [
        alive(
            f"seg-{each}",
            moved(phases[each % 8], "No quota is left.", unrecoverable=each == 7),
            step(10, at=NOW),
            step(20, at=NOW + 10),
        )
        for each in range(count)
    ]


SCENES = {
    "a run": one(*STEPS, now=NOW + 50),
    "what a run waits for": one(moved(Phase.PULLING, WHY)),
    "in 60 columns": one(moved(Phase.PULLING, WHY), width=60),
    "in 20 columns": one(*STEPS, width=20),
    "before the first line": one(moved(Phase.RUNNING)),
    "silence of 40 s after steps": one(*STEPS, now=NOW + 60),
    "silence without a step": one(moved(Phase.RUNNING), line("hello", at=NOW + 11)),
    "one step is no pace": one(moved(Phase.RUNNING), step(10)),
    "steps that were fetched together are none": one(moved(Phase.RUNNING), step(10), step(20)),
    "a run that restarts": one(RESTARTED),
    "foreign text is text": one(moved(Phase.PENDING, FOUL)),
    "several runs, of which one is still to be measured": drawn(
        [*runs(3), alive("seg-9", moved(Phase.SUCCEEDED))],
        now=NOW + 15,
        words="4 of 7 ended, 1m",
        succeeded=2,
        failed=1,
    ),
    "of a thousand runs the stuck and the active": drawn(runs(1000), now=NOW, width=80, room=8),
    "where no run fits all are counted": drawn(runs(9), room=2),
    "one line": drawn(runs(9), room=1),
    "all have ended": drawn([], succeeded=7),
    "two were left alone": drawn([], left=2, failed=1),
}


def test_what_is_drawn_is_the_golden_text() -> None:
    parts = [f"# {name}\n" + "".join(f"{row}\n" for row in rows) for name, rows in SCENES.items()]
    goldens.check(FOLDER / "drawn.txt", "\n".join(parts))


def test_what_never_starts_by_itself_is_drawn_first() -> None:
    stuck = alive("seg-3", moved(Phase.QUEUED, unrecoverable=True))
    seen = drawn([alive("seg-1", moved(Phase.QUEUED)), alive("seg-2", *STEPS), stuck])
    assert [row.split()[0] for row in seen[2:]] == ["seg-3", "seg-2", "seg-1"]


@pytest.mark.parametrize("width", [1, 2, 7, 12, 20, 33, 40, 79, 80, 200])
@pytest.mark.parametrize("room", [1, 2, 3, 4, 7, 20])
def test_nothing_is_larger_than_the_terminal(width: int, room: int) -> None:
    waiting = alive("seg-1", moved(Phase.PENDING, "资源不足 " * 30))
    for live in ([waiting], [alive("seg-1", *STEPS)], [*runs(50), waiting]):
        seen = drawn(live, left=2, failed=3, width=width, room=room)
        assert 1 <= len(seen) <= room
        assert max(cell_len(each) for each in seen) <= width


def test_states_have_colours_where_those_are_wanted() -> None:
    found = display.drawn([alive("seg-1", *STEPS)], Counter(), 0, NOW, 80, 10)
    assert "\x1b[32mRunning" in text(found, 80, no_color=False)
    assert "\x1b[3" not in text(found, 80, no_color=True)
