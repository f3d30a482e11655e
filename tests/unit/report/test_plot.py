"""The plot: its bars and words, the same bytes each time, a clear word without its extra."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from k8sbench.model.errors import UsageError
from k8sbench.report import plot
from k8sbench.runs.reporting import Wanted, report
from tests.unit.report import example
from tests.unit.report.factory import run


def test_the_picture_shows_every_row_with_its_words() -> None:
    svg = plot.draw(example.made().results, "svg").decode()
    for words in (
        "2806.66 (5 of 8 runs); left out: gpu-count",
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


def test_bars_of_one_case_are_told_apart() -> None:
    results = report([run(1.0), run(1.0, variant="other")], Wanted()).results
    assert sorted(plot.labels([r.group for r in results]).values()) == [
        "1x8 pytorch fp32, batch 128 dle",
        "1x8 pytorch fp32, batch 128 other",
    ]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'k8sbench\[report\]'"):
        plot.draw([], "svg")
