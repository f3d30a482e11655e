"""Responses to log requests, and the resulting lines.

The node is a fake at our port; ``tests/node`` reads logs of real kubelets.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs import reading, streams
from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.stamped_lines import NewLineFilter, StampedLine
from tests.harness.cluster.limits import shorten
from tests.unit.kubernetes.log_files import T0, served

SECONDS = 100.0
MISSING = 'previous terminated container "pytorch" in pod "p" not found'
WAITING = 'container "pytorch" in pod "p" is waiting to start: PodInitializing'
UNKNOWN = 'container "pytorch" in pod "p" is not available'
KUBELET = 'Get "https://10.0.0.9:10250/containerLogs/ns/p/pytorch?timestamps=true"'
REFUSED = "dial tcp 10.0.0.9:10250: connect: connection refused"
FAILURES: dict[str, tuple[ApiFault | bytes, str]] = {
    "kubelet away": (
        ApiFault(500, "", f"{KUBELET}: {REFUSED}"),
        f"kubelet at 10.0.0.9:10250: {REFUSED}",
    ),
    "500": (ApiFault(500, "", ""), "HTTP status 500"),
    "503": (ApiFault(503, "ServiceUnavailable", "not now."), "not now"),
    "429": (ApiFault(429, "TooManyRequests", "slow down", 1.0), "slow down"),
    "403": (
        ApiFault(403, "Forbidden", "pods/log is forbidden"),
        "pods/log is forbidden (it takes the permission get on pods/log)",
    ),
    "400 waiting": (ApiFault(400, "BadRequest", WAITING), WAITING),
    # Of a pod whose node was deleted it names the node.
    "404 of a node": (
        ApiFault(404, "NotFound", 'pods "node-1" not found'),
        "its node node-1 is not part of the cluster",
    ),
    "broken": (ApiFault(None, "", "connection reset by peer"), "connection reset by peer"),
    "error in the log": (b"rpc error: code = Unavailable", "rpc error: code = Unavailable"),
}
"""Answers for a log that exists, and how they are quoted."""

Lines = list[tuple[int, str]]


class Node:
    """Serves one pod's log; a stream ends when the container has, or is cut."""

    def __init__(self) -> None:
        self.before: Lines | None = None
        self.runs = True
        self.breaks = False
        """True if the open stream's connection breaks."""
        self.answers: list[ApiFault | bytes | int] = []
        """First answers, one request each: refusal, text, or a byte count."""
        self.asked: list[dict[str, str]] = []
        self.files: list[Lines] = [[]]
        """Those of the present container; streams go on from one in the next."""
        self.changed = threading.Condition()

    @property
    def now(self) -> Lines:
        """The newest file."""
        return self.files[-1]

    @now.setter
    def now(self, lines: Lines) -> None:
        self.files = [lines]

    def stream(self, path: str, query: dict[str, str], *, silence_s: float | None = None) -> Stream:
        with self.changed:
            self.asked.append(query)
            self.changed.notify_all()
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, ApiFault):
                raise answer
            lines = self.now
            if "previous" in query:
                if self.before is None:
                    raise ApiFault(400, "BadRequest", MISSING)
                lines = self.before
            near = int(query.get("tailLines", 0)) or len(lines)
            if isinstance(answer, int):
                return Stream(self, [], 0, False, served(lines[-near:])[:answer])
            follows = "follow" in query and answer is None
            return Stream(self, lines, max(0, len(lines) - near), follows, answer or b"")

    def rotate(self) -> None:
        """Begin the next file, with the node held."""
        self.files.append([])

    def restart(self) -> None:
        """Begin the next container, with the node held."""
        self.before, self.now = self.now, []

    def do(self, change: Callable[[Node], object]) -> None:
        with self.changed:
            change(self)
            self.changed.notify_all()

    def until(self, condition: Callable[[Node], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), SECONDS), self.asked


class Stream:
    def __init__(self, node: Node, lines: Lines, begin: int, follows: bool, last: bytes) -> None:
        self._node, self._lines, self._done = node, lines, begin
        self._follows, self._last, self._closed = follows, last, False

    def chunks(self) -> Iterator[bytes]:
        over = False
        while not over:
            with self._node.changed:
                self._node.changed.wait_for(self._has_news)
                new, self._done = self._lines[self._done :], len(self._lines)
                over = self._is_over()
                breaks, self._node.breaks = self._node.breaks, False
            if breaks:
                raise ApiFault(None, "", "reset")
            yield served(new)
        if self._last:
            yield self._last

    def _has_news(self) -> bool:
        files = self._node.files
        place = next((i for i, file in enumerate(files) if file is self._lines), len(files))
        while self._follows and self._done == len(self._lines) and place + 1 < len(files):
            place, self._done = place + 1, 0
            self._lines = files[place]
        return self._done < len(self._lines) or self._is_over()

    def _is_over(self) -> bool:
        """Return True if the container ended or restarted, or nobody reads."""
        files = self._node.files
        ended = self._lines is files[-1] and not self._node.runs
        is_there = any(file is self._lines for file in files)
        return not self._follows or self._closed or ended or not is_there

    def close(self) -> None:
        self._node.do(lambda _: setattr(self, "_closed", True))


class Pod:
    """A log that is followed, and what was reported of it."""

    def __init__(self) -> None:
        self.node = Node()
        self.events: list[JobEvent] = []
        self.reported = threading.Condition()
        self.streams = LogStreams(
            cast("Api", self.node),
            "ns",
            self.take,
            when_drained=self.drained,
            is_away=lambda: self.is_away,
        )
        self.is_away = False
        self._is_drained = False
        self.uid, self.restarts = "u1", 0

    def take(self, event: JobEvent) -> None:
        with self.reported:
            self.events.append(event)
            self.reported.notify_all()

    def drained(self, _: str) -> None:
        with self.reported:
            self._is_drained = True
            self.reported.notify_all()

    @property
    def lines(self) -> list[str]:
        return [event.line.text for event in self.events if event.line]

    @property
    def gaps(self) -> list[LogGap]:
        return [event.gap for event in self.events if event.gap]

    def want(self, **more: Any) -> None:
        more |= {"uid": self.uid, "restarts": self.restarts}
        self.streams.want("run", "master-0", pod="p", container="pytorch", rank=0, **more)

    def until_failing(self) -> streams.Failing:
        until = time.monotonic() + SECONDS
        while (found := self.streams.failing("run")) is None:
            assert time.monotonic() < until, self.events
        return found

    @property
    def notes(self) -> list[str]:
        return [event.note for event in self.events if event.note]

    def until_lines(self, count: int) -> None:
        with self.reported:
            assert self.reported.wait_for(lambda: len(self.lines) >= count, SECONDS), self.events

    def cut(self, new: Lines) -> None:
        """Break the stream while lines come."""

        def change(node: Node) -> None:
            node.breaks = True
            node.now.extend(new)

        self.node.do(change)

    def end(self) -> None:
        """Let the container end, and its stream."""
        self.node.do(lambda node: setattr(node, "runs", False))
        self.streams.ended("run", "master-0")
        self.until_drained()

    def until_drained(self) -> None:
        with self.reported:
            assert self.reported.wait_for(lambda: self._is_drained, SECONDS), self.events


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for."""
    for name in ("SOONEST", "LATEST", "ENDED_BY_ITSELF"):
        monkeypatch.setattr(streams, name, 0.001)
    shorten(monkeypatch, log_look=0.001)


@pytest.fixture
def pod(soon: None) -> Iterator[Pod]:
    made = Pod()
    yield made
    made.streams.close()
    made.node.do(lambda node: setattr(node, "runs", False))


def lines(first: int, last: int) -> Lines:
    """One line a second."""
    return [(T0 + number * 1_000_000, f"step {number}") for number in range(first, last)]


def texts(*ranges: tuple[int, int]) -> list[str]:
    return [f"step {number}" for first, last in ranges for number in range(first, last)]


@pytest.mark.parametrize("said", [WAITING, UNKNOWN])
def test_a_container_that_never_started_has_no_log_and_no_gap(pod: Pod, said: str) -> None:
    pod.node.answers = [ApiFault(400, "BadRequest", said)] * 1000
    pod.want()
    pod.end()
    assert pod.events == []


def fail(pod: Pod, failure: ApiFault | bytes) -> streams.Failing:
    """End the container and fail its log requests; return the failure."""
    pod.node.answers, pod.node.runs = [failure] * 100_000, False
    pod.want(exists=True)
    pod.streams.ended("run", "master-0")
    pod.node.until(lambda node: len(node.asked) > 40)
    return pod.until_failing()


@pytest.mark.parametrize(("failure", "why"), FAILURES.values(), ids=FAILURES)
def test_a_log_is_requested_until_it_is_read(pod: Pod, failure: ApiFault | bytes, why: str) -> None:
    failing = fail(pod, failure)
    assert list(failing.why) == ["master-0"]
    assert why in failing.why["master-0"]
    assert not pod.streams.drained("run")

    def mend(node: Node) -> None:
        node.now, node.answers = lines(0, 3), []

    pod.node.do(mend)
    pod.until_drained()
    assert pod.lines == texts((0, 3))
    assert pod.gaps == []
    assert pod.streams.failing("run") is None


@pytest.mark.parametrize("patience", [0.0, 1000.0])
def test_an_error_in_place_of_a_previous_log_is_final_after_some_time(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    shorten(monkeypatch, log_previous=patience)
    pod.restarts, pod.node.before, pod.node.now = 1, [(T0, "before")], [(T0 + 9, "now")]
    pod.node.answers = [b"rpc error: code = Unavailable"]
    pod.want(exists=True)
    pod.until_lines(2)
    assert pod.lines == ["before", "now"]
    assert [gap.before is not None for gap in pod.gaps] == ([True] if patience == 0.0 else [])


def test_while_one_log_of_a_run_is_read_the_run_does_not_fail(pod: Pod) -> None:
    fail(pod, FAILURES["500"][0])
    pod.streams.want("run", "worker-0", pod="q", uid="u2", container="pytorch", rank=1)
    assert pod.streams.failing("run") is None
    assert pod.streams.failing("other") is None


def test_unreadable_logs_are_noted_once_a_cause(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, fault_note=0.0)
    pod.node.answers = [FAILURES["kubelet away"][0]] * 100_000
    pod.streams.want("run", "worker-0", pod="q", uid="u2", container="pytorch", rank=1)
    pod.streams.ended("run", "worker-0")
    fail(pod, FAILURES["kubelet away"][0])
    (note,) = pod.notes
    assert f": kubelet at 10.0.0.9:10250: {REFUSED}); retrying." in note
    pod.node.do(lambda node: setattr(node, "answers", [FAILURES["403"][0]] * 100_000))
    pod.node.until(lambda node: len(node.asked) > 100 and len(pod.notes) > 1)
    assert len(pod.notes) == 2


def test_a_container_that_was_followed_to_its_end_may_be_forgotten(pod: Pod) -> None:
    pod.node.now = lines(0, 3)
    pod.want()
    pod.until_lines(3)
    pod.node.do(lambda node: node.now.append(*lines(3, 4)))
    pod.until_lines(4)

    def restart(node: Node) -> None:
        node.restart()
        node.before, node.now = None, lines(10, 12)

    pod.node.do(restart)
    pod.restarts = 1
    pod.want()
    pod.until_lines(6)
    pod.end()
    assert pod.lines == texts((0, 4), (10, 12))
    assert pod.gaps == []


def test_of_two_restarts_at_once_the_container_between_is_missing(pod: Pod) -> None:
    pod.node.now = lines(0, 3)
    pod.want()
    pod.until_lines(3)

    def restart(node: Node) -> None:
        node.restart()
        node.before, node.asked = None, []

    pod.node.do(restart)
    pod.node.until(lambda node: bool(node.asked))  # its stream has ended
    pod.restarts = 2
    pod.want()
    pod.node.do(lambda node: node.now.extend(lines(10, 12)))
    pod.until_lines(5)
    pod.end()
    assert pod.lines == texts((0, 3), (10, 12))
    assert len(pod.gaps) == 1


def test_an_answer_that_lacks_the_mark_counts_if_the_next_one_lacks_it_too(pod: Pod) -> None:
    known = NewLineFilter(None)
    known.feed(StampedLine(*line) for line in lines(0, 3))
    pod.node.now = lines(0, 5)
    # A kubelet that stops cuts both answers after the first line: of the end, and of all.
    pod.node.answers = [len(served(lines(0, 1)))] * 2
    pod.want(mark=known.mark)
    pod.until_lines(2)
    pod.end()
    assert pod.lines == texts((3, 5))
    assert pod.gaps == []


def test_a_pod_that_is_gone_is_not_asked_for_by_its_name(pod: Pod) -> None:
    """Another job's pod may bear it by now."""
    pod.node.now = lines(0, 3)
    pod.want()
    pod.until_lines(3)
    pod.node.do(lambda node: node.now.extend(lines(3, 5)))
    pod.until_lines(5)
    pod.streams.ended("run", "master-0", gone=True)
    pod.node.do(lambda node: setattr(node, "now", lines(10, 12)))
    pod.until_drained()
    assert pod.lines == texts((0, 5))
    assert pod.gaps == []
    assert all("follow" in asked for asked in pod.node.asked)


# -- whatever happens to a log, in any order ------------------------------------------------------


SEEDS = 150
PRINTS = ("print", "print", "print", "clock")
BREAKS = ("break", "fail", "cut short")


class World(NamedTuple):
    """Events that happen to a log."""

    events: tuple[str, ...]
    kept: int = 1
    """Newest files that the node serves."""
    shows_begin: bool = True
    """True if the cluster tells that lines are lost before the first one that is read."""


WORLDS = {
    "broken": World((*PRINTS, *BREAKS)),
    "broken and rotated": World((*PRINTS, *BREAKS, "rotate"), kept=1, shows_begin=False),
    "broken and restarted": World((*PRINTS, *BREAKS, "restart"), kept=2),
    "broken, restarted and forgotten": World((*PRINTS, *BREAKS, "restart and forget"), kept=1),
}
"""Fates of a log.

Rotation and restarts together lose the beginning of a container's log without a sign from the
cluster; the measurement notices.
"""


class Story:
    """A pod whose program prints numbered lines, and what happens to it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.pod = dice, Pod()
        self.at = T0
        self.file = 0
        """Number of the newest file: each rotation and each restart begins one."""
        self.files: list[int] = []
        """File of each line."""

    @property
    def printed(self) -> int:
        """Number of lines that the program has printed."""
        return len(self.files)

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
                self.file += 1
            else:
                node.restart()
                if what == "restart and forget":
                    node.before = None
                self.file += 1
                self.pod.restarts += 1
            node.changed.notify_all()
        if what.startswith("restart"):
            self.pod.want()

    def _lines(self) -> Lines:
        lines = []
        for _ in range(self.dice.randrange(1, 12)):
            self.at += self.dice.choice((0, 1, 1_000_000))
            lines.append((self.at, f"step {self.printed}"))
            self.files.append(self.file)
        return lines

    def told(self) -> Iterator[int | None]:
        """Yield what was reported: numbers of lines, and None for a gap."""
        for event in self.pod.events:
            if event.line is not None:
                yield int(event.line.text.removeprefix("step "))
            elif event.gap is not None:
                yield None


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("world", WORLDS)
def test_each_line_comes_once_or_is_a_gap(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, log_place=0.02)
    for seed in range(SEEDS):
        dice = random.Random(seed)
        monkeypatch.setattr(reading, "NEAR_LINES", dice.choice((3, 10, 1000)))
        story = Story(dice)
        story.pod.want()
        happened = [dice.choice(WORLDS[world].events) for _ in range(dice.randrange(3, 14))]
        for what in happened:
            story.happen(what)
            if what == "print" and world == "broken" and dice.random() < 0.5:
                story.pod.until_lines(story.printed)
        story.pod.end()
        is_cut = "cut short" in happened
        _check(story, WORLDS[world], f"{world} {seed}: {happened}", is_cut=is_cut)
        story.pod.streams.close()
        story.pod.node.do(lambda node: setattr(node, "runs", False))


def _check(story: Story, world: World, what: str, *, is_cut: bool) -> None:
    """Compare the reported lines and gaps with those that the program printed.

    A gap stands for lost lines, or for the end of a file that was gone before it was read: nobody
    can know whether that held more lines. ``is_cut``: an answer was cut short, which may look like
    an empty file.
    """
    newest_gone = story.file - world.kept
    last, is_gap = -1, False
    for number in (*story.told(), story.printed):
        if number is None:
            assert not is_gap, f"{what}: two gaps after {last}"
            is_gap = True
            continue
        assert number > last, f"{what}: {number} after {last}"
        lost = range(last + 1, number)
        for one in lost:
            is_gone = story.files[one] <= newest_gone
            assert is_gone or is_cut, f"{what}: {one} is missing, and could be read"
        before = story.files[last] if last >= 0 else 0
        after = story.files[number] if number < story.printed else story.file
        if lost:
            assert is_gap or (last < 0 and not world.shows_begin), f"{what}: {last} to {number}"
        elif is_gap:
            assert before <= newest_gone, f"{what}: no line is lost after {last}"
            assert last < 0 or before < after, (
                f"{what}: no line is lost between {last} and {number}"
            )
        last, is_gap = number, False
