"""Runs of other lengths: their series has a range of iterations, and nothing is configured.

The logs are those of a program that k8sbench did not start, and end where the program does.
"""

from __future__ import annotations

import datetime
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from k8sbench.app import comparisons
from tests.unit.command_line import Cli
from tests.unit.presence import present

REGRESSION = 7
NOISE = (0.0, 0.6, -0.4, 0.9, -0.8, 0.3, -0.6, 0.5)
"""Noise of successive nights, per mille."""
Speed = Callable[[int], float]
"""Iteration of the run → share of the usual speed."""


def steady(_: int) -> float:
    return 1.0


class Night(NamedTuple):
    """One run, a night's set."""

    steps: int
    planned: int = 1000
    speed: float = 1.0
    first: int = 0
    """Step after which the run begins: it goes on from a checkpoint."""
    interval: int = 10
    """Steps of a line."""
    changes: Speed = steady
    """Speed within the run, by the share of its planned steps in per cent."""


def log_of(night: Night, day: int) -> str:
    """Write the log of a run on 8 GPUs, with a line each few steps."""
    begin = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC) + datetime.timedelta(days=day)
    head = f"[titan] {begin:%Y-%m-%d %H:%M:%S},001 - root - INFO - "
    lines = [
        head + "Building 1-D device mesh with ['dp_shard'], [8]",
        head + "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
        head + "Trainer is initialized with local batch size 1, global batch size 8, gradient"
        f" accumulation steps 1, sequence length 8192, total steps {night.planned} (warmup 200)",
    ]
    usual = 7000 * night.speed * (1 + NOISE[day % len(NOISE)] / 1000)
    now = begin.timestamp() + 20
    steps = [
        *([1] if night.first == 0 else []),
        *range(night.interval, night.steps + 1, night.interval),
    ]
    for before, step in itertools.pairwise([0, *steps]):
        rate = 375.0 if step == 1 else usual * night.changes(100 * step // night.planned)
        now += 8192 * (step - before) / rate
        moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
        lines.append(
            f"[rank0]:[titan] {stamp} - root - INFO - step: {night.first + step:2d}  loss:"
            f" {11 - (night.first + step) / 700 + day / 1000:.4f}  grad_norm:  1.2345  memory:"
            f" 30.99GiB(32.62%)  tps: {rate:,.0f}  tflops: 1,407.35  mfu: 41.19%"
        )
    return "\n".join(lines) + "\n"


class Store:
    """A store into which nights are imported, one set each."""

    def __init__(self, cli: Cli, folder: pathlib.Path) -> None:
        self._cli = cli
        self._folder = folder
        self.root = folder / "store"

    def add(self, nights: Iterable[Night], days: Sequence[int], *options: str) -> None:
        """Import each night as the set of its day."""
        for night, day in zip(nights, days, strict=True):
            log = self._folder / f"day-{day:02d}.log"
            log.write_text(log_of(night, day))
            self._cli("import", str(log), "--set", f"night-{day:02d}", *options, code=None)

    def series(self) -> list[dict[str, Any]]:
        """Return the series of all cases."""
        found: list[dict[str, Any]] = self._cli.json("history", "torchtitan", "-o", "json")[
            "series"
        ]
        return found

    def points(self) -> dict[str, dict[str, Any]]:
        """Return the sets of the only case by name."""
        (only,) = self.series()
        return {point["set"]: point for point in only["points"]}

    def figures(self) -> dict[str, float | None]:
        """Return the figure of each set over the range."""
        return {name: point["throughput_in_range"] for name, point in self.points().items()}

    def changes(self) -> list[tuple[str, str]]:
        """Return the sets with a confirmed change, and the set that each begins with."""
        return [
            (name, point["since"])
            for name, point in self.points().items()
            if point["mark"] in ("step", "drift")
        ]

    def compared(self, a: str, b: str, *options: str, code: int | None = 0) -> dict[str, Any]:
        """Return the only case of a comparison."""
        (case,) = self._cli.json("compare", a, b, "-o", "json", *options, code=code)["cases"]
        found: dict[str, Any] = case
        return found


@pytest.fixture
def store(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Store:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return Store(Cli(capsys), tmp_path)


def eight(lengths: Sequence[int], planned: Sequence[int]) -> list[Night]:
    """Return eight nights, of which the last two are 5 % slower."""
    return [
        Night(steps, plan, 0.95 if number >= 6 else 1.0)
        for number, (steps, plan) in enumerate(zip(lengths, planned, strict=True))
    ]


MIXED = [290 + 10 * (night % 5) for night in range(8)]
KINDS = {
    "same": eight([300] * 8, [300] * 8),
    "walltime": eight(MIXED, [1000] * 8),
    "planned": eight(MIXED, MIXED),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_last_two_nights_is_seen_whatever_ends_the_runs(
    store: Store, kind: str
) -> None:
    store.add(KINDS[kind], range(1, 9))
    assert store.changes() == [("night-07", "night-07")]
    slower = store.compared("night-06", "night-08", "--fail-on-regression=3%", code=REGRESSION)
    assert slower["ratio"] - 1 == pytest.approx(-0.05, abs=0.002)


def test_two_sets_without_a_history_are_compared_over_what_both_cover(
    store: Store, tmp_path: pathlib.Path
) -> None:
    cli = store._cli
    for name, steps, speed in (("short", 300, 1.0), ("long", 500, 0.95)):
        folder = tmp_path / name
        folder.mkdir()
        for run in range(3):
            (folder / f"{run}.log").write_text(log_of(Night(steps, steps, speed), run))
        cli("import", str(folder), "--set", name)
    case = store.compared("short", "long", "--fail-on-regression=3%", code=REGRESSION)
    assert case["ratio"] - 1 == pytest.approx(-0.05, abs=0.0005)
    assert (case["finding"], case["range"]) == ("slower", "20+268")


def test_sets_of_equal_length_are_cut_nowhere(store: Store) -> None:
    store.add([Night(300, 300)] * 5, range(1, 6))
    points = store.points()
    assert {point["range"] for point in points.values()} == {"20+280 of 300 iterations"}
    assert all(point["throughput_in_range"] == point["throughput"] for point in points.values())


def test_a_longer_run_is_cut_where_the_range_ends(store: Store) -> None:
    def slower_at_the_end(share: int) -> float:
        return 0.5 if share > 31 else 1.0

    store.add([Night(300)] * 5, range(1, 6))
    before = store.figures()
    store.add([Night(600, changes=slower_at_the_end)], [6])
    longer = store.points()["night-06"]
    assert longer["throughput"] < 0.75 * present(before["night-01"])
    assert longer["throughput_in_range"] == pytest.approx(before["night-01"], rel=0.01)
    assert longer["mark"] is None


@pytest.mark.parametrize("place", [2, 5])
def test_a_short_night_is_not_judged_and_moves_no_figure(store: Store, place: int) -> None:
    lengths = [300, 290, 330, 310, 320, 300, 290]
    nights = [Night(steps) for steps in lengths]
    days = [day for day in range(1, 9) if day != place]
    if place > 4:
        store.add(nights[:4], days[:4])
        before = store.figures()
        store.add([Night(60, interval=5)], [place])
        assert {name: store.figures()[name] for name in before} == before
        store.add(nights[4:], days[4:])
    else:
        store.add(nights[:1], days[:1])
        store.add([Night(60, interval=5)], [place])
        store.add(nights[1:], days[1:])
    points = store.points()
    short = points[f"night-{place:02d}"]
    assert (short["throughput_in_range"], short["mark"]) == (None, None)
    assert short["missing"]["throughput_in_range"] == "too short: 40 of 268 iterations"
    assert store.changes() == []
    alone = store.compared("night-01", f"night-{place:02d}")
    assert (alone["ratio"], alone["not_comparable"]) == (None, ["too-short"])


def test_a_short_newest_night_hides_no_change_since_the_baseline(store: Store) -> None:
    store.add(KINDS["walltime"], range(1, 9))
    store._cli("baseline", "save", "base", "night-01")
    store.add([Night(60, interval=5)], [9])
    (held,) = comparisons.held_against(str(store.root), "base").values()
    assert held.ratio - 1 == pytest.approx(-0.05, abs=0.003)


def test_results_show_what_is_open_beside_a_newest_night_that_is_too_short(store: Store) -> None:
    store.add(KINDS["walltime"], range(1, 9))
    store.add([Night(60, interval=5)], [9])
    (row,) = store._cli.json("results", "-o", "json")["rows"]
    assert (row["set"], row["throughput_in_range"]) == ("night-09", None)
    assert row["changed"]["since"] == "night-07"


def test_a_short_night_is_no_earlier_set_of_the_next_one(store: Store) -> None:
    store.add([Night(steps) for steps in (300, 290, 310, 320)], range(1, 5))
    store.add([Night(60, interval=5)], [5])
    (only,) = store.series()
    assert only["unmarked"] == (
        "a set is judged by at least 4 sets before it; the newest with a figure has 3"
    )


def test_a_training_that_goes_on_from_its_checkpoint_each_night_has_a_history(
    store: Store,
) -> None:
    lengths = [300, 290, 310, 320, 300, 290, 310, 300]
    begins = [0, *itertools.accumulate(lengths)]
    nights = [
        Night(steps, 10000, 0.95 if number >= 6 else 1.0, first=first)
        for number, (steps, first) in enumerate(zip(lengths, begins, strict=False))
    ]
    store.add(nights, range(1, 9))
    assert store.changes() == [("night-07", "night-07")]


def test_an_older_night_and_a_rebuilt_index_change_nothing(store: Store) -> None:
    store.add(KINDS["walltime"], range(2, 10))
    before = store.figures()
    ranges = (store.root / "series-ranges.json").read_text()
    store.add([Night(150)], [1])
    for index in store.root.glob("index*"):
        index.unlink()
    store._cli("store", "reindex")
    after = store.figures()
    assert {name: after[name] for name in before} == before
    assert (store.root / "series-ranges.json").read_text() == ranges
    assert store.changes() == [("night-08", "night-08")]


def test_a_removed_run_changes_no_range(store: Store) -> None:
    store.add([Night(steps) for steps in (260, 290, 310, 320, 330)], range(1, 6))
    before = store.figures()
    store._cli("store", "remove", "night-01", "--yes")
    assert store.figures() == {name: before[name] for name in before if name != "night-01"}


def test_the_range_is_fixed_anew_on_request(store: Store) -> None:
    store.add([Night(steps) for steps in (120, 130, 110, 140)], range(1, 5))
    store.add([Night(steps) for steps in (310, 330, 300, 320)], range(5, 9))
    assert {point["range"] for point in store.points().values()} == {"20+84 of 1000 iterations"}
    err = store._cli("history", "torchtitan", "--range").err
    assert "range: torchtitan pytorch 1x8 batch 1 is compared over iterations 21 to 288" in err
    assert "4 earlier sets are not judged any more" in err
    points = store.points()
    assert {point["range"] for point in points.values()} == {"20+268 of 1000 iterations"}
    assert (
        points["night-04"]["missing"]["throughput_in_range"] == "too short: 120 of 268 iterations"
    )


def test_sets_that_cannot_be_judged_name_the_command_that_fixes_another_range(
    store: Store,
) -> None:
    command = "k8sbench history torchtitan --framework pytorch --case 1x8 --range"
    store.add([Night(steps) for steps in (300, 290, 310, 320)], range(1, 5))
    store.add([Night(70)] * 3, range(5, 8))
    page = store._cli("results", "-o", "html").out
    assert "1 not judged" in page
    assert "too short: 50 of 268 iterations" in page
    assert command in page
    assert command in store._cli("history", "torchtitan").out
    store._cli(*command.split()[1:])
    assert "not judged" not in store._cli("results", "-o", "html").out
    assert command not in store._cli("history", "torchtitan").out


@pytest.mark.parametrize("other", ["--accept-level", "--output=json", "--since=3d"])
def test_a_range_is_fixed_by_a_command_of_its_own(store: Store, other: str) -> None:
    err = store._cli("history", "torchtitan", "--range", other, code=2).err
    assert "--range and -" in err


def test_no_range_is_fixed_while_a_change_is_open(store: Store) -> None:
    store.add(KINDS["walltime"], range(1, 9))
    store.add([Night(steps, speed=0.95) for steps in (610, 630, 600, 620)], range(9, 13))
    fixed = (store.root / "series-ranges.json").read_text()
    err = store._cli("history", "torchtitan", "--range", code=2).err
    assert "torchtitan pytorch 1x8 batch 1 is open: −5.0 % since night-07" in err
    assert "k8sbench history torchtitan --accept-level" in err
    assert (store.root / "series-ranges.json").read_text() == fixed
    store._cli("history", "torchtitan", "--accept-level")
    store._cli("history", "torchtitan", "--range")
    assert (store.root / "series-ranges.json").read_text() != fixed


def slower_half_way(share: int) -> float:
    """A schedule by the share of the run: its second half takes a fifth longer."""
    return 0.8 if share > 50 else 1.0


def test_a_schedule_by_the_share_of_the_run_has_no_ratio_by_iterations(store: Store) -> None:
    store.add([Night(300, 300, changes=slower_half_way)], [1])
    store.add([Night(500, 500, changes=slower_half_way)], [2])
    case = store.compared("night-01", "night-02")
    assert (case["ratio"], case["not_comparable"]) == (None, ["schedule"])


def test_runs_of_one_plan_that_become_slower_are_compared(store: Store) -> None:
    store.add(
        [Night(steps, 400, changes=slower_half_way) for steps in (300, 310, 320, 330, 340)],
        range(1, 6),
    )
    assert None not in store.figures().values()
    assert store.compared("night-04", "night-05")["ratio"] == pytest.approx(1, abs=0.005)


def test_a_warm_up_that_an_option_gives_is_part_of_the_case(store: Store) -> None:
    store.add([Night(300)] * 2, [1, 2])
    store.add([Night(300)] * 2, [3, 4], "--warmup", "50")
    assert [len(each["points"]) for each in store.series()] == [2, 2]


def test_the_store_keeps_the_range_and_the_sets_that_fixed_it(store: Store) -> None:
    store.add([Night(steps) for steps in (300, 140, 310, 290, 320, 330)], range(1, 7))
    (kept,) = json.loads((store.root / "series-ranges.json").read_text())["ranges"]
    assert kept["sets"] == ["night-01", "night-03", "night-04", "night-05"]
    assert kept["over"] == {"begin": 20, "end": 288, "planned": "1000 iterations"}
