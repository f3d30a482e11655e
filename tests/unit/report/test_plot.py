"""The plot: its bars and words, the same bytes each time, a clear word without its extra."""

from __future__ import annotations

import builtins
import math
import sys
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle.reporting import Wanted, report
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import Gpu, Series
from k8sbench.model.measurement import MeasuredWindow, SteadyPart
from k8sbench.report import plot
from k8sbench.report.plot import History
from tests.unit.report import example, pages
from tests.unit.report.factory import run


def test_the_picture_shows_every_row_with_its_words() -> None:
    svg = plot.draw(example.made().results, "svg").decode()
    for words in (
        ": 2806.66 (5 of 8 runs); left out: gpu-count",
        "smoke (CPU): checks the path, not the speed",
        "rejected: too-few-records",
        "failed: run-failed",
        "images/s, median of runs (time_weighted)",
        "Speedup against one GPU",
    ):
        assert words in svg


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes() -> None:
    results = example.made().results
    assert plot.draw(results, "svg") == plot.draw(results, "svg")


@pytest.mark.parametrize(("form", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
@pytest.mark.slow
def test_other_formats_are_drawn_too(form: str, magic: bytes) -> None:
    assert plot.draw(example.made().results, form).startswith(magic)


def test_a_group_without_a_figure_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    drawn: list[float] = []
    original = Axes.barh

    def count(self: Axes, y: Any, width: Any, *args: Any, **kwargs: Any) -> Any:
        drawn.append(width)
        return original(self, y, width, *args, **kwargs)

    monkeypatch.setattr(Axes, "barh", count)
    results = example.made().results
    plot.draw(results, "svg")
    assert len(drawn) == sum(r.group.spread is not None for r in results)


def test_curves_are_of_what_has_a_speedup_on_several_gpus() -> None:
    curves = plot.scaling_curves(example.made().results)
    assert {name: [gpus for gpus, _ in points] for name, points in curves.items()} == {
        "resnet50 pytorch fp32 k8sbench, batch 128": [1, 4, 8]
    }
    assert plot.scaling_curves(report([run(100.0, case="1x1")], Wanted()).results) == {}


def test_a_curve_is_of_one_set() -> None:
    runs = [
        run(rate, case=case, set_name=name)
        for name, slower in (("monday", 1.0), ("tuesday", 0.9))
        for case, rate in (("1x1", 100.0), ("1x4", 380.0 * slower), ("1x8", 720.0 * slower))
    ]
    curves = plot.scaling_curves(report(runs, Wanted(every=True)).results)
    assert {name.split()[-1]: points for name, points in curves.items()} == {
        "monday": [(1, 1.0), (4, pytest.approx(3.8)), (8, pytest.approx(7.2))],
        "tuesday": [(1, 1.0), (4, pytest.approx(3.42)), (8, pytest.approx(6.48))],
    }


def test_bars_of_one_case_are_distinguished() -> None:
    results = report([run(1.0), run(1.0, variant="other")], Wanted()).results
    assert sorted(plot.labels([r.group for r in results]).values()) == [
        "1x8 pytorch fp32, batch 128 dle",
        "1x8 pytorch fp32, batch 128 other",
    ]


def test_a_label_has_only_words_that_tell_bars_apart() -> None:
    runs = [run(1.0, set_name=name, node="gpu-1") for name in ("monday", "tuesday")]
    runs.append(run(1.0, set_name="monday", node="gpu-2"))
    results = report(runs, Wanted(every=True)).results
    assert sorted(plot.labels([r.group for r in results]).values()) == [
        "1x8 pytorch fp32, batch 128 gpu-1 monday",
        "1x8 pytorch fp32, batch 128 gpu-1 tuesday",
        "1x8 pytorch fp32, batch 128 gpu-2 monday",
    ]


@pytest.mark.slow
def test_of_many_curves_none_is_named() -> None:
    runs = [
        run(rate, case=case, set_name=f"night-{number}")
        for number in range(plot.NAMED_CURVES + 1)
        for case, rate in (("1x1", 100.0), ("1x8", 720.0))
    ]
    svg = plot.draw(report(runs, Wanted(every=True)).results, "svg").decode()
    assert "Speedup against one GPU" in svg
    assert "ideal" not in svg
    few = plot.draw(report(runs[:4], Wanted(every=True)).results, "svg").decode()
    assert "ideal" in few
    assert "k8sbench, batch 128 night-1" in few


def test_without_matplotlib_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"-m pip install 'matplotlib>="):
        plot.draw([], "svg")


def series(metric: str, *at: float, gpu: str = "0", value: float = 0.5) -> Series:
    where = Gpu(node="n-1", index=gpu, pod="r-master-0")
    return Series(metric=metric, gpu=where, source="dcgm", at=at, values=(value,) * len(at))


def of_gpus(*found: Series, between: tuple[float, float] | None = (1060.0, 1120.0)) -> History:
    began, ended = between or (None, None)
    measured = run(1.0).measurement
    assert measured is not None
    measured = msgspec.structs.replace(
        measured,
        steady=SteadyPart(started_at=1000.0, ended_at=1300.0),
        window=msgspec.structs.replace(pages.window(), started_at=began, ended_at=ended),
    )
    return History(run_id="r-1", measured=measured, series=found)


class Marks:
    """What is drawn besides bars: lines with their labels, and what is marked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from matplotlib.axes import Axes

        self.lines: list[tuple[str, list[float]]] = []
        self.shades: list[tuple[float, float]] = []
        self.upright: list[float] = []
        self.levels: list[float] = []
        original = Axes.plot

        def plotted(axes: Axes, *args: Any, **kwargs: Any) -> Any:
            if "lw" in kwargs:
                self.lines.append((kwargs["label"], list(args[1])))
            return original(axes, *args, **kwargs)

        monkeypatch.setattr(Axes, "plot", plotted)
        monkeypatch.setattr(Axes, "axvspan", lambda _, a, b, **__: self.shades.append((a, b)))
        monkeypatch.setattr(Axes, "axvline", lambda _, x, **__: self.upright.append(x))
        monkeypatch.setattr(Axes, "axhline", lambda _, y, **__: self.levels.append(y))


def test_gpu_metrics_are_drawn_over_time_a_panel_each(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = Marks(monkeypatch)
    at = tuple(1000.0 + 30 * i for i in range(11))
    one = of_gpus(
        series("gpu_utilization", *at),
        series("gpu_utilization", *at, gpu="1"),
        series("power", *at, value=250),
        series("temperature", *at),  # not among those that are drawn
        series("sm_clock"),  # no sample
    )
    svg = plot.draw(example.made().results, "svg", [one]).decode()
    assert "r-1: GPU utilization, %" in svg
    assert "r-1: Power, W" in svg
    assert "Temperature" not in svg
    assert "SM clock" not in svg
    assert marks.lines == [
        ("r-master-0 0", [50.0] * 11),
        ("r-master-0 1", [50.0] * 11),
        ("r-master-0 0", [250.0] * 11),
    ]
    assert marks.shades == [(1.0, 2.0)] * 2


def test_how_a_run_learned_is_drawn_with_its_target_and_its_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = Marks(monkeypatch)
    made = pages.trained()
    (trained,) = made.histories
    assert trained.curve is not None
    svg = plot.draw(made.results, "svg", [trained]).decode()
    assert f"{trained.run_id}: accuracy: mIoU, %" in svg
    assert f"{trained.run_id}: loss" in svg
    assert marks.levels == [40.0]
    assert marks.upright == [trained.curve.since(trained.curve.restarts[0])] * 3
    assert len(marks.lines[0][1]) == 5, "the evaluations"


def test_the_shaded_part_is_what_was_measured_and_not_what_was_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = Marks(monkeypatch)
    one = msgspec.structs.replace(pages.history(), series=())
    assert one.measured is not None
    window = MeasuredWindow(first_iteration=601, last_iteration=1190, seconds=1.0)
    measured = msgspec.structs.replace(one.measured, window=window)
    drawn = plot.draw([], "svg", [msgspec.structs.replace(one, measured=measured)])
    assert marks.shades == [(600.0, 1190.0)] * 2, "throughput and loss"
    assert b"iterations; shaded: the measured window" in drawn
    without = msgspec.structs.replace(measured, window=None)
    drawn = plot.draw([], "svg", [msgspec.structs.replace(one, measured=without)])
    assert b"shaded" not in drawn


def test_long_words_at_a_bar_make_no_panel_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[Any] = []
    monkeypatch.setattr(plot, "words", lambda _: "long words " * 30)
    last = plot.Panel("last", 1.0, panels.append)
    bars = plot.bars(example.made().results, plot.words)
    svg = plot.picture("svg", [*bars, last]).decode()
    assert panels[0].get_position().width > 0.6
    assert "long words long words" in svg


def test_names_with_dollar_signs_are_drawn_as_they_are() -> None:
    results = report([run(1.0, set_name="$a", variant="$b$")], Wanted()).results
    found = plot.bars(results, lambda _: "$x$")
    assert "$x$" in plot.of_page(found[0])


def test_a_window_by_another_clock_is_not_marked() -> None:
    at = tuple(1000.0 + 30 * i for i in range(11))
    results = example.made().results
    marked = plot.draw(results, "svg", [of_gpus(series("power", *at))])
    hours_off = of_gpus(series("power", *at), between=(8200.0, 8300.0))
    without = of_gpus(series("power", *at), between=None)
    assert plot.draw(results, "svg", [hours_off]) == plot.draw(results, "svg", [without]) != marked


def test_a_line_is_broken_where_samples_are_missing() -> None:
    found = series("power", 1000, 1030, 1060, 1240, 1270, value=200)
    minutes, values = plot.unbroken(found, 1000)
    assert minutes == [0, 0.5, 1, 2.5, 4, 4.5]
    assert [math.isnan(value) for value in values] == [False, False, False, True, False, False]
    assert plot.unbroken(series("power", 1060), 1000) == ([1], [0.5])


def test_where_nothing_is_nothing_is_drawn() -> None:
    results = example.made().results
    assert plot.draw(results, "svg", [of_gpus()]) == plot.draw(results, "svg")
