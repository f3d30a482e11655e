"""Tables of results: throughput, trainings, Paddle beside PyTorch.

The default table fits 80 columns, a line for each row: name, figure and verdict. Values common to
all rows stand once above it. If two rows would look the same, it also has the column in which they
differ. ``wide`` has all columns of :mod:`.columns`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from k8sbench.messages import Note, chain, few, note
from k8sbench.model import titles
from k8sbench.model.group import Group, Parity, Result
from k8sbench.model.plain_text import ABSENT
from k8sbench.results.report import columns, formats, group_words
from k8sbench.results.report.columns import COLUMNS, Form, ResultColumn
from k8sbench.results.report.noted_tables import Cell, Table, absent
from k8sbench.results.report.words import english

USUAL = "time_weighted"
"""Estimator of rows that name none."""
MOST_NAMED = 5
"""Cases that a line below a table names."""


def tables(
    results: Sequence[Result], parities: Sequence[Parity], form: Form = "table"
) -> list[Table]:
    """Lay out throughput rows, training rows and Paddle : PyTorch rows."""
    made = []
    for trained in (False, True):
        some = [result for result in results if columns.trains(result) is trained]
        if some:
            is_named = trained and len(some) < len(results)
            title = titles.title("Trained to an accuracy") if is_named else None
            made.append(_results(title, some, form))
    if parities:
        made.append(_parities(parities, form))
    return made


def _results(title: Note | None, results: Sequence[Result], form: Form) -> Table:
    shown = _shown(results, form)
    units = group_words.units(result.group for result in results)
    unit = next(iter(units)) if len(units) == 1 else None
    names = [column.title for column in shown]

    def cell(column: ResultColumn, result: Result) -> Cell:
        """Write a cell; the throughput has notes that no heading or line gives."""
        made = column.cell(result)
        group = result.group
        if column.title != "throughput" or made.is_empty:
            return made
        if form != "table":
            return made if unit else Cell(f"{made.text} {group.unit}", made.notes)
        other = (
            () if group.estimator == USUAL else (note("by-estimator", estimator=group.estimator),)
        )
        return Cell(made.text, (*made.notes, *other))

    rows = tuple(tuple(cell(column, result) for column in shown) for result in results)
    notes = list[Note]()
    if form == "table" and len(units) > 1:
        listed = chain("and-then", units.values())
        notes.append(note("named-value", name=titles.title("throughput"), value=listed))
    if "interval" in names and not all(row[names.index("interval")].is_empty for row in rows):
        notes.append(note("interval-of-one-set", title=titles.title("interval")))
    fastest = [r.group for r in results if r.fastest_batch_size == r.group.key.batch_size]
    cases = group_words.names(fastest, group_words.with_models(r.group for r in results))
    by_size: dict[int | float, list[str]] = {}
    for group in fastest:
        by_size.setdefault(group.key.batch_size, []).append(cases[group.key.id])
    for size, its in by_size.items():
        notes.append(note("fastest-batch", cases=few(its, MOST_NAMED), batch=f"{size:g}"))
    if form == "table" and "speedup" not in names:
        # One GPU alone is not expected to scale, and a functional test has its own note.
        several = (
            r
            for r in results
            if r.group.spread and r.group.facts.world_size != 1 and not r.group.smoke
        )
        why = dict.fromkeys(r.speedup.reason for r in several)
        notes += [note("no-speedup", title=titles.title("speedup"), why=one) for one in why if one]
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
        rows, {c.title: [english(c.cell(result).text) for result in results] for c in others}
    )
    return [c for c in COLUMNS if c in shown or (c.tells_apart and c.title in told)]


def _titled(column: ResultColumn, unit: str | None, form: Form) -> ResultColumn:
    """Add the unit to the title; other forms have a column for it."""
    heading = column.heading
    if column.title == "throughput" and unit is not None:
        has_word = form in ("document", "report", "page")
        heading = note("title-throughput-of" if has_word else "title-unit", unit=unit)
    optional = column.optional if form == "table" else 0
    return msgspec.structs.replace(column, heading=heading, optional=optional)


# Paddle : PyTorch


def _parities(pairs: Sequence[Parity], form: Form) -> Table:
    units = dict.fromkeys(pair.paddle.unit for pair in pairs)
    shown = [column for column in _PARITY if form in column.forms]
    return Table(
        title=note("title-paddle-beside-pytorch", units=tuple(units)),
        columns=tuple(shown),
        rows=tuple(tuple(column.cell(pair) for column in shown) for pair in pairs),
    )


def _ratio(pair: Parity) -> Cell:
    """Write the ratio, or the reasons against one; with other differences."""
    if pair.ratio is not None:
        return Cell(formats.rate(pair.ratio), pair.notes)
    why = formats.unlike(pair.not_comparable)
    if pair.notes:
        return absent(note("not-comparable-with", why=why, notes=pair.notes))
    return absent(note("not-comparable-why", why=why))


def _both(write: Callable[[Group], str]) -> Callable[[Parity], Cell]:
    """Write the values of both sides, or one value if equal."""

    def cell(pair: Parity) -> Cell:
        return Cell(" : ".join(dict.fromkeys((write(pair.paddle), write(pair.pytorch)))))

    return cell


def _rate(group: Group) -> Cell:
    if group.spread is None:
        state = group_words.state_of(group.state)
        return absent(note("framework-state", framework=str(group.key.framework), state=state))
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
