"""Throughput as bars with their intervals, one panel per benchmark, and how it scales.

matplotlib is an extra and takes a second to import, so only :func:`draw` touches it. Bars of smoke
runs are hatched and say what they are; a group without a figure has no bar but its words. The same
results give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from k8sbench.model.counts import counted
from k8sbench.model.errors import UsageError
from k8sbench.model.group import Group, Result
from k8sbench.report import layout, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
BAR_INCHES = 0.42
PANEL_INCHES = 0.9
CURVES_INCHES = 3.2
WIDTH_INCHES = 9.0
BLUE, GREY = "#4477aa", "#bbbbbb"  # told apart without colour vision, too


def draw(results: Sequence[Result], form: str) -> bytes:
    """Draw the results; ``form`` is one of :data:`FORMATS`."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as wrong:
        raise UsageError(
            "--plot needs matplotlib, which is not installed beside k8sbench.",
            "Install it: pip install 'k8sbench[report]'",
        ) from wrong

    panels: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        panels.setdefault((result.group.key.benchmark, result.group.unit), []).append(result)
    curves = scaling_curves(results)
    heights = [PANEL_INCHES + BAR_INCHES * len(rows) for rows in panels.values()]
    heights += [CURVES_INCHES] if curves else []
    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    # Letters as letters and ids from a fixed salt: small, searchable, the same every time.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "k8sbench", "font.size": 9}):
        figure = Figure(figsize=(WIDTH_INCHES, sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        for axes, ((benchmark, unit), rows) in zip(grid, panels.items(), strict=False):
            _bars(axes, benchmark, unit, rows)
        if curves:
            _scaling(grid[-1], curves)
        data = io.BytesIO()
        figure.savefig(data, format=form, metadata=metadata.get(form), dpi=150, bbox_inches="tight")
    return data.getvalue()


def labels(groups: Sequence[Group]) -> dict[str, str]:
    """Map group id → the label of its bar."""
    return layout.unique_names(
        groups,
        lambda g: f"{g.key.case} {g.key.framework} {layout.precision(g)}, batch {g.key.batch_size}",
        lambda g: g.key.variant,
        lambda g: g.key.impl,
        lambda g: g.key.data,
        lambda g: g.key.pool,
        lambda g: g.key.set_name,
    )


def words(group: Group) -> str:
    """Write the end of a bar: the figure, its runs and its marks; or why there is none."""
    if group.spread is None:
        text = layout.no_figure(group)
    else:
        runs = f"{group.counted} of {counted(len(group.members), 'run')}"
        text = f"{numbers.rate(group.spread.median)} ({runs})"
    return "; ".join([text, *layout.marks(group)])


def scaling_curves(results: Sequence[Result]) -> dict[str, list[tuple[int, float]]]:
    """Label → (GPUs, speedup) of every series that has a speedup on more than one GPU."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if result.speedup.value is not None:
            key = result.group.key
            name = f"{key.benchmark} {key.framework} {layout.precision(result.group)} {key.impl}"
            point = (result.group.plan.world_size, result.speedup.value)
            curves.setdefault(f"{name}, batch {key.batch_size}", []).append(point)
    return {
        name: sorted(points)
        for name, points in sorted(curves.items())
        if max(gpus for gpus, _ in points) > 1
    }


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
        axes.annotate(words(group), (end, place), (4, 0), textcoords="offset points", va="center")
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
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
