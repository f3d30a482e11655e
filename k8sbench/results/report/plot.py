"""Charts of results: throughput, cases over their sets, a run over time.

A group without a figure has words in place of a bar. :mod:`.chart` draws them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench import messages
from k8sbench.messages import Lang, chain
from k8sbench.model.compared import CaseHistory, Point
from k8sbench.model.group import Group, Result, Spread
from k8sbench.model.measurement import Measurement
from k8sbench.model.profile import Curve
from k8sbench.model.series import Mark
from k8sbench.results.report import columns, formats, group_words, svg
from k8sbench.results.report.chart import Bar, BarChart, Dot, Key, LineChart, Panel, Place, Trace
from k8sbench.results.report.time_axis import TimeAxis, dated, events
from k8sbench.results.report.words import say

CASE_HEIGHT = 48
"""Height of a case over its sets."""
MOST_POINTS = 140
"""Maximum number of lines of a log that are drawn one by one."""
MEDIANS = 48
"""Number of medians that stand for more lines."""
BAND = 0.8
"""Share of the lines that the band around the medians holds: from the first to the last tenth."""


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


def kind(group: Group) -> str:
    """Return the colour of a group: that of its precision."""
    if group.smoke:
        return "smoke"
    precision = "-".join(filter(None, (group.facts.precision, group.facts.amp_dtype)))
    return precision if precision in ("fp32", "amp-fp16", "amp-bf16") else "other"


def words(group: Group, lang: Lang = "en") -> str:
    """Write the end of a bar: figure, runs and marks, or the reason."""
    if group.spread is None:
        text = messages.text(lang, group_words.no_figure(group))
    else:
        rate = formats.rate(group.spread.median)
        text = say(lang, "chart_bar", rate=rate, counted=group.counted, runs=len(group.members))
        if group.time_to_train_s is not None:
            text += say(lang, "chart_to_train", seconds=formats.seconds(group.time_to_train_s))
    # The table explains the layout; a bar has no room.
    marks = (mark.said if mark.kind == "own" else mark.whole for mark in group_words.marks(group))
    return messages.written(lang, chain("and-then", [text, *marks]))


def labels(groups: Sequence[Group], lang: Lang = "en") -> dict[str, str]:
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


def bars(results: Sequence[Result], lang: Lang = "en") -> list[BarChart]:
    """Draw throughput with its intervals, a chart for each benchmark."""
    names = labels([result.group for result in results], lang)
    charts: dict[str, list[Bar]] = {}
    for result in results:
        group = result.group
        facts = {"benchmark": group.key.benchmark, "unit": group.unit}
        title = say(lang, "chart_bars", estimator=group.estimator, **facts)
        label = f"{names[group.key.id]}: {words(group, lang)}"
        spread, figure = group.spread, None
        if spread is not None:
            text = _figure(spread, group.unit)
            figure = Dot(spread.median, 0, text, low=spread.low, high=spread.high)
        bar = Bar(label=label, kind=kind(group), figure=figure, marks=_published(result, lang))
        charts.setdefault(title, []).append(bar)
    return [
        BarChart(
            title=title,
            bars=tuple(found),
            interval=say(lang, "key_interval") if any(map(_has_interval, found)) else "",
            mark=say(lang, "published_figure") if any(bar.marks for bar in found) else "",
        )
        for title, found in charts.items()
    ]


def _has_interval(bar: Bar) -> bool:
    return bar.figure is not None and bar.figure.low is not None


def _published(result: Result, lang: Lang) -> tuple[Dot, ...]:
    """Mark the published figures of a row's own case and batch."""
    return tuple(
        Dot(
            one.published,
            0,
            f"{say(lang, 'chart_published', source=one.source, precision=one.precision)}: "
            f"{columns.as_published(one, lang)} {result.group.unit}",
        )
        for one in result.deviations or ()
        if one.quantity == "throughput"
        and columns.is_of_case(one, result)
        and one.batch_size == result.group.facts.batch_size
    )


def _figure(spread: Spread, unit: str) -> str:
    """Write a median with its interval, if it has one."""
    ends = [formats.rate(end) for end in (spread.low, spread.high) if end is not None]
    return f"{formats.rate(spread.median)} {unit}" + (f" ({'–'.join(ends)})" if ends else "")


def over_sets(
    series: Sequence[CaseHistory],
    axis: TimeAxis,
    lang: Lang = "en",
    *,
    has_words: bool = True,
) -> list[LineChart]:
    """Draw cases over their sets, a panel each, on the axis of their benchmark.

    Cases with a figure of one set are left out. ``has_words``: each point tells its figures; else
    only a changed one.
    """
    names = labels([one.group for one in series], lang)
    panels: list[Panel] = []
    for one in series:
        points = tuple(
            _set(point, axis, has_words) for point in one.points if point.group.spread is not None
        )
        if len(points) > 1:
            line = Trace(kind=kind(one.group), points=points)
            title = f"{names[one.group.key.id]}, {one.group.unit}"
            panels.append(Panel(title=title, lines=(line,), height=CASE_HEIGHT))
    if not panels:
        return []
    dots = [dot for panel in panels for line in panel.lines for dot in line.points]
    has_interval = any(dot.low is not None for dot in dots)
    return [
        LineChart(
            title=say(lang, "over_sets", benchmark=series[0].group.key.benchmark),
            panels=tuple(panels),
            across=axis.title(lang),
            ticks=axis.ticks,
            ends=axis.ends,
            events=events(series, axis, lang),
            places=_places(series, axis),
            keys=(
                Key("dot", "text", say(lang, "key_dot")),
                *([Key("interval", "soft", say(lang, "key_interval"))] if has_interval else []),
                *(
                    Key("dot", kind, say(lang, f"key_{kind}"))
                    for kind in ("slower", "faster", "soft")
                    if any(dot.kind == kind for dot in dots)
                ),
                *(
                    [Key("step", "text", say(lang, "key_step"))]
                    if any(dot.step for dot in dots)
                    else []
                ),
            ),
        )
    ]


def _places(series: Sequence[CaseHistory], axis: TimeAxis) -> tuple[Place, ...]:
    """Return the sets of some cases as places of their axis."""
    names: dict[float, dict[str, float | None]] = {}
    for point in (point for one in series for point in one.points if point.group.spread):
        time = point.at if point.group.dates else None
        names.setdefault(axis.place(point), {}).setdefault(point.group.key.set_name, time)
    return tuple(
        Place(at, ", ".join(sets), next(iter(sets.values()))) for at, sets in sorted(names.items())
    )


def _set(point: Point, axis: TimeAxis, has_words: bool) -> Dot:
    """Place a set of a case; its change is against the sets before."""
    group, spread = point.group, point.group.spread
    assert spread is not None
    mark = None if point.mark is None or point.mark.kind == "back" else point.mark
    change = "" if mark is None else formats.signed_percent(mark.change)
    text = f"{dated(point)}: {_figure(spread, group.unit)}{change and f', {change}'}"
    return Dot(
        axis.place(point),
        spread.median,
        text if has_words or mark is not None else "",
        low=spread.low,
        high=spread.high,
        kind="" if mark is None else _colour(mark),
        step=change if mark is not None and mark.kind in ("step", "drift") else "",
        value=f"{formats.rate(spread.median)} {change}".rstrip(),
    )


def _colour(mark: Mark) -> str:
    """Return the colour of a marked set; one that differed once has not changed."""
    if not mark.is_change:
        return "soft"
    return "faster" if mark.change > 0 else "slower"


def sparkline(
    series: CaseHistory, axis: TimeAxis, heights: tuple[float, float], lang: Lang = "en"
) -> str:
    """Draw the sets of a case small, on the axis of its benchmark; empty for fewer than two.

    ``heights`` are the ends of the vertical axis: figure ÷ median of the sets − 1.
    """
    known = [_set(point, axis, has_words=False) for point in series.points if point.group.spread]
    if len(known) < 2:
        return ""
    middle = statistics.median(dot.y for dot in known)
    points = [Dot(dot.x, dot.y / middle - 1, kind=dot.kind) for dot in known]
    title = say(lang, "sparkline", sets=len(points))
    return svg.sparkline(title, points, axis.ends, heights)


def over_time(run: History, name: str, lang: Lang = "en") -> list[LineChart]:
    """Draw a run's throughput by iteration, the measured window shaded.

    Of many lines, each part of the iterations shows the median of its lines, and a band that holds
    most of them. The title counts the slow lines, which a band may hide.
    """
    if run.curve is None or not any(run.curve.rates):
        return []
    points = [
        Dot(at, rate, value=formats.rate(rate))
        for at, rate in zip(run.curve.iterations, run.curve.rates, strict=True)
        if rate is not None
    ]
    lines = _lines_over_time(points, lang)
    return [
        LineChart(
            title=say(lang, "over_time", name=name, unit=run.unit) + _slow_lines(run, points, lang),
            panels=(Panel(lines=lines, from_zero=True, height=110),),
            places=tuple(
                Place(at, say(lang, "at_iteration", number=round(at)))
                for at in sorted({dot.x for dot in lines[-1].points})
            ),
            ends=(min(dot.x for dot in points), max(dot.x for dot in points)),
            across=say(lang, "iterations" if run.window is None else "iterations_shaded"),
            shade=None if run.window is None else (run.window[0] - 1.0, run.window[1]),
        )
    ]


def _slow_lines(run: History, points: Sequence[Dot], lang: Lang) -> str:
    """Count the lines of the window that took over twice the median line; empty if none did."""
    first, last = run.window or (-math.inf, math.inf)
    rates = [dot.y for dot in points if first <= dot.x <= last]
    slow = sum(rate < statistics.median(rates) / 2 for rate in rates)
    return say(lang, "slow_lines", slow=slow, lines=len(rates)) if slow else ""


def _lines_over_time(points: Sequence[Dot], lang: Lang) -> tuple[Trace, ...]:
    """Draw few points as they are, of many their medians and the band around these."""
    if len(points) <= MOST_POINTS:
        shape: Literal["none", "dot"] = "none" if len(points) > 1 else "dot"
        return (Trace(kind="fp32", points=tuple(points), shape=shape),)
    medians = tuple(_medians(points))
    of_band = tuple(msgspec.structs.replace(dot, value="") for dot in medians)
    of_lines = say(lang, "medians", parts=len(medians), lines=len(points))
    band = say(lang, "band", share=f"{round(100 * BAND)} %")
    return (
        Trace(name=band, kind="fp32", points=of_band, shape="band"),
        Trace(name=of_lines, kind="fp32", points=medians, shape="none"),
    )


def _medians(points: Sequence[Dot]) -> Iterator[Dot]:
    """Yield the median of each part of the horizontal axis, with the ends of its band.

    The parts are equally wide. One that a restart repeats has the points of all attempts.
    """
    least = min(dot.x for dot in points)
    width = (max(dot.x for dot in points) - least) / MEDIANS or 1.0
    parts: defaultdict[int, list[float]] = defaultdict(list)
    for dot in points:
        parts[min(int((dot.x - least) / width), MEDIANS - 1)].append(dot.y)
    for place, rates in sorted(parts.items()):
        several = rates if len(rates) > 1 else rates * 2
        tenths = statistics.quantiles(several, n=10, method="inclusive")
        median = statistics.median(rates)
        yield Dot(
            least + (place + 0.5) * width,
            median,
            low=tenths[0],
            high=tenths[-1],
            value=formats.rate(median),
        )
