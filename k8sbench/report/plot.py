"""Charts of the page and of ``--plot``: throughput, scaling, a run over time.

matplotlib draws them. It is an extra and takes a second to import, so only :func:`picture` imports
it. Bars of smoke runs are hatched and marked; a group without a figure has words in place of a bar.
The same results give the same bytes.
"""

from __future__ import annotations

import functools
import html
import importlib.util
import io
import math
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.measure.run.curve import Curve
from k8sbench.model import extras
from k8sbench.model.errors import UsageError
from k8sbench.model.group import Group, Result, Spread
from k8sbench.model.measurement import Measurement
from k8sbench.report import formats, group_words
from k8sbench.report.words import phrase, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES = 9.0
PAGE_INCHES = 5.0
"""Width of a page's chart; letters are readable on a phone."""
NAMED = 8
"""Maximum number of lines that are named in a chart."""
NAME = 60
"""Characters of a line of a title or a legend."""
BLUE, GREY = "#4477aa", "#bbbbbb"  # told apart without colour vision, too
COLOURS = ("#2f6ba8", "#b3420f", "#1a7f5a", "#8250a8", "#8a6d00", "#0f7d8c", "#b3266f", "#57606a")
"""Colours of other lines."""
OF_PRECISION = {"fp32": BLUE, "amp (fp16)": COLOURS[1], "amp (bf16)": COLOURS[2]}
"""One colour for one precision, in all charts."""
STYLES = ("-", "--", ":", "-.")
"""Styles of lines of one precision."""


class Panel(NamedTuple):
    """One chart."""

    title: str
    inches: float
    """Its height."""
    fill: Callable[[Axes], None]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run's measurement, and its throughput over time."""

    run_id: str
    unit: str = "samples/s"
    """Unit of its throughput."""
    measured: Measurement | None = None
    curve: Curve | None = None

    @property
    def window(self) -> tuple[int, int] | None:
        """First and last measured iteration; None if nothing was measured."""
        window = None if self.measured is None else self.measured.window
        return None if window is None else (window.first_iteration, window.last_iteration)


def draw(results: Sequence[Result], form: str) -> bytes:
    """Draw the results; ``form`` is ``svg``, ``png`` or ``pdf``."""
    return picture(form, [*bars(results), *scaling(results)])


def of_page(panel: Panel) -> str:
    """Draw a chart for a page: an SVG that scales."""
    drawn = picture("svg", [panel], PAGE_INCHES).decode()
    box = re.search(r'viewBox="[^"]*"', drawn)
    assert box is not None
    body = drawn[drawn.index("<defs>") :]
    # Ids of groups are not unique in a page; those of shapes are made from what they are.
    body = re.sub(r' id="[a-zA-Z0-9.]+_\d+"|<style.*?</style>', "", body, flags=re.DOTALL)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", body)
    body = re.sub(r"\s*\n\s*", " ", body)
    return f'<svg role="img" aria-label="{html.escape(panel.title)}" {box[0]}>{body}'


def is_there() -> bool:
    """True if charts can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def picture(form: str, panels: Sequence[Panel], width: float = WIDTH_INCHES) -> bytes:
    """Draw panels with titles below each other; ``width`` in inches."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            "--plot needs matplotlib, which is not installed.", extras.how_to_install("report")
        ) from error

    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    settings: dict[str, Any] = {
        # Letters as letters and ids from a fixed salt: small, searchable, the same every time.
        "svg.fonttype": "none",
        "svg.hashsalt": "k8sbench",
        "font.size": 9,
        # Names may hold dollar signs.
        "text.parse_math": False,
        "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
        "axes.titlelocation": "left",
        "axes.titlesize": "medium",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "errorbar.capsize": 3,
        "legend.frameon": False,
        "legend.loc": "upper left",
        "path.simplify_threshold": 0.5,
        "savefig.bbox": "tight",
        "savefig.dpi": 150,
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
            axes.set_title(textwrap.fill(panel.title, NAME))
            panel.fill(axes)
        # Long words make the picture wider, and no panel narrower.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for text in (text for axes in grid for text in axes.texts):
            text.set_in_layout(True)
        data = io.BytesIO()
        figure.savefig(data, format=form, metadata=metadata.get(form))
    return data.getvalue()


def colour(group: Group) -> str:
    """Return the colour of a group's precision."""
    return OF_PRECISION.get(group_words.precision(group).partition(",")[0], COLOURS[3])


def words(group: Group, lang: str = "en") -> str:
    """Write the end of a bar: figure, runs and marks, or the reason."""
    if group.spread is None:
        text = group_words.no_figure(group)
    else:
        rate = formats.rate(group.spread.median)
        text = say(lang, "chart_bar", rate=rate, counted=group.counted, runs=len(group.members))
        if group.time_to_train_s is not None:
            text += say(lang, "chart_to_train", seconds=formats.seconds(group.time_to_train_s))
    return "; ".join(phrase(lang, part) for part in [text, *group_words.marks(group)])


def labels(groups: Sequence[Group], lang: str = "en") -> dict[str, str]:
    """Map group id → the label of its bar."""
    return group_words.names(
        groups,
        lambda g: say(
            lang,
            "chart_label",
            case=g.key.case,
            framework=g.key.framework,
            precision=group_words.precision(g),
            batch=g.key.batch_size,
        ),
    )


def bars(results: Sequence[Result], lang: str = "en") -> list[Panel]:
    """Draw throughput with its intervals, a chart for each benchmark."""
    panels: dict[str, list[Group]] = {}
    for group in (result.group for result in results):
        facts = {"benchmark": group.key.benchmark, "unit": group.unit}
        title = say(lang, "chart_bars", estimator=group.estimator, **facts)
        panels.setdefault(title, []).append(group)
    return [
        Panel(title, 0.6 + 0.42 * len(groups), functools.partial(_bars, groups=groups, lang=lang))
        for title, groups in panels.items()
    ]


def _bars(axes: Axes, groups: Sequence[Group], lang: str) -> None:
    names = labels(groups, lang)
    for place, group in enumerate(groups):
        spread = group.spread
        if spread is not None:
            color, hatch = (GREY, "//") if group.smoke else (colour(group), None)
            axes.barh(place, spread.median, 0.4, color=color, hatch=hatch, edgecolor="white")
            axes.errorbar(spread.median, place, xerr=_interval(spread), color="black")
        said = axes.text(0, place - 0.28, f"{names[group.key.id]}: {words(group, lang)}")
        said.set_in_layout(False)
    axes.set_yticks([])
    axes.set_ylim(len(groups) - 0.6, -0.8)  # the first row on top, as in the table
    axes.set_xlim(left=0)


def _interval(spread: Spread, scale: float = 1.0) -> list[list[float]]:
    """Return the distances of an interval's ends from the median.

    Without an interval nan, which is not drawn.
    """
    ends = (spread.low, spread.high)
    return [[math.nan if end is None else scale * abs(end - spread.median)] for end in ends]


def scaling(results: Sequence[Result], lang: str = "en") -> list[Panel]:
    """Draw how each benchmark scales on each framework.

    The points of a line have one baseline and one set, because a line through several would show
    differences between days or machines as scaling. Benchmarks without a speedup on several GPUs
    are left out. Published points stand beside the lines.
    """
    lines: dict[tuple[str | None, str], list[Result]] = {}
    for result in results:
        if result.speedup.value is not None:
            lines.setdefault((result.baseline, result.group.key.set_name), []).append(result)
    panels: dict[str, list[list[Result]]] = {}
    for line in lines.values():
        if max(map(_gpus, line)) > 1:
            key = line[0].group.key
            facts = {"benchmark": key.benchmark, "framework": key.framework}
            title = say(lang, "chart_scaling", **facts)
            panels.setdefault(title, []).append(sorted(line, key=_gpus))
    made = []
    for title in sorted(panels):
        newest = sorted(panels[title], key=lambda line: max(r.group.began for r in line))[-NAMED:]
        number = len(panels[title])
        few = say(lang, "chart_newest", named=NAMED, number=number) if number > NAMED else ""
        fill = functools.partial(_scaling, lines=newest, lang=lang)
        made.append(Panel(title + few, 3.2, fill))
    return made


def _gpus(result: Result) -> int:
    return result.group.plan.world_size


def _scaling(axes: Axes, lines: Sequence[Sequence[Result]], lang: str) -> None:
    names = group_words.names(
        [line[0].group for line in lines],
        lambda g: say(
            lang,
            "chart_line",
            precision=group_words.precision(g),
            impl=g.key.impl,
            batch=g.key.batch_size,
        ),
    )
    published: dict[str, dict[int, float]] = {}
    colours: dict[str, str] = {}
    for group, theirs in ((r.group, r.published_speedups) for line in lines for r in line):
        for source, points in theirs.items():
            facts = {"source": source, "precision": group.key.precision}
            label = say(lang, "chart_published", **facts)
            published.setdefault(label, {}).update(points)
            colours[label] = colour(group)
    gpus = {gpus for points in published.values() for gpus in points}
    ticks = sorted({1, *gpus, *(_gpus(result) for line in lines for result in line)})
    axes.plot(ticks, ticks, color=GREY, linestyle="--", label=say(lang, "ideal"))
    drawn: Counter[str] = Counter()
    for line in lines:
        speedups = [result.speedup.value or 0.0 for result in line]
        name = textwrap.fill(names[line[0].group.key.id], NAME)
        own = colour(line[0].group)
        style = STYLES[drawn[own] % len(STYLES)]
        drawn[own] += 1
        axes.plot(list(map(_gpus, line)), speedups, style, color=own, marker="o", label=name)
        for result, speedup in zip(line, speedups, strict=True):
            if (spread := result.group.spread) is not None:
                sides = _interval(spread, speedup / spread.median)
                axes.errorbar(_gpus(result), speedup, yerr=sides, color="black")
    for label, points in published.items():
        at = zip(*sorted(points.items()), strict=True)
        axes.plot(*at, "x", color=colours[label], label=label)
    axes.set_xlabel(say(lang, "chart_gpus"))
    axes.loglog(base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, list(map(str, ticks)))
    # Below, where long names lie on nothing however narrow the panel is.
    axes.legend(bbox_to_anchor=(0.0, -0.15))


def over_time(run: History, lang: str = "en") -> list[Panel]:
    """Draw a run's throughput by iteration, the measured window shaded."""
    if run.curve is None or not any(run.curve.rates):
        return []
    across = say(lang, "iterations" if run.window is None else "iterations_shaded")
    fill = functools.partial(_over_time, run=run, curve=run.curve, across=across)
    return [Panel(say(lang, "over_time", unit=run.unit), 1.7, fill)]


def _over_time(axes: Axes, run: History, curve: Curve, across: str) -> None:
    if run.window is not None:
        first, last = run.window
        axes.axvspan(first - 1.0, last, color=GREY, alpha=0.3, lw=0)
    marker = "." if len(curve.rates) == 1 else ""
    axes.plot(curve.iterations, [rate or math.nan for rate in curve.rates], lw=1, marker=marker)
    axes.set_ylim(0.0, 1.05 * axes.get_ylim()[1])
    axes.set_xlabel(across)
