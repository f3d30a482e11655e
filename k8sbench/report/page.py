"""``results -o html``: one file with tables, charts, environment, verdicts and commands.

It needs nothing from elsewhere and has no script. The template escapes all text; only the charts,
which escape their own, go in as they are.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import jinja2
import msgspec

from k8sbench.model import extras
from k8sbench.model.counts import ABSENT
from k8sbench.model.group import Group, Member, Parity, Result
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import clean_lines
from k8sbench.model.plan import RunPlan
from k8sbench.report import chinese, command, group_words, layout, numbers, plot
from k8sbench.report.plot import History, Panel
from k8sbench.report.tables import Table, numbered, said_once, unique

SHORT = 28
"""Characters of a cell that is not broken."""
MOST_OPEN = 20
"""Rows whose details are open; of more each opens at a click, so that the page can be scrolled."""


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
    tables = layout.tables(page.results, page.parities, "document")
    tables = chinese.translated(tables) if page.lang == "zh" else tables
    tables = list(map(said_once, tables))
    word: Callable[[str], str] = chinese.title if page.lang == "zh" else str
    notes = numbered(tables)
    names = plot.labels([result.group for result in page.results])
    runs = {history.run_id: history for history in page.histories}
    text = _template().render(
        lang="zh-CN" if page.lang == "zh" else "en",
        word=word,
        where=page.where,
        at=datetime.fromtimestamp(page.at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=page.version,
        tables=[_cells(table, notes) for table in tables if table.rows],
        notes=[(number, note) for note, number in notes.items()],
        bars=_drawn(plot.bars(page.results, _bar_words)),
        scaling=_drawn(plot.scaling(page.results, word)),
        no_charts="" if plot.is_there() else extras.how_to_install("report"),
        are_open=len(page.results) <= MOST_OPEN,
        rows=[
            _row(result.group, names[result.group.key.id], runs, word) for result in page.results
        ],
    )
    return clean_lines(text)


@functools.cache
def _template() -> jinja2.Template:
    text = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


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
                for text in (cell.text,)
            ]
            for row in table.rows
        ],
    }


def _drawn(panels: Sequence[Panel]) -> list[tuple[str, str]]:
    """Draw charts; none without matplotlib, of which the page says that it is missing."""
    return [(panel.title, plot.of_page(panel)) for panel in panels] if plot.is_there() else []


def _bar_words(group: Group) -> str:
    if group.spread is None:
        return group_words.no_figure(group)
    smoke = "; smoke" if group.smoke else ""
    return f"{numbers.rate(group.spread.median)} ({group.counted}/{len(group.members)}){smoke}"


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
        "charts": [] if history is None else _drawn(plot.over_time(history, word)),
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
