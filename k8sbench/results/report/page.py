"""``results -o html``: the page that a team opens in the morning.

First the cases that somebody should look at, then each benchmark with charts and rows; notes,
environment and commands unfold. It is one file that loads nothing else. Its one script unfolds,
filters and sorts. The template escapes all text; only the charts, which escape their own, are
inserted as they are.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec

from k8sbench import messages
from k8sbench.messages import Lang
from k8sbench.model import times
from k8sbench.model.compared import CaseHistory
from k8sbench.model.group import Group, Member, Result
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import clean, clean_lines
from k8sbench.results.report import (
    account,
    attention,
    columns,
    compared_words,
    formats,
    group_words,
    layout,
    meanings,
    page_head,
    plot,
    scaling_chart,
    svg,
    words,
)
from k8sbench.results.report import causes as cause_words
from k8sbench.results.report.attention import Noted
from k8sbench.results.report.chart import LineChart
from k8sbench.results.report.columns import COLUMNS
from k8sbench.results.report.noted_tables import Table, captioned, of_runs, written
from k8sbench.results.report.page_content import Page, dates_of, ids_of, unbroken
from k8sbench.results.report.plot import History
from k8sbench.results.report.time_axis import TimeAxis, time_axis

MOST_NOTED = 25
"""Maximum number of findings in the first table."""
MOST_CASES = 8
"""Maximum number of cases of a benchmark that are drawn over their sets."""
MOST_DRAWN = 30
"""Maximum number of such cases of a page, which several benchmarks share."""
MOST_WORDS = 800
"""Maximum number of sets whose points tell their figures."""
_OPTIONAL = ("tbody", "thead", "td", "th", "tr", "dd", "dt", "li")
"""Elements whose end tags HTML does not need: a twelfth of a page with many rows."""


def html(page: Page) -> str:
    """Write the page."""
    word = functools.partial(words.name_of_fact, page.lang)
    script = _script()
    noted = attention.noted(page.series, page.compared, page.results)
    groups = [one.group for one in page.series]
    cases = _cases(page, noted)
    axes = _axes(page)
    ids = ids_of(page.results)
    most = max(1, min(MOST_CASES, MOST_DRAWN // max(1, len(cases))))
    over_sets = {name: _over_sets(page, some[:most], axes) for name, some in cases.items()}
    chart_axes = svg.Axes()
    sections = {
        name: _section(page, name, over_sets[name], len(cases[name][most:]), ids, chart_axes)
        for name in _benchmarks(page)
    }
    text = _template().render(
        # The name of the language in HTML, no text.
        lang="zh-CN" if page.lang == "zh" else "en",
        word=word,
        colours=(svg.css(), svg.css(is_dark=True)),
        title=page.title or f"k8sbench: {word('Results')}",
        at=times.minute(page.at),
        version=page.version,
        lead=page_head.lead(page),
        first=page_head.first(page, noted),
        since=page_head.since(page, noted),
        noted=page_head.laid_out(page, noted[:MOST_NOTED], axes, ids),
        more_noted=len(noted[MOST_NOTED:]),
        causes=[
            cause_words.of_begin(
                one,
                compared_words.case_names(one.compared, groups),
                page.lang,
                dates_of(page),
            )
            for one in page.begins
        ],
        head=[(word(name), value) for name, value in _head(page)],
        method=_method(page),
        legend=_legend(over_sets.values()),
        columns=_columns(page, [t for one in sections.values() for t in one["tables"]]),
        sections=sections,
        axes=chart_axes.text,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return clean_lines(text)


def _benchmarks(page: Page) -> Iterable[str]:
    return dict.fromkeys(result.group.key.benchmark for result in page.results)


def _axes(page: Page) -> dict[str, TimeAxis]:
    """Map each benchmark → the axis of all its sets."""
    of: dict[str, list[CaseHistory]] = {}
    for one in page.series:
        of.setdefault(one.group.key.benchmark, []).append(one)
    return {name: time_axis(series) for name, series in of.items()}


def _cases(page: Page, noted: Sequence[Noted]) -> dict[str, list[CaseHistory]]:
    """Map each benchmark → its cases with two sets or more, those with a finding first."""
    places = {one.series.group.key.id: place for place, one in enumerate(noted)}

    def order(one: CaseHistory) -> tuple[float, float]:
        return places.get(one.group.key.id, len(noted)), -one.points[-1].at

    found: dict[str, list[CaseHistory]] = {name: [] for name in _benchmarks(page)}
    for one in sorted(page.series, key=order):
        if sum(point.group.spread is not None for point in one.points) > 1:
            found.setdefault(one.group.key.benchmark, []).append(one)
    return found


# Environment and method


def _head(page: Page) -> list[tuple[str, str]]:
    """Build the head: GPU, driver, framework, image and dates."""
    groups = [result.group for result in page.results]
    runs = [history.measured for history in page.histories if history.measured]
    versions = [(run.framework, run.environment.get("framework_version")) for run in runs]

    def listed(values: Iterable[object]) -> str:
        return ", ".join(
            str(v) for v in dict.fromkeys(values) if v not in (None, "", "-", "unknown")
        )

    facts = {
        "GPU model": listed(group.key.gpu_model for group in groups),
        "driver": listed(group.driver for group in groups),
        "framework": listed(group.key.framework for group in groups),
        "framework version": listed(
            account.named_version(name or "", version) for name, version in versions if version
        ),
        "image": listed(group.key.image for group in groups),
        "dates": group_words.dates(groups, words.say(page.lang, "unknown")),
    }
    return [(name, value) for name, value in facts.items() if value]


def _method(page: Page) -> list[str]:
    """Write how the figures of runs are computed."""
    rules = dict.fromkeys(result.group.estimator for result in page.results)
    return [
        words.say(page.lang, "estimator", name=rule, what=words.say(page.lang, rule))
        for rule in rules
    ]


def _columns(page: Page, tables: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Write how the columns of tables are made, by their titles."""
    known = {column.title for column in COLUMNS}
    shown = dict.fromkeys(name for table in tables for name in table["names"])
    return [
        (words.name_of_fact(page.lang, name), messages.text(page.lang, meanings.column(name)))
        for name in shown
        if name in known
    ]


# One benchmark


def _section(
    page: Page,
    benchmark: str,
    over_sets: Sequence[LineChart],
    more_cases: int,
    ids: Mapping[str, str],
    chart_axes: svg.Axes,
) -> dict[str, Any]:
    """Build a benchmark's part: charts, cases over their sets, rows."""
    results = [r for r in page.results if r.group.key.benchmark == benchmark]
    parities = [p for p in page.parities if p.paddle.key.benchmark == benchmark]
    by_age = sorted((result.group for result in results), key=lambda group: group.began[1])
    newest = {(g.key.only("series"), g.key.gpu_model): g.key.id for g in by_age}.values()
    runs = {history.run_id: history for history in page.histories}
    # In the order of the tables: rows that measure throughput, then rows that train. Of many sets,
    # what unfolds below the rows would be most of the page.
    in_order = sorted(results, key=columns.trains)
    order = [result.group for result in in_order]
    environments = {
        group.key.id: _environment(group, page, runs)
        for group in order
        if group.key.id in newest or any(member.run_id in runs for member in group.members)
    }
    common = _common(environments.values())
    details = iter(
        _row(
            group,
            page,
            runs,
            [one for one in environments[group.key.id] if one not in common],
            chart_axes,
        )
        if group.key.id in environments
        else None
        for group in order
    )
    rows = iter(
        [(ids[result.group.key.id], _row_colour(result), next(details)) for result in in_order]
    )
    tables = layout.tables(results, parities, "page")
    return {
        "models": _models(results, page.lang),
        "over_sets": _drawn(over_sets, chart_axes),
        "more_cases": more_cases,
        "charts": _drawn(scaling_chart.charts(results, page.lang), chart_axes),
        "environment": common,
        "tables": [
            _table(table, [next(rows, ("", "soft", None)) for _ in table.rows], page.lang)
            for table in tables
        ],
    }


def _models(results: Sequence[Result], lang: Lang) -> str:
    """Name the GPU models of a benchmark's figures."""
    groups = [result.group for result in results]
    groups = [group for group in groups if group.spread is not None] or groups
    models = dict.fromkeys("CPU" if group.on_cpu else group.key.gpu_model for group in groups)
    known = [model for model in models if model not in ("-", "unknown")]
    unknown = [words.say(lang, "no_gpu_model")] if len(known) < len(models) else []
    return ", ".join((*known, *unknown))


def _over_sets(
    page: Page, cases: Sequence[CaseHistory], axes: Mapping[str, TimeAxis]
) -> list[LineChart]:
    """Draw cases over their sets, on the axis of all cases of their benchmark."""
    if not cases:
        return []
    axis = axes[cases[0].group.key.benchmark]
    count = sum(len(one.points) for one in page.series)
    return plot.over_sets(cases, axis, page.lang, has_words=count <= MOST_WORDS)


def _table(table: Table, rows: Sequence[tuple[str, str, Any]], lang: Lang) -> dict[str, Any]:
    """Lay out a table: a row's name in one cell, its figures.

    A name has what differs between the rows; what is common stands above them. ``rows`` are the id
    of each row, the colour of its verdict, and what unfolds.
    """
    table = msgspec.structs.replace(table, captioned=True)
    titles = [column.title for column in table.columns]
    caption, places = captioned(table, lang)
    made = written(table, lang)
    is_name = [not (column.right or column.states) for column in table.columns]
    of_name = [n for n in places if is_name[n] and titles[n] != "benchmark"]
    figures = [n for n in places if not is_name[n]]
    laid_out = []
    for row, mark, (key, colour, more) in zip(made.rows, made.marks, rows, strict=True):
        laid_out.append(
            {
                "key": key,
                "name": ", ".join(
                    _named(titles[n], made.columns[n].title, row[n]) for n in of_name
                ),
                "cells": [unbroken(row[n]) for n in figures],
                "kind": colour if row[-1] else "",
                "marks": mark,
                "more": more,
            }
        )
    return {
        "title": made.title,
        "caption": caption,
        "columns": [made.columns[n] for n in figures],
        "names": [titles[n] for n in figures],
        "rows": laid_out,
        "notes": made.lines,
    }


def _named(title: str, shown: str, text: str) -> str:
    """Write a part of a row's name; a bare number needs its title."""
    return f"{shown} {text}" if title in ("batch", "window", "training") else text


STATES = {
    **dict.fromkeys(("unsteady-runs", "out-of-memory"), "warn"),
    **dict.fromkeys(("rejected", "failed"), "bad"),
}
"""State of a row → its colour."""


def _row_colour(result: Result) -> str:
    """Return the colour of a row: that of its change or its missing case, else of its state."""
    changed = result.changed
    if changed is not None and changed.kind != "back":
        return "slower" if changed.ratio < 0 else "faster"
    if result.missing_in is not None:
        return "warn"
    return "soft" if result.group.smoke else STATES.get(result.group.state, "soft")


def _legend(charts: Iterable[Sequence[LineChart]]) -> list[tuple[str, str]]:
    """Draw each key of some charts once, with its words."""
    lists = sorted((one.keys for some in charts for one in some), key=len, reverse=True)
    return [(svg.sign(key), key.text) for key in dict.fromkeys(itertools.chain(*lists))]


def _drawn(charts: Sequence[LineChart], axes: svg.Axes) -> list[tuple[str, list[str]]]:
    """Draw charts, each with the words of its events."""
    return [(svg.element(one, axes), [event.text for event in one.events]) for one in charts]


# What unfolds below a row


def _row(
    group: Group,
    page: Page,
    runs: Mapping[str, History],
    environment: list[tuple[str, str]],
    chart_axes: svg.Axes,
) -> dict[str, Any]:
    write = functools.partial(messages.written, page.lang)
    history = next((runs[m.run_id] for m in group.members if m.run_id in runs), None)
    reasons = [
        (kind, words.say(page.lang, f"kind-{kind}"), write(of_runs(one, one.head or "")))
        for kind in ("reject", "warn", "accepted")
        for one in group_words.reasons(group, kind)
    ]
    return {
        # What warns or leaves out has a note of its own, with its sentence.
        "marks": [
            write(mark.whole) for mark in group_words.marks(group) if mark.kind in ("own", "smoke")
        ],
        "reasons": reasons,
        "judgements": list(map(write, group.judgements)),
        "environment": environment,
        "command": group_words.command(group.planned, len(group.members)),
        "runs": [
            {
                "id": member.run_id,
                "rate": _rate(member, group.unit, page.lang),
                "verdict": ""
                if member.verdict == "valid"
                else write(group_words.state_of(member.verdict or member.phase.lower())),
                "links": _links(member, page),
            }
            for member in group.members
        ],
        "charts": []
        if history is None
        else _drawn(plot.over_time(history, history.run_id, page.lang), chart_axes),
    }


def _rate(member: Member, unit: str, lang: Lang) -> str:
    """Write the figure of a run in the unit of its row, or why it has none."""
    if member.rate is not None:
        return formats.rate(member.rate)
    return messages.text(lang, group_words.run_rate(None, member.unverified, unit))


def _links(member: Member, page: Page) -> list[tuple[str, str]]:
    """List the addresses of a run, its files, and the lines that are evidence."""
    files = page.files.get(member.run_id)
    if files is None:
        return []
    base = f"api/v1/runs/{member.run_id}"
    places = [place for reason in member.reasons for place in reason.evidence[:1]]
    shown = dict.fromkeys((f"{p.file}:{p.line}", f"logs/{p.file}") for p in places)
    evidence = [(text, f"{base}/artifacts/{path}") for text, path in shown if path in files]
    return [
        ("run", base),
        *((path, f"{base}/artifacts/{path}") for path in files),
        *evidence,
    ]


def _common(environments: Iterable[list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the facts that all rows share."""
    first, *others = [*environments] or [[]]
    return [fact for fact in first if all(fact in other for other in others)] if others else []


def _environment(group: Group, page: Page, runs: Mapping[str, History]) -> list[tuple[str, str]]:
    """List a row's facts; unknown ones are left out."""
    word = functools.partial(words.name_of_fact, page.lang)
    history = next((runs[m.run_id] for m in group.members if m.run_id in runs), None)
    measured: Measurement | None = None if history is None else history.measured
    key = group.key
    own = ("impl", "variant", "backend", "pool", "image", "data", "training")
    found: dict[str, object] = {
        "set": key.set_name,
        "began": times.minute(group.began[0]) if group.dates else None,
        **{name: getattr(key, name) for name in own},
        "device": group.device or group.facts.device,
        "GPU model": key.gpu_model,
        "data digest": key.data_digest,
        "start weights": group.training and group.training.weights,
        "weights' digest": key.weights_digest,
        "measured window" if group.planned is None else "planned window": group.window,
        "estimator": group.estimator,
        # A table with these has no room for what it is about.
        **columns.gpu_figures(group),
        **(measured.environment if measured is not None else {}),
    }
    if found.get("gpu_model") == key.gpu_model:
        del found["gpu_model"]
    return [
        (word(name), clean(str(value)))
        for name, value in found.items()
        if value not in (None, "", "-", "unknown")
    ]


@functools.cache
def _script() -> str:
    """Return the script without its comments and indentation."""
    text = importlib.resources.files(__package__).joinpath("page.js").read_text("utf-8")
    lines = [line.strip() for line in text.splitlines()]
    code = (line for line in lines if not line.startswith("//"))
    return "".join(line if line.endswith((";", "{", ",", "(")) else f"{line}\n" for line in code)


@functools.cache
def _template() -> jinja2.Template:
    text = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    for name in _OPTIONAL:
        text = text.replace(f"</{name}>\n", "").replace(f"</{name}>", "")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
