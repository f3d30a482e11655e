"""``results -o html``: one file with tables, charts, environment, verdicts and commands.

It needs nothing from elsewhere and has no script. The template escapes all text; only the charts,
which escape their own, go in as they are.
"""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import jinja2
import msgspec

from k8sbench.measure.run.curve import Curve
from k8sbench.model.counts import ABSENT
from k8sbench.model.gpu_metrics import BY_ID
from k8sbench.model.group import Group, Member, Parity, Result
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.report import charts, chinese, command, group_words, layout, numbers, plot
from k8sbench.report.plot import GpuHistory
from k8sbench.report.tables import Table, numbered, said_once, unique
from k8sbench.report.text_table import clean

SHORT = 28
"""Characters of a cell that is not broken."""
MOST_OPEN = 20
"""Rows whose details are open; of more each opens at a click, so that the page can be scrolled."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and what it did over time."""

    run_id: str
    measured: Measurement | None = None
    curve: Curve | None = None
    gpus: GpuHistory | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows."""

    results: Sequence[Result]
    parities: Sequence[Parity] = ()
    histories: Sequence[History] = ()
    """Of each row at most one run."""
    where: str
    """Which store the rows are of."""
    at: float
    """When the page was made, Unix seconds."""
    version: str
    """Of k8sbench."""
    lang: str = "en"
    """``en`` or ``zh``."""


def html(page: Page) -> str:
    """Write the page."""
    made = layout.tables(page.results, page.parities, airank=True)
    tables = list(map(_named_first, made))
    tables = chinese.translated(tables) if page.lang == "zh" else tables
    tables = list(map(said_once, tables))
    word: Callable[[str], str] = chinese.title if page.lang == "zh" else str
    notes = numbered(tables)
    names = plot.labels([result.group for result in page.results])
    runs = {history.run_id: history for history in page.histories}
    return _template().render(
        lang="zh-CN" if page.lang == "zh" else "en",
        word=word,
        where=page.where,
        at=datetime.fromtimestamp(page.at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=page.version,
        tables=[_cells(table, notes) for table in tables if table.rows],
        notes=[(number, note) for note, number in notes.items()],
        bars=_bars(page.results, names),
        scaling=_scaling(page.results, word),
        are_open=len(page.results) <= MOST_OPEN,
        rows=[
            _row(result.group, names[result.group.key.id], runs, word) for result in page.results
        ],
    )


@functools.cache
def _template() -> jinja2.Template:
    text = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


def _named_first(table: Table) -> Table:
    """Put the benchmark first: that column stays in sight on a narrow screen."""
    titles = [column.title for column in table.columns]
    order = sorted(range(len(titles)), key=lambda at: titles[at] != "benchmark")
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[at] for at in order),
        rows=tuple(tuple(row[at] for at in order) for row in table.rows),
    )


def _cells(table: Table, notes: dict[str, int]) -> dict[str, Any]:
    return {
        "title": table.title,
        "below": table.notes,
        "columns": [(column.title, column.right) for column in table.columns],
        "rows": [
            [
                (
                    text,
                    "short" if len(text) <= SHORT else "long",
                    [notes[n] for n in unique(cell.notes)],
                )
                for cell in row
                for text in (clean(cell.text),)
            ]
            for row in table.rows
        ],
    }


def _bars(results: Sequence[Result], names: dict[str, str]) -> list[tuple[str, str]]:
    panels: dict[tuple[str, str], list[Group]] = {}
    for result in results:
        group = result.group
        panels.setdefault((group.key.benchmark, group.unit), []).append(group)
    found = []
    for (benchmark, unit), groups in panels.items():
        title = f"{benchmark}: {unit}"
        rows = [_bar(group, names[group.key.id]) for group in groups]
        found.append((title, charts.bars(title, rows)))
    return found


def _bar(group: Group, label: str) -> charts.Bar:
    spread = group.spread
    if spread is None:
        return charts.Bar(label=label, words=group_words.no_figure(group), value=None)
    return charts.Bar(
        label=label,
        words=f"{numbers.rate(spread.median)} ({group.counted}/{len(group.members)})"
        + ("; smoke" if group.smoke else ""),
        value=spread.median,
        low=spread.low,
        high=spread.high,
        hatched=group.smoke,
    )


def _scaling(results: Sequence[Result], word: Callable[[str], str]) -> dict[str, Any] | None:
    curves = plot.scaling_curves(results)
    if not curves:
        return None
    most = max(gpus for points in curves.values() for gpus, _ in points)
    drawn = [charts.Line(name=word("ideal"), points=((1, 1), (most, most)), dashed=True)]
    ends = _speedup_intervals(results)
    drawn += [
        charts.Line(
            name=name,
            points=tuple((float(gpus), speedup) for gpus, speedup in points),
            intervals=tuple((float(at[0]), *ends[at]) for at in points if at in ends),
            dots=True,
        )
        for name, points in curves.items()
    ]
    return _chart(word("Speedup against one GPU"), word("GPUs"), drawn)


def _speedup_intervals(results: Sequence[Result]) -> dict[tuple[int, float], tuple[float, float]]:
    """Map a point of a scaling curve → the interval of its throughput, as a speedup."""
    found = {}
    for result in results:
        spread, speedup = result.group.spread, result.speedup.value
        if spread and speedup and spread.low is not None and spread.high is not None:
            ends = (speedup * spread.low / spread.median, speedup * spread.high / spread.median)
            found[result.group.plan.world_size, speedup] = ends
    return found


def _chart(
    title: str,
    x_title: str,
    drawn: Sequence[charts.Line],
    shade: tuple[float, float] | None = None,
    marks: tuple[float, ...] = (),
) -> dict[str, Any]:
    chart = charts.Chart(title=title, x_title=x_title, lines=tuple(drawn), shade=shade, marks=marks)
    legend = [(at % charts.COLOURS, line.name, line.dashed) for at, line in enumerate(drawn)]
    return {
        "title": title,
        "svg": charts.lines(chart),
        "legend": legend if 1 < len(legend) <= plot.NAMED_GPUS + 1 else [],
    }


def _row(
    group: Group, name: str, runs: dict[str, History], word: Callable[[str], str]
) -> dict[str, Any]:
    ids = [member.run_id for member in group.members]
    history = next((runs[run_id] for run_id in ids if run_id in runs), None)
    reasons = [
        (kind, text)
        for kind in ("reject", "warn", "accepted")
        for text in group_words.reasons(group, kind)
    ]
    return {
        "name": f"{group.key.benchmark} {name}",
        "figure": plot.words(group, group.unit),
        "state": group.state,
        "marks": group_words.marks(group),
        "reasons": reasons,
        "judgements": group.judgements,
        "environment": [
            (word(name), value)
            for name, value in _environment(group, None if history is None else history.measured)
        ],
        "command": command.repeating(group.plan, len(group.members)),
        "runs": [
            (member.run_id, _rate(member, group.unit), member.verdict or member.phase)
            for member in group.members
        ],
        "charts": [] if history is None else _over_time(history, group, word),
    }


def _rate(member: Member, unit: str) -> str:
    if member.rate is not None:
        return f"{numbers.rate(member.rate)} {unit}"
    if member.unverified is not None:
        return f"{numbers.rate(member.unverified)} {unit} does not count"
    return ABSENT


def _environment(group: Group, measured: Measurement | None) -> list[tuple[str, str]]:
    plan, key = group.plan, group.key
    found: dict[str, object] = {
        "set": key.set_name,
        "impl": key.impl,
        "variant": key.variant,
        "backend": key.backend,
        "pool": key.pool,
        "device": group.device or plan.device,
        "GPU model": key.gpu_model,
        "image": key.image,
        "data": key.data,
        "data digest": key.data_digest,
        "training": key.training,
        "start weights": group.training and group.training.weights,
        "weights' digest": key.weights_digest,
        "planned window": _window(plan),
        "estimator": group.estimator,
        **(measured.environment if measured is not None else {}),
    }
    if found.get("gpu_model") == key.gpu_model:
        del found["gpu_model"]
    return [
        (name, str(value))
        for name, value in found.items()
        if value not in (None, "", "-", "unknown")
    ]


def _window(plan: RunPlan) -> str:
    if plan.training is not None:
        return f"after {plan.window.warmup} iterations"
    return f"{plan.window.warmup} + {plan.window.iterations} iterations"


def _over_time(history: History, group: Group, word: Callable[[str], str]) -> list[dict[str, Any]]:
    found = []
    curve = history.curve
    if curve is not None:
        shade = _measured(history.measured)
        across, over = word("iterations"), list(map(float, curve.iterations))
        marks = tuple(map(curve.since, curve.restarts))
        minutes = curve.minutes() if curve.evaluations else None
        if minutes is not None:
            # What is trained to an accuracy is seen over the time that it took.
            across, over, shade = _of_time(word, marks), minutes, None
            found.append(_accuracy(curve, across, marks, word))
        for title, values in (
            (f"{word('throughput')}, {group.unit}", curve.rates),
            (word("loss"), curve.losses),
        ):
            points = tuple(
                (at, value if value is not None else math.nan)
                for at, value in zip(over, values, strict=True)
            )
            lines = [charts.Line(name=title, points=points)]
            of_restarts = () if minutes is None else marks
            found.append(_chart(title, _shaded(across, shade, word), lines, shade, of_restarts))
    if history.gpus is not None:
        found += [_gpu_chart(one, metric, word) for one, metric in history.gpus.panels()]
    return [chart for chart in found if chart["svg"]]


def _measured(found: Measurement | None) -> tuple[float, float] | None:
    """Find the iterations that a run's figure is of: not those that were planned."""
    if found is None or found.window is None:
        return None
    return found.window.first_iteration - 1.0, float(found.window.last_iteration)


def _of_time(word: Callable[[str], str], restarts: Sequence[float]) -> str:
    return f"{word('minutes')}; {word('dashed: restarts')}" if restarts else word("minutes")


def _accuracy(
    curve: Curve, across: str, restarts: tuple[float, ...], word: Callable[[str], str]
) -> dict[str, Any]:
    points = tuple((curve.since(at), value) for at, value in curve.evaluations)
    drawn = [charts.Line(name=curve.metric, points=points, dots=True)]
    if curve.target is not None:
        ends = ((0.0, curve.target), (points[-1][0], curve.target))
        drawn.append(charts.Line(name=word("target"), points=ends, dashed=True))
    return _chart(f"{word('accuracy')}: {curve.metric}", across, drawn, marks=restarts)


def _gpu_chart(history: GpuHistory, metric: str, word: Callable[[str], str]) -> dict[str, Any]:
    start, unit, scale = history.steady.started_at, BY_ID[metric].unit, 1.0
    if unit == "ratio":
        unit, scale = "%", 100.0
    drawn = []
    for one in history.series:
        if one.metric == metric and one.at:
            minutes, values = plot.unbroken(one, start)
            points = tuple((at, scale * value) for at, value in zip(minutes, values, strict=True))
            drawn.append(charts.Line(name=plot.gpu_name(one), points=points))
    shade = None
    if history.window is not None:
        shade = ((history.window[0] - start) / 60, (history.window[1] - start) / 60)
    across = _shaded(word("minutes"), shade, word)
    return _chart(f"{word(BY_ID[metric].title)}, {unit}", across, drawn, shade)


def _shaded(across: str, shade: tuple[float, float] | None, word: Callable[[str], str]) -> str:
    """Say below an axis what its shaded part is."""
    return across if shade is None else f"{across}; {word('shaded: the measured window')}"
