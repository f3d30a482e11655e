"""Throughput as bars with their intervals, one panel per benchmark, how it scales, and GPU metrics.

matplotlib is an extra and takes a second to import, so only :func:`picture` touches it. Bars of
smoke runs are hatched and say what they are; a group without a figure has no bar but its words. The
same results give the same bytes.
"""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.measure.run.curve import Curve
from k8sbench.measure.run.gpu_series import SLACK, STALE
from k8sbench.model import extras
from k8sbench.model.counts import counted
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import BY_ID, METRICS, Series
from k8sbench.model.group import Group, Result
from k8sbench.model.measurement import SteadyPart
from k8sbench.report import group_words, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
BAR_INCHES = 0.42
PANEL_INCHES = 0.9
CURVES_INCHES = 3.2
WIDTH_INCHES = 9.0
METRIC_INCHES = 1.5
NAMED_GPUS = 8
"""Of more GPUs than this the lines are not named."""
NAMED_CURVES = 8
"""Of more scaling curves than this none is named."""
BLUE, GREY = "#4477aa", "#bbbbbb"  # told apart without colour vision, too


class GpuHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs of a run did over time."""

    run_id: str
    steady: SteadyPart
    window: tuple[float, float] | None
    """That of the throughput, Unix seconds; None where it is not known."""
    series: tuple[Series, ...]
    """Of each metric those of one source."""

    def panels(self) -> list[tuple[GpuHistory, str]]:
        """Name the metrics that are drawn."""
        known = {one.metric for one in self.series if one.at}
        return [(self, metric.id) for metric in METRICS if metric.is_plotted and metric.id in known]


def draw(
    results: Sequence[Result],
    form: str,
    gpus: Sequence[GpuHistory] = (),
    trained: Sequence[tuple[str, Curve]] = (),
) -> bytes:
    """Draw the results, what GPUs did, and how runs learned, each with its run's id.

    ``form`` is one of :data:`FORMATS`.
    """
    panels: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        panels.setdefault((result.group.key.benchmark, result.group.unit), []).append(result)
    curves = scaling_curves(results)
    heights = [PANEL_INCHES + BAR_INCHES * len(rows) for rows in panels.values()]
    heights += [CURVES_INCHES] if curves else []
    metrics = [panel for one in gpus for panel in one.panels()]
    heights += [METRIC_INCHES] * (len(metrics) + 2 * len(trained))

    def fill(grid: Sequence[Axes]) -> None:
        for axes, ((benchmark, unit), rows) in zip(grid, panels.items(), strict=False):
            _bars(axes, benchmark, unit, rows)
        if curves:
            _scaling(grid[len(panels)], curves)
        rest = iter(grid[len(grid) - len(metrics) - 2 * len(trained) :])
        for run_id, curve in trained:
            _accuracy(next(rest), run_id, curve)
            _loss(next(rest), run_id, curve)
        for axes, (history, metric) in zip(rest, metrics, strict=True):
            _over_time(axes, history, metric)

    return picture(form, heights, fill)


def picture(form: str, heights: Sequence[float], fill: Callable[[Sequence[Axes]], None]) -> bytes:
    """Draw panels of these heights, inches, below each other; ``fill`` draws into them."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as wrong:
        raise UsageError(
            "--plot needs matplotlib, which is not installed beside k8sbench.",
            extras.how_to_install("report"),
        ) from wrong

    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    # Letters as letters and ids from a fixed salt: small, searchable, the same every time.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "k8sbench", "font.size": 9}):
        figure = Figure(figsize=(WIDTH_INCHES, sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        fill(list(grid))
        # Long words make the picture wider, and no panel narrower.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for text in (text for axes in grid for text in axes.texts):
            text.set_in_layout(True)
        data = io.BytesIO()
        figure.savefig(data, format=form, metadata=metadata.get(form), dpi=150, bbox_inches="tight")
    return data.getvalue()


def labels(groups: Sequence[Group]) -> dict[str, str]:
    """Map group id → the label of its bar."""
    return group_words.unique_names(
        groups,
        lambda g: (
            f"{g.key.case} {g.key.framework} {group_words.precision(g)}, batch {g.key.batch_size}"
        ),
        lambda g: g.key.variant,
        lambda g: g.key.impl,
        lambda g: g.key.data,
        lambda g: g.key.mode,
        lambda g: g.key.pool,
        lambda g: g.plan.node or "",
        lambda g: g.key.set_name,
    )


def words(group: Group, unit: str = "") -> str:
    """Write the end of a bar: the figure, its runs and its marks; or why there is none.

    ``unit`` is for where no axis names it.
    """
    if group.spread is None:
        text = group_words.no_figure(group)
    else:
        runs = f"{group.counted} of {counted(len(group.members), 'run')}"
        figure = f"{numbers.rate(group.spread.median)} {unit}".rstrip()
        text = f"{figure} ({runs})"
        if group.time_to_train_s is not None:
            text += f", {numbers.seconds(group.time_to_train_s)} s to train"
    return "; ".join([text, *group_words.marks(group)])


def scaling_curves(results: Sequence[Result]) -> dict[str, list[tuple[int, float]]]:
    """Label → (GPUs, speedup) of every series that has a speedup on more than one GPU.

    The points of a series refer to one baseline and are of one set: a line through others would
    show differences between days or machines as scaling.
    """
    found: dict[tuple[str | None, str], list[Result]] = {}
    for result in results:
        if result.speedup.value is not None:
            found.setdefault((result.baseline, result.group.key.set_name), []).append(result)
    several = [each for each in found.values() if max(_gpus(one) for one in each) > 1]
    names = group_words.unique_names(
        [each[0].group for each in several],
        lambda g: (
            f"{g.key.benchmark} {g.key.framework} {group_words.precision(g)} {g.key.impl},"
            f" batch {g.key.batch_size}"
        ),
        lambda g: g.key.variant,
        lambda g: g.key.data,
        lambda g: g.key.mode,
        lambda g: g.key.gpu_model,
        lambda g: g.key.pool,
        lambda g: g.key.set_name,
    )
    curves = {
        names[each[0].group.key.id]: sorted((_gpus(one), one.speedup.value or 0.0) for one in each)
        for each in several
    }
    return dict(sorted(curves.items()))


def _gpus(result: Result) -> int:
    return result.group.plan.world_size


def _bars(axes: Axes, benchmark: str, unit: str, rows: Sequence[Result]) -> None:
    estimators = sorted({result.group.estimator for result in rows})
    axes.set_title(f"{benchmark}: {unit}, median of runs ({', '.join(estimators)})", loc="left")
    most = max((r.group.spread.maximum for r in rows if r.group.spread is not None), default=1.0)
    for place, result in enumerate(rows):
        group, spread = result.group, result.group.spread
        end = 0.0
        if spread is not None:
            color, hatch = (GREY, "//") if group.smoke else (BLUE, None)
            axes.barh(place, spread.median, color=color, hatch=hatch, edgecolor="white")
            end = spread.median
            if spread.low is not None and spread.high is not None:
                sides = [[spread.median - spread.low], [spread.high - spread.median]]
                axes.errorbar(spread.median, place, xerr=sides, color="black", capsize=3)
                end = spread.high
        said = axes.annotate(
            words(group), (end, place), (4, 0), textcoords="offset points", va="center"
        )
        said.set_in_layout(False)
    names = labels([result.group for result in rows])
    axes.set_yticks(range(len(rows)), [names[result.group.key.id] for result in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top, as in the table
    axes.set_xlim(0, most * 1.9)  # room for most words; the picture grows for longer ones
    axes.spines[["top", "right"]].set_visible(False)


def _scaling(axes: Axes, curves: dict[str, list[tuple[int, float]]]) -> None:
    axes.set_title("Speedup against one GPU", loc="left")
    ticks = sorted({gpus for points in curves.values() for gpus, _ in points})
    axes.plot([1, ticks[-1]], [1, ticks[-1]], color=GREY, linestyle="--", label="ideal")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel("GPUs")
    axes.loglog(base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [str(gpus) for gpus in ticks])
    if len(curves) <= NAMED_CURVES:
        # Below, where long names lie on nothing however narrow the panel is.
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.15))
    axes.spines[["top", "right"]].set_visible(False)


def _over_time(axes: Axes, history: GpuHistory, metric: str) -> None:
    steady, window = history.steady, history.window
    unit, scale = BY_ID[metric].unit, 1.0
    if unit == "ratio":
        unit, scale = "%", 100.0
    axes.set_title(f"{history.run_id}: {BY_ID[metric].title}, {unit}", loc="left")
    axes.axvspan(0, (steady.ended_at - steady.started_at) / 60, color=GREY, alpha=0.3, lw=0)
    if window and window[0] < steady.ended_at and window[1] > steady.started_at:
        for at in window:
            axes.axvline((at - steady.started_at) / 60, color="black", linestyle="--", lw=0.8)
    lines = [one for one in history.series if one.metric == metric and one.at]
    for one in lines:
        minutes, values = unbroken(one, steady.started_at)
        marker = "." if len(one.at) == 1 else ""
        drawn = [scale * value for value in values]
        axes.plot(minutes, drawn, label=gpu_name(one), lw=1, marker=marker)
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes; grey: the steady part, dashed: the window of the throughput")
    if len(lines) <= NAMED_GPUS:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)


def _accuracy(axes: Axes, run_id: str, curve: Curve) -> None:
    axes.set_title(f"{run_id}: {curve.metric}", loc="left")
    if curve.target is not None:
        axes.axhline(curve.target, color=GREY, linestyle="--")
    minutes = [curve.since(at) for at, _ in curve.evaluations]
    axes.plot(minutes, [value for _, value in curve.evaluations], marker="o", color=BLUE)
    _of_training(axes, curve, "; dashed: the target" if curve.target is not None else "")


def _loss(axes: Axes, run_id: str, curve: Curve) -> None:
    axes.set_title(f"{run_id}: loss", loc="left")
    losses = [math.nan if loss is None else loss for loss in curve.losses]
    axes.plot(curve.minutes() or [], losses, color=BLUE, lw=1)
    _of_training(axes, curve)


def _of_training(axes: Axes, curve: Curve, said: str = "") -> None:
    for at in curve.restarts:
        axes.axvline(curve.since(at), color="black", linestyle=":", lw=0.8)
    axes.margins(y=0.1)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"minutes{said}{'; dotted: restarts' if curve.restarts else ''}")
    axes.spines[["top", "right"]].set_visible(False)


def gpu_name(series: Series) -> str:
    """Name the GPU of a series by its pod or node, and its number there."""
    gpu = series.gpu
    return f"{gpu.pod or gpu.node or ''} {gpu.index or gpu.uuid or ''}".strip()


def unbroken(series: Series, start: float) -> tuple[list[float], list[float]]:
    """Return minutes from ``start`` and values; without a value where samples are missing."""
    interval = statistics.median([b - a for a, b in pairwise(series.at)] or [0.0])
    longest = STALE * SLACK * max(interval, series.every or 0.0)
    minutes, values = [(series.at[0] - start) / 60], [series.values[0]]
    for (before, at), value in zip(pairwise(series.at), series.values[1:], strict=True):
        if at - before > longest:
            minutes.append((before + at) / 2 / 60 - start / 60)
            values.append(math.nan)
        minutes.append((at - start) / 60)
        values.append(value)
    return minutes, values
