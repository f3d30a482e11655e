"""Wall and processor time of the stages, tests and fixtures of ``make test``.

    python -m tests.times run STAGE COMMAND...   runs a command, and records its time
    python -m tests.times                        prints the tables of what was recorded

As a plugin of pytest (``-p tests.times --times STAGE``) it records each test and each fixture that
takes a second or more. Records are in ``build/times``. Processor time is that of the process and of
the children that it has waited for; what a server uses that tests share shows in its stage alone.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

FOLDER = pathlib.Path("build/times")
SLOWEST = 30
SAMPLE_SECONDS = 0.5
IDLE = 0.05
"""Share of a sample's processor time below which all cores count as idle."""
FIXTURE_SECONDS = 1.0
SHOWN_FIXTURE_SECONDS = 3.0
PARTS = ("setup", "call", "teardown")
_clock = time.monotonic
"""The real one: tests replace that of the module."""


class Cost(NamedTuple):
    """Seconds by the clock, and of processors."""

    wall: float
    processor: float

    def __add__(self, other: object) -> "Cost":
        """Add both."""
        assert isinstance(other, Cost)
        return Cost(self.wall + other.wall, self.processor + other.processor)


NOTHING = Cost(0.0, 0.0)


def _now() -> Cost:
    times = os.times()
    return Cost(_clock(), sum(times[:4]))


def _since(begin: Cost) -> Cost:
    end = _now()
    return Cost(round(end.wall - begin.wall, 3), round(end.processor - begin.processor, 3))


def _append(stage: str, kind: str, record: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{stage}.{kind}.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


# -- the plugin -----------------------------------------------------------------------------------


class Recorder:
    """Records tests and fixtures as they end."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Record the set-up of a test."""
        yield from self._part(item, "setup")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Record a test itself."""
        yield from self._part(item, "call")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Record what follows a test."""
        yield from self._part(item, "teardown")

    def _part(self, item: pytest.Item, part: str) -> Iterator[None]:
        begin = _now()
        try:
            yield
        finally:
            cost = _since(begin)
            _append(self._stage, "tests", {"test": item.nodeid, "part": part, **cost._asdict()})

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Record a fixture that takes long."""
        begin = _now()
        try:
            return (yield)
        finally:
            cost = _since(begin)
            if cost.wall >= FIXTURE_SECONDS:
                names = {"fixture": fixturedef.argname, "scope": fixturedef.scope}
                used = {"by": request.node.nodeid}
                _append(self._stage, "fixtures", {**names, **used, **cost._asdict()})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the stage be named."""
    parser.addoption("--times", metavar="STAGE", help="record what tests and fixtures cost")


def pytest_configure(config: pytest.Config) -> None:
    """Record where a stage is named; workers inherit the option."""
    stage = config.getoption("--times")
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if stage and runs_tests:
        config.pluginmanager.register(Recorder(stage))


# -- a stage --------------------------------------------------------------------------------------


def _processors() -> tuple[int, int]:
    """Return the clock ticks in which this machine's processors worked, and those of all."""
    with pathlib.Path("/proc/stat").open() as file:
        ticks = [int(each) for each in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class _Sampler(threading.Thread):
    """Looks how busy the machine is, and counts the seconds in which all its cores idle."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self.busy = 0.0
        self.idle = 0.0

    def run(self) -> None:
        """Sample until the stage ends."""
        ticks = os.sysconf("SC_CLK_TCK")
        worked, whole = _processors()
        at = _clock()
        while not self._ended.wait(SAMPLE_SECONDS):
            (now_worked, now_whole), now = _processors(), _clock()
            self.busy += (now_worked - worked) / ticks
            if now_worked - worked < IDLE * (now_whole - whole):
                self.idle += now - at
            worked, whole, at = now_worked, now_whole, now

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self.join()


def run(stage: str, command: list[str]) -> int:
    """Run the command of a stage, record its time, and return its exit code.

    What was recorded of this stage before is replaced.
    """
    for file in FOLDER.glob(f"{stage}.*.jsonl"):
        file.unlink()
    sampler = _Sampler()
    sampler.start()
    begin = _now()
    code = subprocess.run(command, check=False).returncode
    cost = _since(begin)
    sampler.end()
    busy = {"busy": round(sampler.busy, 1), "idle": round(sampler.idle, 1)}
    _append(stage, "stage", {"stage": stage, "ended": time.time(), **cost._asdict(), **busy})
    return code if code >= 0 else 128 - code


# -- the tables -----------------------------------------------------------------------------------


def _records(kind: str) -> list[dict[str, Any]]:
    files = sorted(FOLDER.glob(f"*.{kind}.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _print(title: str, columns: tuple[str, ...], rows: Iterable[Iterable[object]]) -> None:
    print(f"\n{title}\n")
    for row in (columns, ["---"] * len(columns), *rows):
        cells = (f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row)
        print(f"| {' | '.join(cells)} |")


def _sums(
    records: list[dict[str, Any]], key: Callable[[dict[str, Any]], str]
) -> dict[str, dict[str, Cost]]:
    """Return the costs by a key and by the part of a test."""
    found: dict[str, dict[str, Cost]] = collections.defaultdict(
        lambda: dict.fromkeys(PARTS, NOTHING)
    )
    for record in records:
        found[key(record)][record["part"]] += Cost(record["wall"], record["processor"])
    return found


def _total(parts: dict[str, Cost]) -> Cost:
    return sum(parts.values(), NOTHING)


def _folder(record: dict[str, Any]) -> str:
    return "/".join(record["test"].split("/")[:2])


def show() -> None:
    """Print the stages, the folders of tests, the slowest tests, and the slow fixtures."""
    stages = sorted(_records("stage"), key=lambda stage: float(stage["ended"]))
    names = ("wall", "processor", "busy", "idle")
    rows = [[stage["stage"], *(float(stage[name]) for name in names)] for stage in stages]
    rows.append(["all", *(sum(float(stage[name]) for stage in stages) for name in names)])
    _print(
        "Seconds of each stage: by the clock; of its processes; of the whole machine's processors;"
        " while all cores idled",
        ("stage", *names),
        rows,
    )
    tests = _records("tests")
    folders = sorted(_sums(tests, _folder).items(), key=lambda each: -_total(each[1]).wall)
    counts = collections.Counter(_folder(record) for record in tests if record["part"] == "call")
    _print(
        "Seconds of each tier's tests",
        ("folder", "tests", "wall", "processor", "set-up, wall", "teardown, wall"),
        (
            [name, counts[name], *_total(parts), parts["setup"].wall, parts["teardown"].wall]
            for name, parts in folders
        ),
    )
    each = _sums(tests, lambda record: str(record["test"])).items()
    _print(
        f"The {SLOWEST} slowest tests",
        ("test", "wall", "processor"),
        (
            [name, *_total(parts)]
            for name, parts in sorted(each, key=lambda each: -_total(each[1]).wall)[:SLOWEST]
        ),
    )
    fixtures = sorted(_records("fixtures"), key=lambda each: -float(each["wall"]))
    _print(
        f"Fixtures that took {SHOWN_FIXTURE_SECONDS:.0f} s or more to set up",
        ("fixture", "scope", "first used by", "wall", "processor"),
        (
            [each["fixture"], each["scope"], each["by"], each["wall"], each["processor"]]
            for each in fixtures
            if each["wall"] >= SHOWN_FIXTURE_SECONDS
        ),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) > 3:
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    show()
