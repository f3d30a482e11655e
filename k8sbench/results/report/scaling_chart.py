"""Chart of how a benchmark scales: efficiency by GPUs, a line for each number of GPUs per node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.messages import Lang
from k8sbench.model.group import Group, Result
from k8sbench.model.identity import fields_for
from k8sbench.results.report import columns, formats, group_words
from k8sbench.results.report.chart import Dot, LineChart, Panel, Place, Tick, Trace
from k8sbench.results.report.plot import kind
from k8sbench.results.report.words import name_of_fact, say

NAMED = 8
"""Maximum number of lines of a chart."""
MOST_LOOSE = 60
"""Maximum number of loose points of a chart, the newest ones."""
DASHES = ("", "6 3", "2 3", "6 3 2 3")
"""Dashes of lines of one precision."""
PUBLISHED: tuple[Literal["square", "stroke"], ...] = ("square", "stroke")
"""Shapes of the published points of one precision."""


class _Line(NamedTuple):
    """Rows that a line joins."""

    per_node: int
    """GPUs per node."""
    rows: Sequence[Result]
    """Two or more of one baseline and one set, by GPUs."""

    @property
    def first(self) -> Group:
        """Group with the fewest GPUs."""
        return self.rows[0].group


def charts(results: Sequence[Result], lang: Lang = "en") -> list[LineChart]:
    """Draw how each benchmark scales on each framework.

    A line joins the rows with one number of GPUs per node, and those that fill one such node: 1x1
    and 1x4 stand before 1x8 and 2x8. Its rows have one baseline and the newest set of their
    program, because a line through several would show differences between days or machines as
    scaling. Other rows are loose points. Benchmarks without a speedup on several GPUs are left out.
    Published points stand beside the lines, if they were asked for.
    """
    by_program: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.speedup.value is not None:
            key = result.group.key
            by_program.setdefault((key.benchmark, key.framework), []).append(result)
    return [
        _chart(say(lang, "chart_scaling", benchmark=benchmark, framework=framework), rows, lang)
        for (benchmark, framework), rows in sorted(by_program.items())
        if max(map(_gpus, rows)) > 1
    ]


def _gpus(row: Result) -> int:
    return row.group.facts.world_size or 0


def _nodes(row: Result) -> int:
    return max(1, row.group.facts.replicas)


def _per_node(row: Result) -> int:
    return _gpus(row) // _nodes(row)


def _lines(rows: Sequence[Result]) -> Iterator[_Line]:
    """Yield the lines through some rows, those of the newest set first."""
    by_set: dict[tuple[str | None, str], list[Result]] = {}
    for row in rows:
        by_set.setdefault((row.baseline, row.group.key.set_name), []).append(row)
    newest: dict[tuple[object, ...], str] = {}
    for some in sorted(by_set.values(), key=_latest, reverse=True):
        some.sort(key=_gpus)
        first = some[0].group
        if newest.setdefault(_program(first), first.key.set_name) == first.key.set_name:
            yield from _by_node(some)


def _latest(rows: Sequence[Result]) -> tuple[float, float]:
    return max(row.group.began for row in rows)


def _program(group: Group) -> tuple[object, ...]:
    """Return what a program keeps over its sets, whatever its number of GPUs and its image."""
    names = {*fields_for("series")} & {*fields_for("baseline")} - {"window"}
    return group.key.gpu_model, *(getattr(group.key, name) for name in sorted(names))


def _by_node(rows: Sequence[Result]) -> Iterator[_Line]:
    """Yield a line for each number of GPUs per node, the largest first; a row alone has none."""
    sizes = {_per_node(row) for row in rows if _nodes(row) > 1}
    sizes.add(max((_per_node(row) for row in rows if _nodes(row) == 1), default=1))
    for size in sorted(sizes, reverse=True):
        joined = [
            row
            for row in rows
            if _per_node(row) == size or (_nodes(row) == 1 and _per_node(row) < size)
        ]
        if len(joined) > 1:
            yield _Line(size, joined)


def _chart(title: str, rows: Sequence[Result], lang: Lang) -> LineChart:
    every = [*_lines(rows)]
    lines = every[:NAMED]
    if len(every) > NAMED:
        title += say(lang, "chart_newest", named=NAMED, number=len(every))
    joined = {row.group.key.id for line in lines for row in line.rows}
    loose = [row for row in rows if row.group.key.id not in joined and _gpus(row) > 1]
    loose = sorted(loose, key=lambda row: row.group.began)[-MOST_LOOSE:]
    published = _published([row for row in rows if columns.asks_published(row)], lang)
    ours = [*_traces(lines, lang), *_loose(loose, lang)]
    every_x = {dot.x for trace in (*ours, *published) for dot in trace.points}
    ends = (Dot(0, 100), Dot(max(every_x, default=0), 100))
    ideal = Trace(name=say(lang, "ideal"), kind="soft", points=ends, dashes="4 4", shape="none")
    places = tuple(Place(x, "") for x in sorted(every_x))
    counts = sorted({1, *(round(2**x) for x in every_x)})
    return LineChart(
        title=title,
        panels=(Panel(lines=(ideal, *ours, *published), suffix=" %", height=140),),
        places=places,
        across=name_of_fact(lang, "GPUs"),
        ticks=tuple(Tick(math.log2(count), str(count)) for count in counts),
    )


def _traces(lines: Sequence[_Line], lang: Lang) -> Iterator[Trace]:
    """Yield the lines; their names say how many GPUs a node has where that differs."""
    is_said = len({line.per_node for line in lines}) > 1
    names = group_words.names([line.first for line in lines], _named(lang), but=("case",))
    drawn: Counter[str] = Counter()
    for line in lines:
        colour = kind(line.first)
        dashes = DASHES[drawn[colour] % len(DASHES)]
        drawn[colour] += 1
        name = names[line.first.key.id]
        name += say(lang, "per_node", number=line.per_node) if is_said else ""
        points = tuple(map(_efficiency, line.rows))
        yield Trace(name=name, kind=colour, points=points, dashes=dashes)


def _named(lang: Lang) -> Callable[[Group], str]:
    return lambda group: say(
        lang,
        "chart_line",
        precision=group_words.precision(group),
        impl=group.key.impl,
        batch=group.key.batch_size,
    )


def _loose(rows: Sequence[Result], lang: Lang) -> Iterator[Trace]:
    """Yield the points that no line joins, by colour; each tells its set."""
    by_colour: dict[str, list[Result]] = {}
    for row in rows:
        by_colour.setdefault(kind(row.group), []).append(row)
    for colour, some in by_colour.items():
        name = say(lang, "loose", precision=group_words.precision(some[0].group))
        yield Trace(name=name, kind=colour, points=tuple(map(_efficiency, some)), shape="loose")


def _published(rows: Sequence[Result], lang: Lang) -> list[Trace]:
    """Draw the published speedups of each source and precision."""
    speedups: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        for source, by_gpus in row.published_speedups.items():
            precision = row.group.key.precision
            label = say(lang, "chart_published", source=source, precision=precision)
            speedups.setdefault((label, kind(row.group)), {}).update(by_gpus)
    of_colour: Counter[str] = Counter()
    traces: list[Trace] = []
    for (label, colour), by_gpus in speedups.items():
        points = tuple(
            _point(at, value / at, f"{label}: {formats.percent(value / at)}")
            for at, value in sorted(by_gpus.items())
        )
        shape = PUBLISHED[of_colour[colour] % len(PUBLISHED)]
        of_colour[colour] += 1
        traces.append(Trace(name=label, kind=colour, points=points, shape=shape))
    return traces


def _efficiency(row: Result) -> Dot:
    """Place an efficiency, with the interval of its throughput."""
    gpus = _gpus(row)
    share = (row.speedup.value or 0.0) / gpus
    spread = row.group.spread
    text = f"{row.group.key.case}, {row.group.key.set_name}: {formats.percent(share)}"
    if spread is None or spread.low is None or spread.high is None:
        return _point(gpus, share, text)
    low, high = (100 * share * end / spread.median for end in (spread.low, spread.high))
    return msgspec.structs.replace(_point(gpus, share, text), low=low, high=high)


def _point(gpus: int, share: float, text: str) -> Dot:
    return Dot(math.log2(gpus), 100 * share, text, value=text)
