"""Charts of results: throughput, scaling, a case over its sets, a run over time.

A group without a figure has words in place of a bar. :mod:`.chart` draws them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from k8sbench.measure.run.recorded import Curve
from k8sbench.model.compared import CaseHistory, Point
from k8sbench.model.group import Group, Result, Spread
from k8sbench.model.measurement import Measurement
from k8sbench.report import columns, formats, group_words
from k8sbench.report.chart import Bar, BarChart, Chart, Dot, LineChart, Trace
from k8sbench.report.words import phrase, say

NAMED = 8
"""Maximum number of lines of a scaling chart."""
MOST_SETS = 40
"""Newest sets of a case that are drawn."""
SMALL = 320
"""Width of a case's chart over its sets."""
DASHES = ("", "6 3", "2 3", "6 3 2 3")
"""Dashes of lines of one precision."""


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
    precision = "-".join(filter(None, (group.plan.precision, group.plan.amp_dtype)))
    return precision if precision in ("fp32", "amp-fp16", "amp-bf16") else "other"


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


def bars(results: Sequence[Result], lang: str = "en") -> list[Chart]:
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
    return [BarChart(title=title, bars=tuple(found)) for title, found in charts.items()]


def _published(result: Result, lang: str) -> tuple[Dot, ...]:
    """Mark the published figures of a row's own case."""
    return tuple(
        Dot(
            one.corrected or one.published,
            0,
            f"{say(lang, 'chart_published', source=one.source, precision=one.precision)}: "
            f"{formats.rate(one.corrected or one.published)} {result.group.unit}",
        )
        for one in result.deviations or ()
        if one.quantity == "throughput" and columns.is_of_case(one, result)
    )


def _figure(spread: Spread, unit: str) -> str:
    """Write a median with its interval, if it has one."""
    ends = [formats.rate(end) for end in (spread.low, spread.high) if end is not None]
    return f"{formats.rate(spread.median)} {unit}" + (f" ({'–'.join(ends)})" if ends else "")


def scaling(results: Sequence[Result], lang: str = "en") -> list[Chart]:
    """Draw how each benchmark scales on each framework.

    The points of a line have one baseline and one set, because a line through several would show
    differences between days or machines as scaling. Benchmarks without a speedup on several GPUs
    are left out. Published points stand beside the lines.
    """
    lines: dict[tuple[str | None, str], list[Result]] = {}
    for result in results:
        if result.speedup.value is not None:
            lines.setdefault((result.baseline, result.group.key.set_name), []).append(result)
    charts: dict[str, list[list[Result]]] = {}
    for line in lines.values():
        if max(map(_gpus, line)) > 1:
            key = line[0].group.key
            facts = {"benchmark": key.benchmark, "framework": key.framework}
            title = say(lang, "chart_scaling", **facts)
            charts.setdefault(title, []).append(sorted(line, key=_gpus))
    made: list[Chart] = []
    for title in sorted(charts):
        newest = sorted(charts[title], key=lambda line: max(r.group.began for r in line))[-NAMED:]
        number = len(charts[title])
        few = say(lang, "chart_newest", named=NAMED, number=number) if number > NAMED else ""
        made.append(_scaling(title + few, newest, lang))
    return made


def _gpus(result: Result) -> int:
    return result.group.plan.world_size


def _scaling(title: str, rows: Sequence[Sequence[Result]], lang: str) -> LineChart:
    names = group_words.names(
        [row[0].group for row in rows],
        lambda g: say(
            lang,
            "chart_line",
            precision=group_words.precision(g),
            impl=g.key.impl,
            batch=g.key.batch_size,
        ),
    )
    published: dict[tuple[str, str], dict[int, float]] = {}
    for group, theirs in ((r.group, r.published_speedups) for row in rows for r in row):
        for source, speedups in theirs.items():
            label = say(lang, "chart_published", source=source, precision=group.key.precision)
            published.setdefault((label, kind(group)), {}).update(speedups)
    gpus = {gpus for speedups in published.values() for gpus in speedups}
    ticks = tuple(sorted({1, *gpus, *(_gpus(result) for row in rows for result in row)}))
    ideal = tuple(Dot(tick, tick) for tick in ticks)
    lines = [Trace(name=say(lang, "ideal"), kind="soft", points=ideal, dashes="4 4", shape="none")]
    drawn: Counter[str] = Counter()
    for row in rows:
        first = row[0].group
        dashes = DASHES[drawn[kind(first)] % len(DASHES)]
        drawn[kind(first)] += 1
        points = tuple(map(_speedup, row))
        name = names[first.key.id]
        lines.append(Trace(name=name, kind=kind(first), points=points, dashes=dashes))
    for (label, colour), found in published.items():
        points = tuple(
            Dot(at, value, f"{label}: {formats.ratio(value)}")
            for at, value in sorted(found.items())
        )
        lines.append(Trace(name=label, kind=colour, points=points, shape="cross"))
    return LineChart(title=title, lines=tuple(lines), across=say(lang, "chart_gpus"), ticks=ticks)


def _speedup(result: Result) -> Dot:
    """Place a speedup, with the interval of its throughput."""
    speedup = result.speedup.value or 0.0
    spread = result.group.spread
    text = f"{result.group.key.case}: {formats.ratio(speedup)}"
    if spread is None or spread.low is None or spread.high is None:
        return Dot(_gpus(result), speedup, text)
    low, high = (speedup * end / spread.median for end in (spread.low, spread.high))
    return Dot(_gpus(result), speedup, text, low=low, high=high)


def over_sets(series: Sequence[CaseHistory], lang: str = "en") -> list[Chart]:
    """Draw each case over its newest sets, confirmed steps marked.

    Cases with a figure of one set are left out.
    """
    names = labels([one.group for one in series], lang)
    made: list[Chart] = []
    for one in series:
        known = [point for point in one.points if point.group.spread is not None][-MOST_SETS:]
        if len(known) < 2:
            continue
        points = tuple(_set(number, point) for number, point in enumerate(known))
        line = Trace(kind=kind(one.group), points=points)
        title = f"{names[one.group.key.id]}, {one.group.unit}"
        made.append(LineChart(title=title, lines=(line,), is_plain=True, width=SMALL, height=90))
    return made


def _set(number: int, point: Point) -> Dot:
    """Place a set of a case; its change is against the sets before."""
    group, spread = point.group, point.group.spread
    assert spread is not None
    mark = point.mark
    change = "" if mark is None else formats.signed_percent(mark.change)
    day = f" ({formats.days([point.at])})" if group.dates else ""
    return Dot(
        number,
        spread.median,
        f"{group.key.set_name}{day}: {_figure(spread, group.unit)}{change and f', {change}'}",
        low=spread.low,
        high=spread.high,
        kind="" if mark is None else "faster" if mark.change > 0 else "slower",
        step=change if mark is not None and mark.kind in ("step", "drift") else "",
    )


def over_time(run: History, lang: str = "en") -> list[LineChart]:
    """Draw a run's throughput by iteration, the measured window shaded."""
    if run.curve is None or not any(run.curve.rates):
        return []
    points = tuple(
        Dot(at, rate)
        for at, rate in zip(run.curve.iterations, run.curve.rates, strict=True)
        if rate is not None
    )
    shape = "none" if len(points) > 1 else "dot"
    return [
        LineChart(
            title=say(lang, "over_time", unit=run.unit),
            lines=(Trace(kind="fp32", points=points, shape=shape),),
            across=say(lang, "iterations" if run.window is None else "iterations_shaded"),
            from_zero=True,
            shade=None if run.window is None else (run.window[0] - 1.0, run.window[1]),
            height=110,
        )
    ]
