"""The plot: bars, words, identical bytes, and the missing extra's error."""

import builtins
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from k8sbench.measure.group.selection import Wanted, report
from k8sbench.model.errors import UsageError
from k8sbench.model.measurement import MeasuredWindow
from k8sbench.report import plot
from k8sbench.report.plot import Panel
from tests.unit import goldens
from tests.unit.presence import present
from tests.unit.report import example, pages
from tests.unit.report.factory import START, run


def test_the_picture_shows_every_row_with_its_words() -> None:
    svg = plot.draw(example.made().results, "svg").decode()
    for words in (
        ": 2806.66 (5 of 8 runs); left out: gpu-count",
        "smoke (CPU): a functional test, not a speed measurement",
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


def test_a_group_without_a_figure_has_no_bar() -> None:
    results = example.made().results
    drawn = [axes_of(panel).patches for panel in plot.bars(results)]
    assert sum(map(len, drawn)) == sum(r.group.spread is not None for r in results)


def test_a_label_has_the_words_that_tell_bars_apart() -> None:
    runs = [run(1.0, set_name=name, node="gpu-1") for name in ("monday", "tuesday")]
    runs.append(run(1.0, set_name="monday", node="gpu-2"))
    runs.append(run(1.0, set_name="monday", node="gpu-2", trainers_digest="f" * 64))
    results = report(runs, Wanted(every=True)).results
    labels = plot.labels([result.group for result in results])
    assert sorted(labels.values()) == [
        "1x8 pytorch fp32, batch 128 gpu-1 monday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-1 tuesday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-2 monday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-2 monday ffffffffffff",
    ]


def test_a_precision_has_one_colour_in_all_charts() -> None:
    amp: dict[str, Any] = {"precision": "amp", "amp_dtype": "fp16"}
    runs = [run(1.0, case="1x1"), run(7.0), run(2.0, case="1x1", **amp), run(14.0, **amp)]
    both = plot.scaling(report(runs, Wanted(every=True)).results)
    alone = plot.scaling(report(runs[2:], Wanted(every=True)).results)
    drawn = [
        {str(line.get_label()): line.get_color() for line in axes_of(panel).get_lines()}
        for panel in (*both, *alone)
    ]
    name = "amp (fp16) k8sbench, batch 128"
    assert drawn[0][name] == drawn[1][name] != drawn[0]["fp32 k8sbench, batch 128"]


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


def shade(panel: plot.Panel) -> tuple[float, float] | None:
    """The part of a chart that is shaded."""
    for patch in axes_of(panel).patches:
        box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
        return float(box.x0), float(box.x1)
    return None


def chart(panel: Panel) -> dict[str, Any]:
    """Return a chart's words, and its lines' first and last points and counts."""
    axes = axes_of(panel)
    found: dict[str, Any] = {"x": axes.get_xlabel(), "shaded": shade(panel)}
    for number, line in enumerate(axes.get_lines()):
        points = np.asarray(line.get_xydata()).round(3).tolist()
        label = str(line.get_label())
        name = f"{number} {'-' if label.startswith('_') else label}"
        found[name] = points if len(points) < 4 else [points[0], points[-1], len(points)]
    return found


def sets(count: int) -> list[Panel]:
    """A curve is of one set; of many sets the newest are drawn."""
    runs = [
        run(rate, case=case, set_name=f"night-{number}", at=START + number)
        for number in range(count)
        for case, rate in (("1x1", 100.0), ("1x4", 380.0 - number), ("1x8", 720.0))
    ]
    return plot.scaling(report(runs, Wanted(every=True)).results)


def measured_part(window: MeasuredWindow | None) -> list[Panel]:
    """The shaded part is the measured window, not the planned one."""
    one = pages.history()
    measured = msgspec.structs.replace(present(one.measured), window=window)
    return plot.over_time(msgspec.structs.replace(one, measured=measured))


def test_the_charts_are_golden() -> None:
    part = MeasuredWindow(first_iteration=601, last_iteration=1190, seconds=1.0)
    scenes = {
        "speedups": plot.scaling(example.made().results),
        "one GPU": plot.scaling(report([run(100.0, case="1x1")], Wanted()).results),
        "two sets": sets(2),
        "nine sets": sets(plot.NAMED + 1),
        "a part was measured": measured_part(part),
        "nothing was measured": measured_part(None),
    }
    rows = (
        (f"{name}: {one.title}", chart(one)) for name, panels in scenes.items() for one in panels
    )
    goldens.check(Path(__file__).parent / "golden" / "charts.txt", goldens.table(rows))


def test_long_words_at_a_bar_make_no_panel_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[Any] = []
    monkeypatch.setattr(plot, "words", lambda *_: "long words " * 30)
    last = plot.Panel("last", 1.0, panels.append)
    svg = plot.picture("svg", [*plot.bars(example.made().results), last]).decode()
    assert panels[0].get_position().width > 0.6
    assert "long words long words" in svg


def test_names_with_dollar_signs_are_drawn_as_they_are() -> None:
    results = report([run(1.0, set_name="$a", variant="$b$", benchmark="$x$")], Wanted()).results
    assert "$x$" in plot.of_page(plot.bars(results)[0])
