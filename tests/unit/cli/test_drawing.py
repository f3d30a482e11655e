"""Live view of active runs: the important first, within the terminal."""

import io
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from k8sbench.cli.terminal import drawing
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.model.phase import Phase
from k8sbench.ports import JobEvent
from tests.unit import goldens
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, line, moved, replica, step

FOLDER = Path(__file__).parent / "golden"
NODE = "ip-10-0-12-34.eu-central-1.compute.internal"


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


def one(*events: JobEvent, width: int = 100, room: int = 30, now: float = NOW + 83) -> list[str]:
    return lines(drawing.one_run(alive("seg-1", *events), now, width, room), width)


RUNNING = (
    moved(Phase.RUNNING, "All replicas run."),
    replica("worker-10", Phase.RUNNING, node="gpu-3"),
    replica("worker-2", Phase.PULLING, node="gpu-2", detail="image not yet there"),
    replica("master-0", Phase.RUNNING, node="gpu-1", restarts=2),
    step(10, at=NOW + 60),
    step(30, at=NOW + 80),
)


MANY = tuple(replica(f"worker-{each}", Phase.RUNNING) for each in range(31))
TROUBLE = (
    *(replica("master-0", Phase.RUNNING), *MANY, moved(Phase.RUNNING)),
    replica("worker-17", Phase.PULLING, detail="no such image"),
    replica("worker-23", Phase.FAILED),
)
WHY = "Back-off pulling image registry.example/train:1.0: not found"
PULLING = (moved(Phase.PULLING), replica("master-0", Phase.PULLING, detail=WHY))
FOUL = "\x1b[2J[bold]no[/bold] [/] :smile: \r\n\x07"
STEPS = (moved(Phase.RUNNING), step(10, at=NOW), step(30, at=NOW + 20))


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


def counted(*, left: int = 0, **ended: int) -> list[str]:
    """Draw that all have ended."""
    counts = Counter({Phase[name.upper()]: count for name, count in ended.items()})
    return lines(drawing.several_runs([], counts, left, NOW, 80, 8), 80)


SCENES = {
    "a run with its replicas": one(*RUNNING),
    "what a run waits for, and what to do": one(
        moved(Phase.PENDING, "No node has 8 GPUs.", action="Take a smaller case.")
    ),
    "before the first line": one(moved(Phase.RUNNING)),
    "a line without a step": one(moved(Phase.RUNNING), line("hello", at=NOW + 71)),
    "30 s after a step": one(*STEPS, now=NOW + 50),
    "silence of 40 s after steps": one(*STEPS, now=NOW + 60),
    "one step is no pace": one(moved(Phase.RUNNING), step(10)),
    "steps that were fetched together are none": one(moved(Phase.RUNNING), step(10), step(20)),
    "31 workers on 5 lines": one(*TROUBLE[:33], room=5),
    "replicas that hold up the others come first": one(*TROUBLE, room=6),
    "where they do not fit they are counted": one(*TROUBLE, room=4),
    "where no replica fits all are counted": one(*RUNNING, room=3),
    "one line": one(*RUNNING, room=1),
    "40 columns": one(*RUNNING, replica("master-0", Phase.RUNNING, node=NODE), width=40),
    "20 columns": one(*RUNNING, replica("master-0", Phase.RUNNING, node=NODE), width=20),
    "a sentence in 60 columns": one(*PULLING, width=60),
    "a sentence in 90 columns": one(*PULLING, width=90),
    "several runs, of which one is still to be measured": lines(
        drawing.several_runs(
            [*runs(3), alive("seg-9", moved(Phase.SUCCEEDED))],
            Counter({Phase.SUCCEEDED: 2, Phase.FAILED: 1}),
            0,
            NOW + 15,
            100,
            30,
            "4 of 7 ended, 1m",
        ),
        100,
    ),
    "of a thousand runs the stuck and the active": lines(
        drawing.several_runs(runs(1000), Counter(), 0, NOW, 80, 8), 80
    ),
    "foreign text is text": one(
        moved(Phase.PENDING, FOUL, action=FOUL),
        replica("master-0", Phase.PENDING, node="n", detail=FOUL),
    ),
    "a run that restarts, without a replica of the attempt before": one(
        replica("worker-0", Phase.FAILED),
        moved(Phase.CREATED, "Attempt 2 of 4: worker-0 was killed.", cause_id="restarting"),
    ),
    "all have ended": counted(succeeded=7),
    "two were left alone": counted(left=2, failed=1),
}


def test_what_is_drawn_is_the_golden_text() -> None:
    parts = [f"# {name}\n" + "".join(f"{row}\n" for row in rows) for name, rows in SCENES.items()]
    goldens.check(FOLDER / "drawn.txt", "\n".join(parts))


@pytest.mark.parametrize("width", [1, 2, 7, 12, 20, 33, 40, 79, 80, 200])
@pytest.mark.parametrize("room", [1, 2, 3, 4, 7, 20])
def test_nothing_is_larger_than_the_terminal(width: int, room: int) -> None:
    wide = replica("worker-1", Phase.PENDING, node=NODE, detail="没有可用的节点 " * 20)
    waiting = moved(Phase.PENDING, "资源不足 " * 30, action="Wait. " * 30)
    for drawn in (
        drawing.one_run(alive("seg-1", *RUNNING, wide), NOW, width, room),
        drawing.one_run(alive("seg-1", *RUNNING, wide, waiting), NOW, width, room),
        drawing.several_runs(runs(50), Counter({Phase.FAILED: 3}), 2, NOW, width, room),
    ):
        seen = lines(drawn, width)
        assert 1 <= len(seen) <= room
        assert max(cell_len(each) for each in seen) <= width


def test_states_have_colours_where_those_are_wanted() -> None:
    drawn = drawing.one_run(alive("seg-1", *RUNNING), NOW, 80, 10)
    assert "\x1b[32mRunning" in text(drawn, 80, no_color=False)
    assert "\x1b[3" not in text(drawn, 80, no_color=True)
