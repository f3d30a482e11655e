"""``results -o html``: one file with tables, charts, environment and commands.

It loads nothing else. Its one script filters and sorts rows. The template escapes all text; only
the charts, which escape their own, are inserted unescaped.
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

from k8sbench.model import extras
from k8sbench.model.compared import Comparison
from k8sbench.model.counts import counted
from k8sbench.model.group import Group, Parity, Result
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import clean_lines
from k8sbench.report import columns, comparing, formats, group_words, layout, plot, words
from k8sbench.report.plot import History, Panel
from k8sbench.report.tables import Table, captioned, causes, without


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a page."""

    results: Sequence[Result]
    parities: Sequence[Parity] = ()
    histories: Sequence[History] = ()
    """Histories, at most one run per row."""
    compared: Comparison | None = None
    """Comparison of the newest two sets; None if they have no common case."""
    where: str
    """Store of the rows."""
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
    runs = {history.run_id: history for history in page.histories}
    by_age = sorted((result.group for result in page.results), key=lambda group: group.began[1])
    newest = {group.key.only("series"): group.key.id for group in by_age}.values()
    names: dict[str, str] = {}
    sections: dict[str, dict[str, Any]] = {}
    for benchmark in dict.fromkeys(result.group.key.benchmark for result in page.results):
        results = [r for r in page.results if r.group.key.benchmark == benchmark]
        names |= plot.labels([result.group for result in results])
        parities = [p for p in page.parities if p.paddle.key.benchmark == benchmark]
        tables = [
            without(
                table, [n for n, c in enumerate(table.columns) if c.title in (*columns.GPU, "GPUs")]
            )
            for table in layout.tables(results, parities, "document")
        ]
        # In the order of the tables: rows that measure throughput, then rows that train.
        order = [result.group for result in sorted(results, key=columns.trains)]
        # Of many sets, what opens below the rows would be most of the page.
        details = iter(
            _row(group, runs, page.lang)
            if group.key.id in newest or any(member.run_id in runs for member in group.members)
            else None
            for group in order
        )
        sections[benchmark] = {
            "tables": [
                _table(table, [next(details, None) for _ in table.rows])
                for table in (words.translated(tables) if page.lang == "zh" else tables)
            ],
            "scaling": _drawn(plot.scaling(results, page.lang)),
        }
    script = importlib.resources.files(__package__).joinpath("page.js").read_text("utf-8")
    text = _template().render(
        lang="zh-CN" if page.lang == "zh" else "en",
        word=word,
        title=page.title or f"k8sbench: {word('Results')}",
        where=page.where,
        at=datetime.fromtimestamp(page.at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=page.version,
        sentence="; ".join(words.phrase(page.lang, part) for part in _lead(page.results, names))
        + ("。" if page.lang == "zh" else "."),
        head=[(word(name), value) for name, value in _head(page)],
        compared=page.compared,
        summary=page.compared and comparing.summary(page.compared, advises=False),
        sections=sections,
        no_charts="" if plot.is_there() else extras.how_to_install("report"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return clean_lines(text)


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
        "dates": _dates(groups),
    }
    return [(name, value) for name, value in facts.items() if value]


def _version(text: str) -> str:
    """Mark the version of Paddle's development builds."""
    return f"{text} (a development build)" if text == "0.0.0" else text


def _dates(groups: Iterable[Group]) -> str:
    """Write the days of the runs; logs without dates have none."""
    known = [group.dates for group in groups]
    days = formats.days(at for dates in known if dates for at in dates)
    return ", ".join(filter(None, (days, "not stated" if None in known else "")))


def _lead(results: Sequence[Result], names: Mapping[str, str]) -> list[str]:
    """Count valid rows and changes; smoke runs are not valid."""
    states = collections.Counter(group_words.state(result.group) for result in results)
    counts = [f"{count} {state}" for state, count in states.most_common() if state != "valid"]
    parts = [f"{states['valid']} of {counted(len(results), 'row')} valid", *counts]
    for result in results:
        if (changed := result.changed) is not None:
            name = f"{result.group.key.benchmark} {names[result.group.key.id]}"
            change = formats.signed_percent(changed.ratio)
            parts.append(f"{name}: {change} since {changed.since}")
    return parts


@functools.cache
def _template() -> jinja2.Template:
    text = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


def _table(table: Table, details: Sequence[Any]) -> dict[str, Any]:
    """Lay out a table: caption, rows, and the details below each row."""
    caption, places = captioned(msgspec.structs.replace(table, captioned=True))
    marks, below = causes(table)
    # No line begins with the sign of a share.
    texts = [[row[n].text.replace(" %", "\u00a0%") for n in places] for row in table.rows]
    for row, mark in zip(texts, marks, strict=True):
        row[-1] += mark
    cells = [[(text, _kind(text)) for text in row] for row in texts]
    return {
        "title": table.title,
        "caption": caption,
        "columns": [table.columns[n] for n in places],
        "rows": list(zip(cells, details, strict=True)),
        "below": below,
    }


def _kind(text: str) -> str:
    """Name the class of a cell that shows a change."""
    return "slower" if "◀ −" in text else "faster" if "◀ +" in text else ""


def _drawn(panels: Sequence[Panel]) -> list[str]:
    """Draw charts; empty without matplotlib, which the page mentions."""
    return list(map(plot.of_page, panels)) if plot.is_there() else []


def _row(group: Group, runs: dict[str, History], lang: str) -> dict[str, Any]:
    word: Callable[[str], str] = words.title if lang == "zh" else str
    phrase = functools.partial(words.phrase, lang)
    ids = [member.run_id for member in group.members]
    history = next((runs[run_id] for run_id in ids if run_id in runs), None)
    reasons = [
        (kind, phrase(kind), words.note(lang, text))
        for kind in ("reject", "warn", "accepted")
        for text in group_words.reasons(group, kind)
    ]
    return {
        "state": group.state,
        "state_word": phrase(group.state),
        "marks": list(map(phrase, group_words.marks(group))),
        "reasons": reasons,
        "judgements": list(map(phrase, group.judgements)),
        "environment": [
            (word(name), value)
            for name, value in _environment(group, None if history is None else history.measured)
        ],
        "command": group_words.command(group.plan, len(group.members)),
        "runs": [
            (
                member.run_id,
                phrase(group_words.run_rate(member.rate, member.unverified, group.unit)),
                phrase(member.verdict or member.phase),
            )
            for member in group.members
        ],
        "charts": [] if history is None else _drawn(plot.over_time(history, lang)),
    }


def _environment(group: Group, measured: Measurement | None) -> list[tuple[str, str]]:
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
        (name, str(value))
        for name, value in found.items()
        if value not in (None, "", "-", "unknown")
    ]
