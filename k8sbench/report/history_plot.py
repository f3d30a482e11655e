"""The sets of each case over time as a picture: medians with intervals, and marked changes."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from k8sbench.model.compared import Series
from k8sbench.report import history, numbers, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_INCHES = 2.6
RED = "#cc3311"  # told apart from the blue without colour vision, too


def draw(series: Sequence[Series], form: str) -> bytes:
    """Draw each series in a panel of its own; ``form`` is one of :data:`plot.FORMATS`."""
    panels = []
    for one, name in zip(series, history.names(series), strict=True):
        title = f"{name}: {one.group.unit}, median of runs ({one.group.estimator})"
        panels.append(plot.Panel(title, PANEL_INCHES, functools.partial(_panel, series=one)))
    return plot.picture(form, panels)


def _panel(axes: Axes, series: Series) -> None:
    known = [(p, p.group.spread) for p in series.points if p.group.spread is not None]
    times = [_days(point.at) for point, _ in known]
    for at, (_, spread) in zip(times, known, strict=True):
        if spread is not None and spread.low is not None and spread.high is not None:
            sides = [[spread.median - spread.low], [spread.high - spread.median]]
            axes.errorbar([at], [spread.median], yerr=sides, color="black", capsize=2, lw=0.8)
    medians = [spread.median for _, spread in known if spread is not None]
    axes.plot(times, medians, color=plot.BLUE, marker="o", ms=4, lw=1)
    starts = [0, *(n for n, (p, _) in enumerate(known) if p.change is not None), len(known)]
    for first, end in pairwise(starts):
        if known and end > first:
            level = statistics.median(medians[first:end])
            axes.hlines(level, times[first], times[end - 1], color=plot.GREY, linestyle="--")
    for at, (point, _) in zip(times, known, strict=True):
        if point.change is not None:
            axes.axvline(at, color=RED, lw=0.8)
            text = f"{numbers.signed_percent(point.change)} from {point.group.key.set_name} on"
            axes.annotate(
                text,
                (at, 1.0),
                (4, -10),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                color=RED,
            )
    if series.unmarked is not None:
        axes.set_xlabel(series.unmarked)
    axes.xaxis_date("UTC")
    axes.margins(y=0.25)
    axes.tick_params(axis="x", rotation=20)


def _days(at: float) -> float:
    """As matplotlib counts time."""
    return at / 86400
