"""The head of the page: what somebody should look at, and what the newest two nights show."""

from __future__ import annotations

import collections
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench import messages
from k8sbench.messages import Note, chain, note
from k8sbench.model.compared import Compared, Comparison
from k8sbench.model.group import Result
from k8sbench.results.report import (
    compared_words,
    formats,
    group_words,
    next_commands,
    plot,
    words,
)
from k8sbench.results.report.attention import Finding, Noted
from k8sbench.results.report.page_content import Page, case_id, dated, dates_of, unbroken
from k8sbench.results.report.time_axis import TimeAxis


def _states(results: Sequence[Result]) -> list[Note]:
    """Count valid rows; smoke runs are not valid."""
    valid = group_words.state_of("valid")
    states = collections.Counter(group_words.state(result.group) for result in results)
    counts = [(state, count) for state, count in states.most_common() if state != valid]
    return [
        note("rows-valid", valid=states[valid], rows=len(results)),
        *(note("count-rows", number=count, state=state) for state, count in counts),
    ]


def lead(page: Page) -> str:
    """Count the rows by state; say that the valid ones have no verdict."""
    blank = [note("blank_is_valid")] if page.results else []
    parts = chain("and-then", [*_states(page.results), *blank])
    return words.say(page.lang, "sentence", text=parts)


def first(page: Page, noted: Sequence[Noted]) -> str:
    """Count the findings; say if there are none."""
    if not page.results:
        return ""
    if not noted:
        return words.say(page.lang, "nothing_to_report")
    counts = collections.Counter(finding.label for one in noted for finding in one.findings)
    parts = (note("count-findings", number=n, label=label) for label, n in counts.items())
    return words.say(page.lang, "sentence", text=chain("and-clause", parts))


def since(page: Page, noted: Sequence[Noted]) -> str:
    """Say what the comparison of the newest two nights shows; empty without rows.

    A case that its series calls changed since the newest night is not counted as without a change.
    """
    compared = page.compared
    if compared is None:
        return words.say(page.lang, "nothing_to_compare") if page.results else ""
    _, newest = compared.sets
    named = [
        one.compared for one in noted if any(finding.since in newest for finding in one.findings)
    ]
    loud = ("faster", "slower")
    counted_cases = [one for one in compared.cases if one.finding in loud or one not in named]
    if not counted_cases:
        return ""
    counts = compared_words.counts(msgspec.structs.replace(compared, cases=tuple(counted_cases)))
    parts = chain("and-clause", counts)
    dates = dates_of(page)
    a, b = (dated(name, dates) for name in _nights(compared))
    return words.say(page.lang, "changed", a=a, b=b, parts=parts)


def _nights(compared: Comparison) -> list[str]:
    """Name the two nights: one of a single set by that, another by its day."""
    nights = zip((compared.a, compared.b), compared.sets, compared.nights, strict=True)
    return [name if name in sets else f"{day} UTC" for name, sets, day in nights]


def laid_out(
    page: Page, noted: Sequence[Noted], axes: Mapping[str, TimeAxis], ids: Mapping[str, str]
) -> dict[str, Any]:
    """Lay out the findings: a case, what it is, its figures, its sets as a small line, commands."""
    word = functools.partial(words.name_of_fact, page.lang)
    groups = [one.group for one in page.series]
    names = group_words.names(groups, group_words.with_models(groups))
    dates = dates_of(page)
    a, b = ("", "") if page.compared is None else _nights(page.compared)
    columns: dict[str, Callable[[Noted], str]] = {
        word("change"): lambda one: (
            "" if one.change is None else formats.signed_percent(one.change)
        ),
        words.say(page.lang, "from_to", a=a, b=b): lambda one: _between(one.compared),
        word("since"): lambda one: one.findings[0].since,
        word("set"): lambda one: one.set_name,
    }
    # A column without any figure would have an empty head, or say nothing.
    columns = {title: cell for title, cell in columns.items() if any(map(cell, noted))}
    heights = _heights(noted)
    rows: list[dict[str, Any]] = []
    for one in noted:
        key = one.series.group.key
        of_case = (point.group.key.id for point in reversed(one.series.points))
        rows.append(
            {
                "row": next((ids[name] for name in of_case if name in ids), ""),
                "id": case_id(one.series.group),
                "name": names[key.id],
                "findings": [
                    (_colour(finding), *_worded(page, finding, is_first=not number, dates=dates))
                    for number, finding in enumerate(one.findings)
                ],
                "cells": [
                    (unbroken(cell(one)), dates.get(cell(one), "")) for cell in columns.values()
                ],
                "svg": plot.sparkline(one.series, axes[key.benchmark], heights, page.lang),
                "commands": [*next_commands.of_noted(one)],
            }
        )
    titles = [word("case"), word("finding"), *columns]
    if has_lines := any(row["svg"] for row in rows):
        low, high = (formats.signed_percent(height) for height in heights)
        titles.append(words.say(page.lang, "sparklines", low=low, high=high))
    return {"columns": titles, "rows": rows, "has_lines": has_lines}


def _worded(
    page: Page, finding: Finding, *, is_first: bool, dates: Mapping[str, str]
) -> tuple[str, str]:
    """Write a finding's label and what stands behind it; the table has the first one's begin."""
    parts = [*finding.words]
    if finding.since and not is_first:
        parts.append(note("since_set", name=dated(finding.since, dates)))
    behind = messages.written(page.lang, chain("and-clause", parts)) if parts else ""
    return messages.text(page.lang, finding.label), behind


def _heights(noted: Sequence[Noted]) -> tuple[float, float]:
    """Return the ends of the scale that all small lines share: figure ÷ median of its case − 1."""
    shares = [0.0]
    for one in noted:
        rates = [point.group.spread.median for point in one.series.points if point.group.spread]
        shares += [rate / statistics.median(rates) - 1 for rate in rates]
    return min(shares), max(shares)


def _between(case: Compared | None) -> str:
    """Write the change between the two nights that are compared; empty without one."""
    if case is None or case.ratio is None:
        return ""
    change = formats.signed_percent(case.ratio - 1)
    return change if case.low is None else f"{change} ({compared_words.interval(case)})"


def _colour(finding: Finding) -> str:
    """Return the colour of a finding: what is over, or of no direction, has none."""
    if finding.kind in ("back", "closed", "alternating"):
        return "soft"
    if finding.kind in ("missing", "unjudged"):
        return "warn"
    return "faster" if (finding.change or 0.0) > 0 else "slower"
