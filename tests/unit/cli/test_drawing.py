"""What is drawn of the runs that go on: the right thing first, and never more than fits."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from k8sbench.cli.terminal import drawing
from k8sbench.cli.terminal.progress import state_words
from k8sbench.lifecycle.live_state import LiveRun
from k8sbench.model.phase import Phase
from k8sbench.ports import JobEvent
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, line, moved, replica, step

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


def test_a_run_is_drawn_with_its_replicas() -> None:
    assert one(*RUNNING) == [
        "Running 1m23s · step 30/100 · 2 samples/s · loss 0.5123 · ETA 1m7s",
        "REPLICA     STATE     NODE    RESTARTS     STEP   SAMPLES/S   DETAIL",
        "master-0    Running   gpu-1          2   30/100           2   –",
        "worker-2    Pulling   gpu-2          0        –           –   image not yet there",
        "worker-10   Running   gpu-3          0        –           –   –",
    ]


def test_what_a_run_waits_for_is_said_with_what_to_do() -> None:
    waiting = moved(Phase.PENDING, "No node has 8 GPUs.", action="Take a smaller case.")
    assert one(waiting) == ["Pending 1m23s", "No node has 8 GPUs.", "Take a smaller case."]


def test_a_run_without_known_steps_says_when_it_last_printed() -> None:
    running = moved(Phase.RUNNING)
    assert one(running) == ["Running 1m23s"]
    assert one(running, line("hello", at=NOW + 71)) == ["Running 1m23s · last line 12s ago"]


def test_silence_after_steps_is_said() -> None:
    events = (moved(Phase.RUNNING), step(10, at=NOW), step(30, at=NOW + 20))
    assert "last line" not in one(*events, now=NOW + 50)[0]
    assert one(*events, now=NOW + 60)[0].endswith(" · ETA 30s · last line 40s ago")


def test_the_time_that_remains_is_unknown_until_there_is_a_pace() -> None:
    assert one(moved(Phase.RUNNING), step(10))[0].startswith("Running 1m23s · step 10/100")
    assert "ETA –" in one(moved(Phase.RUNNING), step(10))[0]
    # Fetched together long after they were printed: no pace either.
    assert "ETA –" in one(moved(Phase.RUNNING), step(10), step(20))[0]


@pytest.mark.parametrize("room", [9, 8, 5])
def test_replicas_that_do_not_fit_are_counted(room: int) -> None:
    many = [replica(f"worker-{each}", Phase.RUNNING) for each in range(31)]
    drawn = one(moved(Phase.RUNNING), replica("master-0", Phase.RUNNING), *many, room=room)
    assert len(drawn) == room
    assert [row.split()[0] for row in drawn[2:-1]] == [
        "master-0",
        *(f"worker-{each}" for each in range(room - 4)),
    ]
    assert drawn[-1] == f"and {32 - (room - 3)} more: all Running"


def test_replicas_that_hold_up_the_others_are_shown_first() -> None:
    many = [replica(f"worker-{each}", Phase.RUNNING) for each in range(31)]
    many[17] = replica("worker-17", Phase.PULLING, detail="no such image")
    many[23] = replica("worker-23", Phase.FAILED)
    drawn = one(replica("master-0", Phase.RUNNING), *many, moved(Phase.RUNNING), room=6)
    assert [row.split()[0] for row in drawn[2:]] == ["master-0", "worker-17", "worker-23", "and"]
    assert drawn[-1] == "and 29 more: all Running"
    drawn = one(replica("master-0", Phase.RUNNING), *many, moved(Phase.RUNNING), room=4)
    assert drawn[-1] == "and 31 more: 29 Running, 1 Pulling, 1 Failed"


def test_where_no_replica_fits_all_are_counted() -> None:
    assert one(*RUNNING, room=3)[1:] == ["3 more: 2 Running, 1 Pulling"]
    assert len(one(*RUNNING, room=1)) == 1


def test_a_narrow_terminal_shows_what_matters() -> None:
    events = (*RUNNING, replica("master-0", Phase.RUNNING, node=NODE))
    assert one(*events, width=40) == [
        "Running 1m23s · step 30/100",
        "2 samples/s · loss 0.5123 · ETA 1m7s",
        "REPLICA    STATE    DETAIL",
        "master-0   Running  –",
        "worker-2   Pulling  image not yet there",
        "worker-10  Running  –",
    ]
    assert one(*events, width=20)[-3:] == [
        "master-0   Running",
        "worker-2   Pulling",
        "worker-10  Running",
    ]


def test_a_sentence_takes_what_room_is_left() -> None:
    why = "Back-off pulling image registry.example/train:1.0: not found"
    events = (moved(Phase.PULLING), replica("master-0", Phase.PULLING, detail=why))
    assert one(*events, width=60)[-1] == (
        "master-0  Pulling         0  Back-off pulling image registr…"
    )
    assert one(*events, width=90)[-1].endswith(why)


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


def test_several_runs_have_a_line_each() -> None:
    ended = Counter({Phase.SUCCEEDED: 2, Phase.FAILED: 1})
    over = alive("seg-9", moved(Phase.SUCCEEDED))  # still to be measured
    drawn = drawing.several_runs([*runs(3), over], ended, 0, NOW + 15, 100, 30, "4 of 7 ended, 1m")
    assert lines(drawn, 100) == [
        "4 of 7 ended · 1m · 1 Running, 2 Queued · 4 ended: 3 Succeeded, 1 Failed",
        "RUN     STATE     TIME     STEP          RATE     ETA   WAITS FOR",
        "seg-1   Running    15s   20/100   2 samples/s   1m15s   –",
        "seg-0   Queued     15s   20/100   2 samples/s   1m15s   No quota is left.",
        "seg-2   Queued     15s   20/100   2 samples/s   1m15s   No quota is left.",
    ]


def test_of_a_thousand_runs_those_that_get_on_are_shown_and_all_are_counted() -> None:
    drawn = lines(drawing.several_runs(runs(1000), Counter(), 0, NOW, 80, 8), 80)
    assert drawn[0] == "125 Running, 875 Queued"
    shown = [row.split()[0] for row in drawn[2:-1]]
    # The first waits for what cannot come: somebody should look at it.
    assert shown == ["seg-7", "seg-1", "seg-9", "seg-17", "seg-25"]
    assert drawn[-1] == "and 995 more: 121 Running, 874 Queued"


def test_when_all_have_ended_they_are_counted() -> None:
    drawn = drawing.several_runs([], Counter({Phase.SUCCEEDED: 7}), 0, NOW, 80, 8)
    assert lines(drawn, 80) == ["none going on · 7 ended: 7 Succeeded"]


def test_runs_that_were_left_alone_have_not_ended() -> None:
    drawn = drawing.several_runs([], Counter({Phase.FAILED: 1}), 2, NOW, 80, 8)
    assert lines(drawn, 80) == ["none going on · 1 ended: 1 Failed · 2 to be collected"]


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


def test_foreign_text_is_text() -> None:
    foul = "\x1b[2J[bold]no[/bold] [/] :smile: \r\n\x07"
    drawn = one(
        moved(Phase.PENDING, foul, action=foul),
        replica("master-0", Phase.PENDING, node="n", detail=foul),
    )
    assert drawn[1] == drawn[2] == "[bold]no[/bold] [/] :smile:"
    assert drawn[-1].endswith(" 0   [bold]no[/bold] [/] :smile:")


def test_states_have_colours_where_those_are_wanted() -> None:
    drawn = drawing.one_run(alive("seg-1", *RUNNING), NOW, 80, 10)
    assert "\x1b[32mRunning" in text(drawn, 80, no_color=False)
    assert "\x1b[3" not in text(drawn, 80, no_color=True)


def test_a_run_that_restarts_shows_how_often_and_no_replica_of_the_attempt_before() -> None:
    live = LiveRun(live_runs.run())
    live.take(live_runs.replica("worker-0", Phase.FAILED))
    cause = "Attempt 2 of 4: worker-0 was killed."
    live.take(live_runs.moved(Phase.CREATED, cause, cause_id="restarting"))
    assert (live.restarts, live.replicas()) == (1, [])
    assert "1 restart" in list(state_words(live, live_runs.NOW))
