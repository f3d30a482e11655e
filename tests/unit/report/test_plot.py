"""The plot: its bars and words, the same bytes each time, a clear word without its extra."""

from __future__ import annotations

import builtins
import math
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from k8sbench.lifecycle.reporting import Wanted, report
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import Gpu, Series
from k8sbench.model.measurement import MeasuredWindow, SteadyPart
from k8sbench.report import plot
from k8sbench.report.plot import History, Panel
from tests.unit.presence import present
from tests.unit.report import example, pages
from tests.unit.report.factory import START, run


def test_the_picture_shows_every_row_with_its_words() -> None:
    svg = plot.draw(example.made().results, "svg").decode()
    for words in (
        ": 2806.66 (5 of 8 runs); left out: gpu-count",
        "smoke (CPU): checks the path, not the speed",
        "rejected: too-few-records",
        "failed: run-failed",
        "samples/s, median of runs by time_weighted",
        "resnet50 pytorch: speedup against one GPU",
    ):
        assert words in svg


@pytest.mark.parametrize(("form", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
@pytest.mark.slow
def test_other_formats_are_drawn_too(form: str, magic: bytes) -> None:
    assert plot.draw(example.made().results, form).startswith(magic)


def axes_of(panel: plot.Panel) -> Axes:
    """Draw one chart."""
    axes = Figure().subplots()
    panel.fill(axes)
    return axes


def lines(axes: Axes) -> dict[str, list[list[float]]]:
    """The named lines of a chart, and their points."""
    drawn = axes.get_lines()
    return {
        str(line.get_label()): np.asarray(line.get_xydata()).tolist()
        for line in drawn
        if not str(line.get_label()).startswith("_")
    }


def test_a_group_without_a_figure_has_no_bar() -> None:
    results = example.made().results
    drawn = [axes_of(panel).patches for panel in plot.bars(results)]
    assert sum(map(len, drawn)) == sum(r.group.spread is not None for r in results)


def test_curves_are_of_what_has_a_speedup_on_several_gpus() -> None:
    (panel,) = plot.scaling(example.made().results)
    assert panel.title == "resnet50 pytorch: speedup against one GPU"
    found = lines(axes_of(panel))
    assert list(found) == ["ideal", "fp32 k8sbench, batch 128", "published by dlperf, fp32"]
    assert [gpus for gpus, _ in found["fp32 k8sbench, batch 128"]] == [1, 4, 8]
    (alone, many) = found["published by dlperf, fp32"]
    assert (alone, many) == ([1, 1], [8, pytest.approx(2802.14 / 366.6, abs=0.05)])
    assert plot.scaling(report([run(100.0, case="1x1")], Wanted()).results) == []


def test_a_curve_is_of_one_set_and_of_many_sets_the_newest_are_drawn() -> None:
    def panel(sets: int) -> Panel:
        runs = [
            run(rate, case=case, set_name=f"night-{number}", at=START + number)
            for number in range(sets)
            for case, rate in (("1x1", 100.0), ("1x4", 380.0 - number), ("1x8", 720.0))
        ]
        (found,) = plot.scaling(report(runs, Wanted(every=True)).results)
        return found

    few = axes_of(panel(2))
    assert {name.split()[-1]: points for name, points in lines(few).items()} == {
        "ideal": [[1, 1], [4, 4], [8, 8]],
        "night-0": [[1, 1], [4, pytest.approx(3.8)], [8, pytest.approx(7.2)]],
        "night-1": [[1, 1], [4, pytest.approx(3.79)], [8, pytest.approx(7.2)]],
    }
    many = panel(plot.NAMED + 1)
    assert many.title.endswith(" (the newest 8 of 9)")
    drawn = lines(axes_of(many))
    assert [name.split()[-1] for name in drawn] == ["ideal", *(f"night-{n}" for n in range(1, 9))]


def test_a_label_has_the_words_that_tell_bars_apart_or_an_id() -> None:
    runs = [run(1.0, set_name=name, node="gpu-1") for name in ("monday", "tuesday")]
    runs.append(run(1.0, set_name="monday", node="gpu-2"))
    runs.append(run(1.0, set_name="monday", node="gpu-2", trainers_digest="f" * 64))
    results = report(runs, Wanted(every=True)).results
    labels = plot.labels([result.group for result in results])
    assert sorted(name.removesuffix(f" {key}") for key, name in labels.items()) == [
        "1x8 pytorch fp32, batch 128 gpu-1 monday",
        "1x8 pytorch fp32, batch 128 gpu-1 tuesday",
        *["1x8 pytorch fp32, batch 128 gpu-2 monday"] * 2,
    ]
    assert len({*labels.values()}) == 4


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
    measured = present(run(1.0).measurement)
    measured = msgspec.structs.replace(
        measured,
        steady=SteadyPart(started_at=1000.0, ended_at=1300.0),
        window=msgspec.structs.replace(pages.window(), started_at=began, ended_at=ended),
    )
    return History(run_id="r-1", measured=measured, series=found)


def test_gpu_metrics_are_drawn_over_time_a_panel_each() -> None:
    at = tuple(1000.0 + 30 * i for i in range(11))
    utilization, power = plot.over_time(
        of_gpus(
            series("gpu_utilization", *at),
            series("gpu_utilization", *at, gpu="1"),
            series("power", *at, value=250),
            series("temperature", *at),  # not among those that are drawn
            series("sm_clock"),  # no sample
        )
    )
    assert (utilization.title, power.title) == ("GPU utilization, %", "Power, W")
    minutes = [i / 2 for i in range(11)]
    half = [[at, 50.0] for at in minutes]
    assert lines(axes_of(utilization)) == {"r-master-0 0": half, "r-master-0 1": half}
    assert lines(axes_of(power)) == {"r-master-0 0": [[at, 250.0] for at in minutes]}
    assert shade(power) == (1.0, 2.0)
    # A window by another clock, or without one, is not marked.
    for between in ((8200.0, 8300.0), None):
        assert shade(plot.over_time(of_gpus(series("power", *at), between=between))[0]) is None


def shade(panel: plot.Panel) -> tuple[float, float] | None:
    """The part of a chart that is shaded."""
    for patch in axes_of(panel).patches:
        box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
        return float(box.x0), float(box.x1)
    return None


def test_how_a_run_learned_is_drawn_with_its_target_and_its_restarts() -> None:
    (trained,) = pages.trained().histories
    assert trained.curve is not None
    accuracy, throughput, loss = plot.over_time(trained)
    assert (accuracy.title, loss.title) == ("accuracy: mIoU, %", "loss")
    again = trained.curve.since(trained.curve.restarts[0])
    level, restart, evaluations = (line.get_xydata() for line in axes_of(accuracy).get_lines())
    assert np.asarray(level)[:, 1].tolist() == [40.0, 40.0]
    assert np.asarray(restart)[:, 0].tolist() == [again, again]
    assert len(np.asarray(evaluations)) == 5
    assert np.asarray(axes_of(throughput).get_lines()[0].get_xydata())[0, 0] == again


def test_the_shaded_part_is_what_was_measured_and_not_what_was_planned() -> None:
    one = msgspec.structs.replace(pages.history(), series=())
    window = MeasuredWindow(first_iteration=601, last_iteration=1190, seconds=1.0)
    measured = msgspec.structs.replace(present(one.measured), window=window)
    drawn = plot.over_time(msgspec.structs.replace(one, measured=measured))
    assert [shade(panel) for panel in drawn] == [(600.0, 1190.0)] * 2, "throughput and loss"
    assert axes_of(drawn[0]).get_xlabel() == "iterations; shaded: the measured window"
    without = msgspec.structs.replace(measured, window=None)
    assert shade(plot.over_time(msgspec.structs.replace(one, measured=without))[0]) is None


def test_long_words_at_a_bar_make_no_panel_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[Any] = []
    monkeypatch.setattr(plot, "words", lambda _: "long words " * 30)
    last = plot.Panel("last", 1.0, panels.append)
    svg = plot.picture("svg", [*plot.bars(example.made().results), last]).decode()
    assert panels[0].get_position().width > 0.6
    assert "long words long words" in svg


def test_names_with_dollar_signs_are_drawn_as_they_are() -> None:
    results = report([run(1.0, set_name="$a", variant="$b$", benchmark="$x$")], Wanted()).results
    assert "$x$" in plot.of_page(plot.bars(results)[0])


def test_a_line_is_broken_where_samples_are_missing() -> None:
    found = series("power", 1000, 1030, 1060, 1240, 1270, value=200)
    minutes, values = plot.unbroken(found, 1000)
    assert minutes == [0, 0.5, 1, 2.5, 4, 4.5]
    assert [math.isnan(value) for value in values] == [False, False, False, True, False, False]
    assert plot.unbroken(series("power", 1060), 1000) == ([1], [0.5])
    assert plot.over_time(of_gpus()) == []
