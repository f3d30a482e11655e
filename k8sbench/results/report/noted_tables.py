"""Tables whose cells have notes, as plain text or Markdown.

A cell is a text with notes: why it has no figure, or what a reader must know. The notes follow the
table, each once with the number of rows. Rows have the number of a note that not all rows have. No
figure is broken or cut.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from k8sbench import messages
from k8sbench.messages import Arg, Lang, Note, note
from k8sbench.model.plain_text import ABSENT, clean
from k8sbench.results.report.tables import Column, Paint, fitted, laid_out, wrapped

MOST_NOTES = 10
"""Maximum lines of notes on rows below a plain table; k8sbench explain has the rest."""


class Footnote(msgspec.Struct, frozen=True, kw_only=True):
    """A note with its head, and the runs of a reason."""

    said: Note
    head: str | Note | None = None
    """Id of a reason, or the word in the cell that the note explains; None: the column's title."""
    runs: tuple[str, ...] = ()
    """Runs of a reason; none of a reason of the whole row."""

    @property
    def is_reason(self) -> bool:
        """True if its head is an id, which users type."""
        return isinstance(self.head, str)


class Cell(msgspec.Struct, frozen=True):
    """The text of a cell, and its notes."""

    text: str | Note | tuple[Note, ...]
    notes: tuple[Note | Footnote, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the cell has no figure."""
        return self.text == ABSENT


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a title."""

    title: str | Note | None
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str | Note, ...] = ()
    """Lines below the rows, on all of them."""
    captioned: bool = False
    """True if values common to all rows stand above a plain table."""
    complete: str = "-o wide"
    """Format that has the columns without room."""


class Line(NamedTuple):
    """A line below a table."""

    number: int | None
    """Number at the rows that it is of; None: it is of all rows."""
    text: str

    @property
    def numbered(self) -> str:
        """The text behind its number."""
        return self.text if self.number is None else f"[{self.number}] {self.text}"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A table in a language."""

    title: str
    """Empty without one."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[tuple[int, ...], ...]
    """Numbers of the notes of each row."""
    lines: tuple[Line, ...]
    """Lines below the table."""


def absent(reason: Note | None, *more: Note | Footnote) -> Cell:
    """Make a cell without a value, with the reason."""
    return Cell(ABSENT, (reason or note("not-measured-figure"), *more))


def text(
    tables: Sequence[Table],
    *,
    lang: Lang = "en",
    width: int | None = None,
    paint: Paint | None = None,
) -> str:
    """Write tables and notes as plain text; ``width`` None has no limit.

    ``paint`` colours the columns of states.
    """
    return "\n".join(_text(table, lang, width, paint) for table in tables if table.rows)


def _text(
    table: Table,
    lang: Lang,
    width: int | None,
    paint: Paint | None,
    out: tuple[str, ...] | None = None,
) -> str:
    """Write one table; ``out`` has the titles of dropped columns."""
    # A single row has a caption only where it does not fit without.
    is_alone = len(table.rows) == 1 and out is None
    caption, places = ("", [*range(len(table.columns))]) if is_alone else captioned(table, lang)
    made = written(table, lang, most=MOST_NOTES, write_title=_capitals)
    below = [line.numbered for line in made.lines]
    rows = [[row[n] for n in places] for row in made.rows]
    for cells, marks in zip(rows, made.marks, strict=True):
        cells[-1] += _marks(marks)
    columns = [made.columns[n] for n in places]
    fit = fitted(columns, rows, width)
    if is_alone and len(fit.kept) < len(columns):
        return _text(table, lang, width, paint, ())
    if len(fit.kept) < len(columns):
        gone = [n for n in range(len(columns)) if n not in fit.kept]
        out = (*(out or ()), *(columns[n].title for n in gone))
        return _text(without(table, [places[n] for n in gone]), lang, width, paint, out)
    if out and width is not None:
        no_room = note("no-room", columns=out, width=width, format=table.complete)
        below.append(messages.text(lang, no_room))
    lines = "".join(wrapped(line, width, indent="    ") + "\n" for line in below)
    return (
        (wrapped(made.title, width, indent="  ") + "\n" if made.title else "")
        + (wrapped(caption, width, indent="  ") + "\n" if caption else "")
        + laid_out(columns, rows, fit, paint)
        + (f"\n{lines}" if lines else "")
    )


def _marks(numbers: Sequence[int]) -> str:
    """Write the numbers of a row's notes: `` [1,3]``."""
    return f" [{','.join(map(str, numbers))}]" if numbers else ""


def without(table: Table, gone: Sequence[int]) -> Table:
    """Drop columns with their notes."""
    kept = [n for n in range(len(table.columns)) if n not in gone]
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in table.rows),
    )


def captioned(table: Table, lang: Lang = "en") -> tuple[str, list[int]]:
    """Write the values common to all rows; return the remaining columns."""
    places = range(len(table.columns))
    if not table.captioned:
        return "", list(places)
    texts = [[row[n].text for row in table.rows] for n in places]
    once = [n for n in places if all(one == ABSENT for one in texts[n])] + [
        n
        for n in places
        if all(one == texts[n][0] for one in texts[n])
        and texts[n][0] != ABSENT
        and not table.columns[n].stays
    ]
    # Why a column has no value at all stands below the table.
    words = (
        clean(messages.text(lang, _caption(table.columns[n], texts[n][0])))
        for n in once
        if texts[n][0] != ABSENT
    )
    return " · ".join(words), [n for n in places if n not in once]


def _caption(column: Column, value: Arg) -> Note:
    return note("named-value", name=_heading(column), value=value)


def _title(column: Column, lang: Lang) -> str:
    return messages.written(lang, _heading(column))


def _heading(column: Column) -> str | Note:
    return column.title if column.heading is None else column.heading


def _capitals(title: str) -> str:
    """Write a title in capitals, as kubectl does, except for units."""
    words = (word if "/" in word or word[:1] == "(" else word.upper() for word in title.split(" "))
    return " ".join(words)


def _as_it_is(title: str) -> str:
    return title


def written(
    table: Table,
    lang: Lang,
    *,
    most: int | None = None,
    write_title: Callable[[str], str] = _as_it_is,
) -> Written:
    """Write a table in a language; ``most`` is the maximum of lines of notes on rows."""
    titles = [write_title(_title(column, lang)) for column in table.columns]
    footnotes = _footnotes(table, titles)
    # Those that say why a cell is empty come last.
    footnotes.sort(key=lambda one: one.is_of_gap)
    left_out = 0
    if most is not None and len(footnotes) > most:
        left_out = len(footnotes) - most + 1
        footnotes = footnotes[: most - 1]
    some = [one for one in footnotes if len(one.rows) < len(table.rows)]
    rest = [one for one in footnotes if len(one.rows) == len(table.rows)]
    lines = [
        *(Line(number, _line(one, table, lang)) for number, one in enumerate(some, 1)),
        *(Line(None, _line(one, table, lang)) for one in rest),
    ]
    if left_out:
        lines.append(Line(None, messages.text(lang, note("more-notes", number=left_out))))
    lines += [Line(None, clean(messages.written(lang, one))) for one in table.notes]
    return Written(
        title=clean(messages.written(lang, table.title)) if table.title else "",
        columns=tuple(
            msgspec.structs.replace(column, title=title)
            for column, title in zip(table.columns, titles, strict=True)
        ),
        rows=tuple(
            tuple(clean(messages.written(lang, cell.text)) for cell in row) for row in table.rows
        ),
        marks=tuple(
            tuple(number for number, one in enumerate(some, 1) if place in one.rows)
            for place in range(len(table.rows))
        ),
        lines=tuple(lines),
    )


class _Found(msgspec.Struct):
    """A footnote of some rows of a table."""

    footnote: Footnote
    is_of_gap: bool
    """True if it tells why a cell is empty."""
    titles: list[str] = []
    """Titles of its columns."""
    rows: list[int] = []
    """Places of the rows."""


def _footnotes(table: Table, titles: Sequence[str]) -> list[_Found]:
    """Collect the footnotes of a table, each once with its rows, in the order of the cells."""
    found: dict[tuple[str | Note | None, Note], _Found] = {}
    merged = _merged(one for row in table.rows for cell in row for one in _notes_of(cell))
    for place, row in enumerate(table.rows):
        for title, cell in zip(titles, row, strict=True):
            for one in _notes_of(cell):
                footnote = merged[one]
                key = (footnote.head, footnote.said)
                is_of_gap = cell.is_empty and footnote.head is None
                of = found.setdefault(key, _Found(footnote, is_of_gap))
                of.titles += [title] * (title not in of.titles)
                of.rows += [place] * (place not in of.rows)
    return list(found.values())


def _notes_of(cell: Cell) -> Iterator[Footnote]:
    for one in cell.notes:
        yield Footnote(said=one) if isinstance(one, Note) else one


def _merged(footnotes: Iterable[Footnote]) -> dict[Footnote, Footnote]:
    """Map each footnote → itself, or one of several runs.

    Such are of one reason and one message, and differ in at most one argument, whose values the
    common one lists.
    """
    alike: dict[tuple[str | Note | None, str], list[Footnote]] = {}
    for one in dict.fromkeys(footnotes):
        key = one.said.id if one.is_reason and one.runs else str(len(alike))
        alike.setdefault((one.head, key), []).append(one)
    merged: dict[Footnote, Footnote] = {}
    for some in alike.values():
        merged |= {one: _common(some) or one for one in some}
    return merged


def _common(some: Sequence[Footnote]) -> Footnote | None:
    """Return the footnote of several runs; None if more than one argument differs."""
    first = some[0]
    values = {name: dict.fromkeys(one.said.args[name] for one in some) for name in first.said.args}
    several = [name for name, found in values.items() if len(found) > 1]
    if len(some) == 1 or len(several) > 1:
        return None
    args: dict[str, Arg] = dict(first.said.args)
    for name in several:
        listed: list[str | int] = [one for one in values[name] if isinstance(one, str | int)]
        if len(listed) < len(values[name]) or name in _SENTENCES:
            return None
        listed.sort(key=_order)
        args[name] = tuple(listed)
    return Footnote(said=Note(first.said.id, args), head=first.head)


def _order(value: str | int) -> tuple[int, str]:
    """Sort numbers by their size, before texts by their letters."""
    return (value, "") if isinstance(value, int) else (sys.maxsize, value)


_SENTENCES = {"text", "sentence"}
"""Arguments that are whole sentences of others, which nobody lists."""


def _line(found: _Found, table: Table, lang: Lang) -> str:
    """Write a footnote with the number of its rows."""
    footnote = found.footnote
    head: Arg = tuple(found.titles) if footnote.head is None else footnote.head
    count, rows = len(found.rows), len(table.rows)
    if count == rows and rows > 1:
        said = note("footnote-of-all", head=head, said=footnote.said)
    elif count > 1:
        said = note("footnote-of-some", head=head, said=footnote.said, count=count, rows=rows)
    else:
        said = of_runs(footnote, head)
    return clean(messages.text(lang, said))


def of_runs(footnote: Footnote, head: Arg) -> Note:
    """Make the sentence of a footnote with its head and its runs."""
    if len(footnote.runs) == 1:
        return note("footnote-of-run", head=head, run=footnote.runs[0], said=footnote.said)
    if footnote.runs:
        return note("footnote-of-runs", head=head, runs=len(footnote.runs), said=footnote.said)
    return note("footnote", head=head, said=footnote.said)


def markdown(tables: Sequence[Table], lang: Lang = "en") -> str:
    """Write the tables and their notes as GitHub's Markdown.

    Values common to the rows of a captioned table stand above it.
    """
    parts = []
    for whole in (each for each in tables if each.rows):
        made = written(whole, lang)
        lines = [f"**{escaped(made.title)}**", ""] if made.title else []
        every = [*range(len(whole.columns))]
        caption, places = captioned(whole, lang) if len(whole.rows) > 1 else ("", every)
        lines += [escaped(caption), ""] if caption else []
        columns = [made.columns[n] for n in places]
        lines.append(_markdown_line(column.title for column in columns))
        lines.append("| " + " | ".join("---:" if c.right else "---" for c in columns) + " |")
        for row, marks in zip(made.rows, made.marks, strict=True):
            *cells, last = (row[n] for n in places)
            lines.append(_markdown_line([*cells, last + _marks(marks)]))
        lines += [part for line in made.lines for part in ("", escaped(line.numbered))]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in "\\|<*`["})


def escaped(text: str) -> str:
    """Escape text for Markdown."""
    return clean(text).translate(_ESCAPES)
