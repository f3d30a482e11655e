"""The charts of the page and of ``--plot``: throughput, how it scales, and runs over time.

matplotlib draws all of them. It is an extra and takes a second to import, so only :func:`picture`
touches it. Bars of smoke runs are hatched and say what they are; a group without a figure has no
bar but its words. The same results give the same bytes.
"""

from __future__ import annotations

import functools
import html
import importlib.util
import io
import math
import re
import statistics
import textwrap
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.measure.run.curve import Curve
from k8sbench.measure.run.gpu_series import SLACK, STALE
from k8sbench.model import extras
from k8sbench.model.counts import counted
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import BY_ID, METRICS, Series
from k8sbench.model.group import Group, Result
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.report import group_words, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png", "pdf")
BAR_INCHES = 0.42
PANEL_INCHES = 0.6
CURVES_INCHES = 3.2
TIME_INCHES = 1.7
WIDTH_INCHES = 9.0
PAGE_INCHES = 5.0
"""Width of a chart of the page: on a phone its letters are large enough."""
NAMED_GPUS = 8
"""Of more GPUs than this the lines are not named."""
NAMED_CURVES = 8
"""Of more scaling curves than this none is named."""
NAME = 60
"""Characters of a line of a legend."""
BLUE, GREY = "#4477aa", "#bbbbbb"  # told apart without colour vision, too
COLOURS = ("#2f6ba8", "#b3420f", "#1a7f5a", "#8250a8", "#8a6d00", "#0f7d8c", "#b3266f", "#57606a")
"""Of lines."""
OF_PAGE = {
    "#000000": "var(--text)",
    "#ffffff": "var(--page)",
    BLUE: "var(--c0)",
    GREY: "var(--soft)",
    **{colour: f"var(--c{number})" for number, colour in enumerate(COLOURS)},
}
"""Colour → that of the page's style sheet, so that a chart follows a dark screen."""
Word = Callable[[str], str]
"""Translates a word of a chart."""


class Panel(NamedTuple):
    """One chart."""

    title: str
    inches: float
    """Its height."""
    fill: Callable[[Axes], None]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and what it did over time."""

    run_id: str
    unit: str = "samples/s"
    """Of its throughput."""
    measured: Measurement | None = None
    curve: Curve | None = None
    series: tuple[Series, ...] = ()
    """Of each GPU metric those of one source."""


def draw(results: Sequence[Result], form: str, histories: Sequence[History] = ()) -> bytes:
    """Draw the results, and what runs did over time; ``form`` is one of :data:`FORMATS`."""
    panels = [*bars(results, words), *scaling(results)]
    for history in histories:
        panels += [
            panel._replace(title=f"{history.run_id}: {panel.title}") for panel in over_time(history)
        ]
    return picture(form, panels)


def picture(form: str, panels: Sequence[Panel]) -> bytes:
    """Draw panels below each other, each with its title."""

    def fill(panel: Panel, axes: Axes) -> None:
        axes.set_title(panel.title, loc="left")
        panel.fill(axes)

    titled = [panel._replace(fill=functools.partial(fill, panel)) for panel in panels]
    return _picture(form, titled, WIDTH_INCHES)


def of_page(panel: Panel) -> str:
    """Draw a chart for a page, which has its title: an SVG of any size, in the page's colours."""
    drawn = _picture("svg", [panel], PAGE_INCHES, transparent=True).decode()
    box = re.search(r'viewBox="[^"]*"', drawn)
    assert box is not None
    body = drawn[drawn.index("<defs>") :]
    # Ids of groups are not unique in a page; those of shapes are made from what they are.
    body = re.sub(r' id="[a-zA-Z0-9.]+_\d+"|<style.*?</style>', "", body, flags=re.DOTALL)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", body)
    body = re.sub("#[0-9a-f]{6}", lambda colour: OF_PAGE.get(colour[0], colour[0]), body)
    body = re.sub(r"\s*\n\s*", " ", body)
    return f'<svg role="img" aria-label="{html.escape(panel.title)}" {box[0]}>{body}'


def is_there() -> bool:
    """Whether charts can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def _picture(
    form: str, panels: Sequence[Panel], width: float, *, transparent: bool = False
) -> bytes:
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
    settings: dict[str, Any] = {
        # Letters as letters and ids from a fixed salt: small, searchable, the same every time.
        "svg.fonttype": "none",
        "svg.hashsalt": "k8sbench",
        "font.size": 9,
        # Names may hold dollar signs.
        "text.parse_math": False,
        "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "path.simplify_threshold": 0.5,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A browser has the Chinese letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        heights = [panel.inches for panel in panels]
        # A chart alone is cut to what it holds, which takes half of the time of laying it out.
        figure = Figure(
            figsize=(width, sum(heights)), layout="constrained" if len(panels) > 1 else None
        )
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        for panel, axes in zip(panels, grid, strict=True):
            panel.fill(axes)
        # Long words make the picture wider, and no panel narrower.
        if len(panels) > 1:
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        for text in (text for axes in grid for text in axes.texts):
            text.set_in_layout(True)
        data = io.BytesIO()
        figure.savefig(
            data,
            format=form,
            metadata=metadata.get(form),
            dpi=150,
            bbox_inches="tight",
            transparent=transparent,
        )
    return data.getvalue()


def labels(groups: Sequence[Group]) -> dict[str, str]:
    """Map group id → the label of its bar."""
    return group_words.unique_names(
        groups,
        lambda g: (
            f"{g.key.case} {g.key.framework} {group_words.precision(g)}, batch {g.key.batch_size}"
        ),
        *("variant", "impl", "data", "mode", "pool", "node", "set_name"),
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
        *("variant", "data", "mode", "gpu_model", "pool", "set_name"),
    )
    curves = {
        names[each[0].group.key.id]: sorted((_gpus(one), one.speedup.value or 0.0) for one in each)
        for each in several
    }
    return dict(sorted(curves.items()))


def _gpus(result: Result) -> int:
    return result.group.plan.world_size


def bars(results: Sequence[Result], write: Callable[[Group], str]) -> list[Panel]:
    """Draw throughput with its intervals, a chart for each benchmark; ``write`` has its words."""
    panels: dict[tuple[str, str], list[Group]] = {}
    for result in results:
        group = result.group
        panels.setdefault((group.key.benchmark, group.unit), []).append(group)
    names = labels([result.group for result in results])
    return [
        Panel(
            f"{benchmark}: {unit}, median of runs"
            f" ({', '.join(sorted({group.estimator for group in groups}))})",
            PANEL_INCHES + BAR_INCHES * len(groups),
            functools.partial(_bars, groups=groups, names=names, write=write),
        )
        for (benchmark, unit), groups in panels.items()
    ]


def _bars(
    axes: Axes, groups: Sequence[Group], names: dict[str, str], write: Callable[[Group], str]
) -> None:
    for place, group in enumerate(groups):
        spread = group.spread
        if spread is not None:
            color, hatch = (GREY, "//") if group.smoke else (BLUE, None)
            axes.barh(place, spread.median, 0.4, color=color, hatch=hatch, edgecolor="white")
            if spread.low is not None and spread.high is not None:
                sides = [[spread.median - spread.low], [spread.high - spread.median]]
                axes.errorbar(spread.median, place, xerr=sides, color="black", capsize=3)
        said = axes.text(0, place - 0.28, f"{names[group.key.id]}: {write(group)}")
        said.set_in_layout(False)
    axes.set_yticks([])
    axes.set_ylim(len(groups) - 0.6, -0.8)  # the first row on top, as in the table
    axes.set_xlim(left=0)


def scaling(results: Sequence[Result], word: Word = str) -> list[Panel]:
    """Draw how series scale, in one chart; none where nothing has a speedup on several GPUs."""
    curves = scaling_curves(results)
    if not curves:
        return []
    fill = functools.partial(
        _scaling, curves=curves, intervals=_speedup_intervals(results), word=word
    )
    return [Panel(word("Speedup against one GPU"), CURVES_INCHES, fill)]


def _scaling(
    axes: Axes,
    curves: dict[str, list[tuple[int, float]]],
    intervals: dict[tuple[int, float], tuple[float, float]],
    word: Word,
) -> None:
    ticks = sorted({gpus for points in curves.values() for gpus, _ in points})
    ends = [1, ticks[-1]]
    axes.plot(ends, ends, color=GREY, linestyle="--", label=word("ideal"))
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=textwrap.fill(name, NAME))
        for gpus, speedup in points:
            low, high = intervals.get((gpus, speedup), (speedup, speedup))
            sides = [[speedup - low], [high - speedup]]
            axes.errorbar(gpus, speedup, yerr=sides, color="black", capsize=3)
    axes.set_xlabel(word("GPUs"))
    axes.loglog(base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [str(gpus) for gpus in ticks])
    if len(curves) <= NAMED_CURVES:
        # Below, where long names lie on nothing however narrow the panel is.
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.15))


def _speedup_intervals(results: Sequence[Result]) -> dict[tuple[int, float], tuple[float, float]]:
    """Map a point of a scaling curve → the interval of its throughput, as a speedup."""
    found = {}
    for result in results:
        spread, speedup = result.group.spread, result.speedup.value
        if spread and speedup and spread.low is not None and spread.high is not None:
            ends = (speedup * spread.low / spread.median, speedup * spread.high / spread.median)
            found[_gpus(result), speedup] = ends
    return found


def over_time(history: History, word: Word = str) -> list[Panel]:
    """Draw what a run did: accuracy, throughput and loss by its steps, and its GPU metrics."""
    panels = _steps(history, history.curve, word) if history.curve is not None else []
    steady = history.measured.steady if history.measured is not None else None
    known = {series.metric for series in history.series if series.at}
    if steady is not None:
        panels += [
            _gpu_panel(history, steady, metric.id, word)
            for metric in METRICS
            if metric.is_plotted and metric.id in known
        ]
    return panels


def _steps(history: History, curve: Curve, word: Word) -> list[Panel]:
    measured, panels = history.measured, []
    shade, restarts = None, [curve.since(at) for at in curve.restarts]
    across, over = word("iterations"), list(map(float, curve.iterations))
    minutes = curve.minutes() if curve.evaluations else None
    if minutes is not None:
        # What is trained to an accuracy is seen over the time that it took.
        said = f"; {word('dashed: restarts')}" if restarts else ""
        across, over = f"{word('minutes')}{said}", minutes
        points = [(curve.since(at), value) for at, value in curve.evaluations]
        title = f"{word('accuracy')}: {curve.metric}"
        panels.append(_lines(title, across, {"": points}, marks=restarts, level=curve.target))
    elif measured is not None and measured.window is not None:
        # Not of what was planned, but of what was measured.
        shade = (measured.window.first_iteration - 1.0, float(measured.window.last_iteration))
        across = f"{across}; {word('shaded: the measured window')}"
    for title, values in (
        (f"{word('throughput')}, {history.unit}", curve.rates),
        (word("loss"), curve.losses),
    ):
        points = [
            (at, math.nan if value is None else value)
            for at, value in zip(over, values, strict=True)
        ]
        if any(math.isfinite(value) for _, value in points):
            marks = () if minutes is None else restarts
            panels.append(_lines(title, across, {"": points}, shade, marks))
    return panels


def _gpu_panel(history: History, steady: SteadyPart, metric: str, word: Word) -> Panel:
    unit, scale = BY_ID[metric].unit, 1.0
    if unit == "ratio":
        unit, scale = "%", 100.0
    lines = {}
    for series in history.series:
        if series.metric == metric and series.at:
            minutes, values = unbroken(series, steady.started_at)
            drawn = [scale * value for value in values]
            lines[gpu_name(series)] = list(zip(minutes, drawn, strict=True))
    across, shade = word("minutes"), None
    window = history.measured.window if history.measured is not None else None
    began, ended = (window.started_at, window.ended_at) if window else (None, None)
    # A window by another clock lies elsewhere.
    if began and ended and began < steady.ended_at and ended > steady.started_at:
        shade = tuple((at - steady.started_at) / 60 for at in (began, ended))
        across = f"{across}; {word('shaded: the measured window')}"
    return _lines(f"{word(BY_ID[metric].title)}, {unit}", across, lines, shade)


def _lines(
    title: str,
    across: str,
    lines: dict[str, list[tuple[float, float]]],
    shade: Sequence[float] | None = None,
    marks: Sequence[float] = (),
    level: float | None = None,
) -> Panel:
    """Draw lines by their names, a part of the x axis shaded, and a level of the y axis."""

    def fill(axes: Axes) -> None:
        if shade is not None:
            axes.axvspan(*shade, color=GREY, alpha=0.3, lw=0)
        if level is not None:
            axes.axhline(level, color=GREY, linestyle="--")
        for at in marks:
            axes.axvline(at, color="black", linestyle="--", lw=0.8)
        for name, points in lines.items():
            marker = "o" if level is not None else "." if len(points) == 1 else ""
            axes.plot(*zip(*points, strict=True), label=name, lw=1, marker=marker, ms=4)
        low, high = axes.get_ylim()
        axes.set_ylim(min(0.0, low), high + 0.05 * abs(high))
        axes.set_xlabel(across)
        if "" not in lines and len(lines) <= NAMED_GPUS:
            axes.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0.0, -0.35))

    return Panel(title, TIME_INCHES, fill)


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
