"""``results -o html``: the page that a team opens in the morning.

First what changed since the last set, then each benchmark with charts and rows; notes, environment
and commands unfold. It is one file that loads nothing else. Its one script unfolds, filters and
sorts. The template escapes all text; only the charts, which escape their own, are inserted as they
are.
"""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import importlib.resources
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jinja2
import msgspec

from k8sbench.model.compared import CaseHistory, Comparison
from k8sbench.model.group import Group, Member, Parity, Result
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import clean, clean_lines, counted
from k8sbench.report import chart, columns, comparing, formats, group_words, layout, plot, words
from k8sbench.report.plot import History
from k8sbench.report.tables import Table, captioned, causes, state_of

MOST_CHARTS = 8
"""Maximum charts over sets: changed cases, then the newest."""
MOST_BARS = 20
"""Newest rows of a benchmark with a bar."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a page."""

    results: Sequence[Result]
    parities: Sequence[Parity] = ()
    histories: Sequence[History] = ()
    """Histories, at most one run per row."""
    series: Sequence[CaseHistory] = ()
    """The cases of the rows over their sets."""
    compared: Comparison | None = None
    """Comparison of the newest two sets; None if they have no common case."""
    files: Mapping[str, Sequence[str]] = {}
    """Run id → its files, which the operator serves; empty: no links."""
    at: float
    """Time of creation, Unix seconds."""
    version: str
    """Version of k8sbench."""
    lang: str = "en"
    """``en`` or ``zh``."""
    title: str | None = None
    """Title; None: the default title."""


def html(page: Page) -> str:
    """Write the page."""
    word: Callable[[str], str] = words.title if page.lang == "zh" else str
    script = importlib.resources.files(__package__).joinpath("page.js").read_text("utf-8")
    end = "。" if page.lang == "zh" else "."
    text = _template().render(
        lang="zh-CN" if page.lang == "zh" else "en",
        word=word,
        colours=(chart.css(), chart.css(is_dark=True)),
        title=page.title or f"k8sbench: {word('Results')}",
        at=datetime.fromtimestamp(page.at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=page.version,
        lead="; ".join(words.phrase(page.lang, part) for part in _states(page.results)) + end,
        since=_since(page),
        changes=_changes(page),
        head=[(word(name), value) for name, value in _head(page)],
        method=_method(page),
        sections={name: _section(page, name) for name in _benchmarks(page)},
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return clean_lines(text)


def _benchmarks(page: Page) -> Iterable[str]:
    return dict.fromkeys(result.group.key.benchmark for result in page.results)


# What changed


def _states(results: Sequence[Result]) -> list[str]:
    """Count valid rows; smoke runs are not valid."""
    states = collections.Counter(group_words.state(result.group) for result in results)
    counts = [f"{count} {state}" for state, count in states.most_common() if state != "valid"]
    return [f"{states['valid']} of {counted(len(results), 'row')} valid", *counts]


def _since(page: Page) -> str:
    """Say what changed between the newest two sets; empty without rows."""
    if page.compared is None:
        return words.say(page.lang, "nothing_to_compare") if page.results else ""
    some = [words.phrase(page.lang, part) for part in comparing.counts(page.compared)]
    parts = ("，" if page.lang == "zh" else ", ").join(some)
    return words.say(page.lang, "changed", a=page.compared.a, b=page.compared.b, parts=parts)


def _changes(page: Page) -> list[dict[str, str]]:
    """List the changed cases of the newest sets, then steps of other rows."""
    shown = {result.group.key.id for result in page.results}
    found: dict[str, dict[str, str]] = {}

    def add(group: Group, name: str, ratio: float, text: str) -> None:
        key = group.key.id if group.key.id in shown else ""
        kind = "faster" if ratio > 0 else "slower"
        found.setdefault(group.key.id, {"row": key, "name": name, "kind": kind, "change": text})

    for case, name in comparing.changed(page.compared) if page.compared else ():
        ratio = (case.ratio or 1.0) - 1
        text = f"{formats.signed_percent(ratio)} ({comparing.interval(case)})"
        add(case.group, name, ratio, text)
    names = plot.labels([result.group for result in page.results])
    for result in page.results:
        if (one := result.changed) is not None:
            name = f"{result.group.key.benchmark} {names[result.group.key.id]}"
            end = "" if one.kind == "step" else f" ({one.kind})"
            text = f"{formats.signed_percent(one.ratio)} since {one.since}{end}"
            add(result.group, name, one.ratio, words.phrase(page.lang, text))
    return [*found.values()]


# Environment and method


def _head(page: Page) -> list[tuple[str, str]]:
    """Build the head: GPU, driver, framework, image and dates."""
    groups = [result.group for result in page.results]
    runs = [history.measured for history in page.histories if history.measured]
    measured = [run.environment for run in runs]
    versions = [(run.framework, run.environment.get("framework_version")) for run in runs]

    def listed(values: Iterable[object]) -> str:
        return ", ".join(
            str(v) for v in dict.fromkeys(values) if v not in (None, "", "-", "unknown")
        )

    facts = {
        "GPU model": listed(group.key.gpu_model for group in groups),
        "driver": listed(one.get("driver") for one in measured),
        "framework": listed(group.key.framework for group in groups),
        "framework version": listed(
            f"{name or ''} {_version(str(version))}".strip()
            for name, version in versions
            if version
        ),
        "image": listed(group.key.image for group in groups),
        "dates": group_words.dates(groups, "not stated"),
    }
    return [(name, value) for name, value in facts.items() if value]


def _version(text: str) -> str:
    """Mark the version of Paddle's development builds."""
    return f"{text} (a development build)" if text == "0.0.0" else text


def _method(page: Page) -> list[str]:
    """Write how the figures are computed."""
    if not page.results:
        return []
    rules = dict.fromkeys(result.group.estimator for result in page.results)
    of_rules = [
        words.say(page.lang, "estimator", name=rule, what=words.say(page.lang, rule))
        for rule in rules
    ]
    return [words.say(page.lang, "headline"), *of_rules]


# One benchmark


def _section(page: Page, benchmark: str) -> dict[str, Any]:
    """Build a benchmark's part: charts, cases over their sets, rows."""
    results = [r for r in page.results if r.group.key.benchmark == benchmark]
    parities = [p for p in page.parities if p.paddle.key.benchmark == benchmark]
    by_age = sorted((result.group for result in results), key=lambda group: group.began[1])
    newest = {group.key.only("series"): group.key.id for group in by_age}.values()
    runs = {history.run_id: history for history in page.histories}
    # In the order of the tables: rows that measure throughput, then rows that train. Of many sets,
    # what unfolds below the rows would be most of the page.
    order = [result.group for result in sorted(results, key=columns.trains)]
    environments = {
        group.key.id: _environment(group, page, runs)
        for group in order
        if group.key.id in newest or any(member.run_id in runs for member in group.members)
    }
    common = _common(environments.values())
    details = iter(
        _row(group, page, runs, [one for one in environments[group.key.id] if one not in common])
        if group.key.id in environments
        else None
        for group in order
    )
    keys = iter([*(group.key.id for group in order)])
    tables = layout.tables(results, parities, "page")
    latest = sorted((r for r in results if r.group.key.id in newest), key=_age)[:MOST_BARS]
    bars = [r for r in results if r in latest]
    series = sorted((s for s in page.series if s.group.key.benchmark == benchmark), key=_last)
    over_sets = plot.over_sets(series, page.lang)
    return {
        "charts": _drawn([*plot.bars(bars, page.lang), *plot.scaling(results, page.lang)]),
        "over_sets": _drawn(over_sets[:MOST_CHARTS]),
        "more_cases": len(over_sets[MOST_CHARTS:]),
        "environment": common,
        "tables": [
            _table(table, [(next(keys, ""), next(details, None)) for _ in table.rows], page.lang)
            for table in tables
        ],
    }


def _age(result: Result) -> float:
    return -result.group.began[1]


def _last(series: CaseHistory) -> tuple[bool, float]:
    """Return the sort key: a changed case first, then the newest."""
    kinds = {point.mark.kind for point in series.points if point.mark is not None}
    return series.open is None and not kinds & {"step", "drift"}, -series.points[-1].at


def _table(table: Table, rows: Sequence[tuple[str, Any]], lang: str) -> dict[str, Any]:
    """Lay out a table: a row's name in one cell, its figures.

    A name has what differs between the rows; what is common stands above them.
    """
    table = msgspec.structs.replace(table, captioned=True)
    titles = [column.title for column in table.columns]
    states = [row[-1].text for row in table.rows]
    table = words.translated([table])[0] if lang == "zh" else table
    caption, places = captioned(table)
    is_name = [not (column.right or column.states) for column in table.columns]
    of_name = [n for n in places if is_name[n] and titles[n] != "benchmark"]
    figures = [n for n in places if not is_name[n]]
    marks, notes = causes(table)
    made = []
    for row, mark, state, (key, more) in zip(table.rows, marks, states, rows, strict=True):
        made.append(
            {
                "key": key,
                "name": ", ".join(
                    _named(titles[n], table.columns[n].title, row[n].text) for n in of_name
                ),
                # No line begins with the sign of a share.
                "cells": [row[n].text.replace(" %", "\u00a0%") for n in figures],
                "kind": _kind(state),
                "marks": mark,
                "more": more,
            }
        )
    return {
        "title": table.title,
        "caption": caption,
        "columns": [table.columns[n] for n in figures],
        "rows": made,
        "notes": notes,
    }


def _named(title: str, shown: str, text: str) -> str:
    """Write a part of a row's name; a bare number needs its title."""
    return f"{shown} {text}" if title in ("batch", "window", "training") else text


STATES = {
    **dict.fromkeys(("unsteady", "out-of-memory"), "warn"),
    **dict.fromkeys(("rejected", "failed"), "bad"),
    "valid": "good",
}
"""State of a row → its colour."""


def _kind(verdict: str) -> str:
    """Return the colour of a verdict: that of a change, else of the state."""
    if "◀" in verdict:
        return "slower" if "◀ −" in verdict else "faster"
    return STATES.get(state_of(verdict).rstrip(";:"), "soft")


def _drawn(charts: Sequence[chart.Chart]) -> list[str]:
    return list(map(chart.svg, charts))


# What unfolds below a row


def _row(
    group: Group, page: Page, runs: Mapping[str, History], environment: list[tuple[str, str]]
) -> dict[str, Any]:
    phrase = functools.partial(words.phrase, page.lang)
    history = next((runs[m.run_id] for m in group.members if m.run_id in runs), None)
    reasons = [
        (kind, phrase(kind), words.note(page.lang, text))
        for kind in ("reject", "warn", "accepted")
        for text in group_words.reasons(group, kind)
    ]
    return {
        "marks": list(map(phrase, group_words.marks(group))),
        "reasons": reasons,
        "judgements": list(map(phrase, group.judgements)),
        "environment": environment,
        "command": group_words.command(group.plan, len(group.members)),
        "runs": [
            {
                "id": member.run_id,
                "rate": phrase(group_words.run_rate(member.rate, member.unverified, group.unit)),
                "verdict": phrase(member.verdict or member.phase),
                "links": _links(member, page),
            }
            for member in group.members
        ],
        "charts": [] if history is None else _drawn(plot.over_time(history, page.lang)),
    }


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
    word: Callable[[str], str] = words.title if page.lang == "zh" else str
    history = next((runs[m.run_id] for m in group.members if m.run_id in runs), None)
    measured: Measurement | None = None if history is None else history.measured
    plan, key = group.plan, group.key
    own = ("impl", "variant", "backend", "pool", "image", "data", "training")
    found: dict[str, object] = {
        "set": key.set_name,
        **{name: getattr(key, name) for name in own},
        "device": group.device or plan.device,
        "GPU model": key.gpu_model,
        "data digest": key.data_digest,
        "start weights": group.training and group.training.weights,
        "weights' digest": key.weights_digest,
        "measured window" if plan.backend == "imported" else "planned window": group.window,
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
def _template() -> jinja2.Template:
    text = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
