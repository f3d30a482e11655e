"""Whatever happens to a log, in any order: each line once and in order, or a gap that says so."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs import reading, streams
from tests.unit.kubernetes.log_files import T0
from tests.unit.kubernetes.test_log_streams import Lines, Pod

SEEDS = 150
PRINTS = ("print", "print", "print", "clock")
BREAKS = ("break", "fail", "cut short")
WORLDS = {
    "broken": (*PRINTS, *BREAKS),
    "broken and rotated": (*PRINTS, *BREAKS, "rotate"),
    "broken and restarted": (*PRINTS, *BREAKS, "restart"),
}
"""What may happen. Rotation and restarts together lose the beginning of a container's log, and the
cluster does not say so; the measurement notices."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOONEST", "LATEST", "ENDED_BY_ITSELF", "LOOK_SECONDS"):
        monkeypatch.setattr(streams, name, 0.001)
    monkeypatch.setattr(reading, "PLACE_SECONDS", 0.02)


class Story:
    """A pod whose program prints numbered lines, and what happens to it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.pod = dice, Pod()
        self.at, self.printed = T0, 0

    def happen(self, what: str) -> None:
        node = self.pod.node
        with node.changed:
            if what == "print":
                node.now.extend(self._lines())
            elif what == "clock":
                jump = self.dice.choice((-3600, -30, -2, 2, 30, 3600))
                self.at += jump * 1_000_000 + self.dice.randrange(1000)
            elif what == "break":
                node.breaks = True
            elif what == "fail":
                node.answers = [ApiFault(500, "", "")] * self.dice.randrange(1, 4)
            elif what == "cut short":
                node.answers = [self.dice.randrange(400)]
            elif what == "rotate":
                node.rotate()
            else:
                node.restart()
                self.pod.restarts += 1
            node.changed.notify_all()
        if what == "restart":
            self.pod.want()

    def _lines(self) -> Lines:
        first, self.printed = self.printed, self.printed + self.dice.randrange(1, 12)
        lines = []
        for number in range(first, self.printed):
            self.at += self.dice.choice((0, 1, 1_000_000))
            lines.append((self.at, f"step {number}"))
        return lines

    def told(self) -> Iterator[int | None]:
        """Yield what was reported: numbers of lines, and None for a gap."""
        for event in self.pod.events:
            if event.line is not None:
                yield int(event.line.text.removeprefix("step "))
            elif event.gap is not None:
                yield None


@pytest.mark.parametrize("world", WORLDS)
def test_each_line_comes_once_or_a_gap_is_reported(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(SEEDS):
        dice = random.Random(seed)
        monkeypatch.setattr(reading, "NEAR_LINES", dice.choice((3, 10, 1000)))
        story = Story(dice)
        story.pod.want()
        happened = [dice.choice(WORLDS[world]) for _ in range(dice.randrange(3, 14))]
        for what in happened:
            story.happen(what)
            if what == "print" and world == "broken" and dice.random() < 0.5:
                story.pod.until_lines(story.printed)
        story.pod.end()
        _check(story, f"{world} {seed}: {happened}", may_lack=world != "broken")
        story.pod.streams.close()
        story.pod.node.do(lambda node: setattr(node, "runs", False))


def _check(story: Story, what: str, *, may_lack: bool) -> None:
    last, is_gap = -1, False
    for number in (*story.told(), story.printed):
        if number is None:
            assert may_lack, what
            is_gap = True
            continue
        assert number > last, f"{what}: {number} after {last}"
        is_unread = may_lack and last < 0  # nothing says that a log began before it was read
        assert number == last + 1 or is_gap or is_unread, f"{what}: {last} to {number}"
        last, is_gap = number, False
