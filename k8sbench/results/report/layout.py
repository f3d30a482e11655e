"""Tables of results: throughput, trainings, Paddle beside PyTorch.

The default table fits 80 columns, a line for each row: name, figure and verdict. Values common to
all rows stand once above it. If two rows would look the same, it also has the column in which they
differ. ``wide`` has all columns of :mod:`.columns`.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence

import msgspec

from k8sbench.model.errors import list_few
from k8sbench.model.group import Group, Parity, Result
from k8sbench.model.plain_text import ABSENT
from k8sbench.results.report import columns, formats, group_words
from k8sbench.results.report.columns import COLUMNS, Form, ResultColumn
from k8sbench.results.report.tables import Cell, Table, absent

OF_ONE_SET = "95 % intervals of the repeats of one set; sets differ more (see `history`)"


def tables(
    results: Sequence[Result], parities: Sequence[Parity], form: Form = "table"
) -> list[Table]:
    """Lay out throughput rows, training rows and Paddle : PyTorch rows."""
    made = []
    for trained in (False, True):
        some = [result for result in results if columns.trains(result) is trained]
        if some:
            title = "Trained to an accuracy" if trained and len(some) < len(results) else None
            made.append(_results(title, some, form))
    if parities:
        made.append(_parities(parities, form))
    return made


def _results(title: str | None, results: Sequence[Result], form: Form) -> Table:
    shown = _shown(results, form)
    units = group_words.units(result.group for result in results)
    unit = next(iter(units)) if len(units) == 1 else None
    usual = statistics.mode(result.group.estimator for result in results)
    names = [column.title for column in shown]

    def cell(column: ResultColumn, result: Result) -> Cell:
        """Write a cell; the throughput has notes that no heading or line gives."""
        made = column.cell(result)
        group = result.group
        if column.title != "throughput" or made.text == ABSENT:
            return made
        if form != "table":
            return made if unit else Cell(f"{made.text} {group.unit}", made.notes)
        other = () if group.estimator == usual else (f"by {group.estimator}",)
        return Cell(made.text, (*made.notes, *other))

    rows = tuple(tuple(cell(column, result) for column in shown) for result in results)
    notes = []
    if "interval" in names and any(row[names.index("interval")].text != ABSENT for row in rows):
        notes.append(f"{'INTERVAL' if form == 'wide' else 'interval'}: {OF_ONE_SET}")
    fastest = [r.group for r in results if r.fastest_batch_size == r.group.key.batch_size]
    cases = group_words.names(fastest, group_words.with_models(r.group for r in results))
    by_size: dict[int | float, list[str]] = {}
    for group in fastest:
        by_size.setdefault(group.key.batch_size, []).append(cases[group.key.id])
    notes += [f"fastest batch per GPU of {list_few(its)}: {size}" for size, its in by_size.items()]
    if form == "table" and "speedup" not in names:
        # One GPU alone is not expected to scale.
        several = (r for r in results if r.group.spread and r.group.facts.world_size != 1)
        why = (r.speedup.reason for r in several)
        notes += [f"no SPEEDUP: {reason}" for reason in dict.fromkeys(why) if reason]
    if form == "table" and any(result.group.spread for result in results):
        notes += [] if unit else [f"THROUGHPUT: {'; '.join(units.values())}"]
        counted = f"= {(unit or 'samples').removesuffix('/s')} ÷ time of its window"
        rule = f"each {counted if usual == 'time_weighted' else f'by {usual}'}"
        notes.append(f"{unit or 'THROUGHPUT'}: median of the valid runs, {rule}")
        notes.append("±: coefficient of variation")
    return Table(
        title=title,
        columns=tuple(_titled(column, unit, form) for column in shown),
        rows=rows,
        notes=tuple(notes),
        captioned=form == "table",
    )


def _shown(results: Sequence[Result], form: Form) -> list[ResultColumn]:
    """Select the columns of the form, and those that distinguish rows."""
    has_models = group_words.has_several_models(result.group for result in results)
    shown = [
        c
        for c in COLUMNS
        if (form in c.forms and c.when(results, form)) or (c.title == "GPU model" and has_models)
    ]
    identity = [c for c in shown if not (c.right or c.states)]
    rows = [tuple(c.cell(result).text for c in identity) for result in results]
    others = (c for c in COLUMNS if c.tells_apart and c not in shown)
    told = group_words.telling(
        rows, {c.title: [c.cell(result).text for result in results] for c in others}
    )
    return [c for c in COLUMNS if c in shown or (c.tells_apart and c.title in told)]


def _titled(column: ResultColumn, unit: str | None, form: Form) -> ResultColumn:
    """Add the unit to the title; other forms have a column for it."""
    title = column.title
    if title == "throughput" and unit is not None:
        title = f"throughput ({unit})" if form in ("document", "report", "page") else unit
    optional = column.optional if form == "table" else 0
    return msgspec.structs.replace(column, title=title, optional=optional)


# Paddle : PyTorch


def _parities(pairs: Sequence[Parity], form: Form) -> Table:
    units = dict.fromkeys(pair.paddle.unit for pair in pairs)
    shown = [column for column in _PARITY if form in column.forms]
    return Table(
        title=f"Paddle : PyTorch ({', '.join(units)})",
        columns=tuple(shown),
        rows=tuple(tuple(column.cell(pair) for column in shown) for pair in pairs),
    )


def _ratio(pair: Parity) -> Cell:
    """Write the ratio, or the reasons against one; with other differences."""
    if pair.ratio is not None:
        return Cell(formats.rate(pair.ratio), pair.notes)
    notes = f" ({', '.join(pair.notes)})" if pair.notes else ""
    return absent(f"not comparable: {formats.unlike(pair.not_comparable)}{notes}")


def _both(write: Callable[[Group], str]) -> Callable[[Parity], Cell]:
    """Write the values of both sides, or one value if equal."""

    def cell(pair: Parity) -> Cell:
        return Cell(" : ".join(dict.fromkeys((write(pair.paddle), write(pair.pytorch)))))

    return cell


def _rate(group: Group) -> Cell:
    if group.spread is None:
        return absent(f"{group.key.framework}: {group.state}")
    return Cell(formats.rate(group.spread.median))


def _parameters(group: Group) -> str:
    return ABSENT if group.parameters is None else formats.millions(group.parameters)


_text = functools.partial(columns.text, stays=True)
_number = functools.partial(columns.number, stays=True)
_PARITY: tuple[ResultColumn, ...] = (
    _text("benchmark", lambda pair: Cell(pair.paddle.key.benchmark)),
    _text("case", lambda pair: Cell(pair.paddle.key.case)),
    _text("precision", lambda pair: Cell(pair.paddle.key.precision)),
    _number("batch", _both(lambda group: str(group.key.batch_size)), *columns.FULL),
    _number("Paddle", lambda pair: _rate(pair.paddle)),
    _number("PyTorch", lambda pair: _rate(pair.pytorch)),
    _text("estimator", _both(lambda group: group.estimator), *columns.FULL),
    _text("parameters", _both(_parameters), *columns.FULL),
    _number("Paddle ÷ PyTorch", _ratio),
)
"""Columns of Paddle beside PyTorch; titles of other tables are translated as there."""
