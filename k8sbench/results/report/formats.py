"""Output formats (``-o``): the data of each, and its text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from k8sbench.messages import Note, has_message, note
from k8sbench.model import plain_text, times, titles
from k8sbench.model.group import Deviation
from k8sbench.model.plain_text import clean, significant

View = Mapping[str, Callable[[], Any]]
"""Output of a command: a function for each format, by its name.

``table``, ``wide``, ``markdown``, ``report``: text for people. ``github``: a comment for a pull
request. ``csv``: a header and rows. ``json``, ``yaml``: plain data. ``name``: one name per row.
``junit``: a test suite in JUnit's XML, for CI. ``html``: a page for a browser.
"""
FOR_PEOPLE = frozenset({"table", "wide", "markdown", "report", "html"})
"""Formats that people read; others are for programs."""
ROWS = ("table", "wide", "markdown", "csv", "json", "name")
"""Formats of a command that prints the rows of its runs."""


def json_text(value: Any) -> str:
    """Write one indented JSON document; structs by their fields."""
    return "".join(json_pieces(value))


def json_pieces(value: Any) -> Iterator[str]:
    """Write one indented JSON document; an iterator is a list that is written item by item."""
    if not isinstance(value, Iterator):
        yield _indented(value) + "\n"
        return
    before = "[\n"
    for item in value:
        yield before + textwrap.indent(_indented(item), "  ")
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _indented(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return plain_text.escape_json(text)


def yaml_text(value: Any) -> str:
    """Write one YAML document with the content of :func:`json_text`."""
    import yaml  # noqa: PLC0415

    # Through JSON: plain values, and no number that JSON does not have.
    text = msgspec.json.encode(value).decode()
    is_safe = text == plain_text.escape_json(text)
    plain = msgspec.json.decode(text)
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=is_safe, width=100))


def csv_text(flat: tuple[Sequence[str], Iterable[Sequence[Any]]]) -> str:
    """Write CSV (RFC 4180 quoting, ``\\n`` line ends); None is an empty field."""
    return "".join(csv_lines(flat))


def csv_lines(flat: tuple[Sequence[str], Iterable[Sequence[Any]]]) -> Iterator[str]:
    """Write the lines of :func:`csv_text`."""
    import csv  # noqa: PLC0415 - a library of its own, and most commands print none

    header, rows = flat
    writer = csv.writer(_Line(), lineterminator="\n")
    yield writer.writerow(header)
    for row in rows:
        fields = zip(header, row, strict=True)
        yield writer.writerow([_csv_field(name, value) for name, value in fields])


class _Line:
    """A file whose ``write`` returns the text: it is what a CSV writer returns of a row."""

    def write(self, text: str) -> str:
        return text


def flattened(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Make the header and the rows of CSV of documents.

    What is nested has the name of its part before its own; a list is one text. What is missing has
    no column.
    """

    parts = set[str]()

    def fields(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for name, value in row.items():
            if isinstance(value, Mapping):
                parts.add(name)
                yield from fields(value, f"{prefix}{name}_")
            elif isinstance(value, bool):
                yield prefix + name, str(value).lower()
            else:
                is_list = isinstance(value, list)
                yield prefix + name, "; ".join(map(str, value)) if is_list else value

    flat = [dict(fields({k: v for k, v in row.items() if k != "missing"})) for row in rows]
    # A part that a row lacks is one field there.
    header = [name for name in dict.fromkeys(n for row in flat for n in row) if name not in parts]
    return header, [[row.get(name) for name in header] for row in flat]


def _csv_field(name: str, value: Any) -> Any:
    """Convert a field: times (``created_at``) to ISO 8601, UTC."""
    if value is None:
        return ""
    if name.endswith("_at") and isinstance(value, int | float):
        return times.utc(value)
    return clean(value) if isinstance(value, str) else value


def _lines(names: Iterable[str]) -> Iterator[str]:
    return (f"{name}\n" for name in names)


_WRITERS: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "csv": csv_lines,
    "json": json_pieces,
    "yaml": lambda value: [yaml_text(value)],
    "name": _lines,
}
"""Function that writes the data of a format; the data of others is text, or pieces of it."""


def pieces(form: str, view: View) -> Iterable[str]:
    """Write a command's output in the format ``form``, piece by piece."""
    data = view[form]()
    if form in _WRITERS:
        return _WRITERS[form](data)
    return [data] if isinstance(data, str) else data


def written(form: str, view: View) -> str:
    """Write a command's output in the format ``form``."""
    return "".join(pieces(form, view))


# -- numbers --------------------------------------------------------------------------------------
#
# How numbers are written: enough digits to tell runs apart, never a 0 that is none.


def rate(value: float) -> str:
    """Write samples per second with two decimals; small figures with more."""
    if value >= 10:
        return f"{value:.2f}"
    return f"{value:.3f}" if value >= 1 else significant(value)


def ratio(value: float) -> str:
    """Write a speedup with two decimals; small figures with more."""
    return f"{value:.2f}" if value >= 0.1 else significant(value)


def percent(value: float) -> str:
    """A share: 0.958 is ``95.8 %``, 0.0021 ``0.2 %``; below, one digit: ``0.01 %``."""
    return f"{100 * value:.1f} %" if value >= 0.001 else f"{significant(100 * value, 1)} %"


def percent_beside(value: float, other: float) -> str:
    """Write a share with as many digits as tell it from another one."""
    for digits in range(1, 7):
        if round(100 * value, digits) != round(100 * other, digits):
            return percent(value) if digits == 1 else f"{100 * value:.{digits}f} %"
    return percent(value)


def signed_percent(value: float) -> str:
    """Write a deviation: −0.012 is ``−1.2 %``.

    With a real minus sign; below 0.05 % it is ``±0.0 %``.
    """
    text = f"{abs(100 * value):.1f} %"
    sign = "±" if text == "0.0 %" else "+" if value > 0 else "−"
    return sign + text


def unlike(ids: Iterable[str]) -> tuple[Note, ...]:
    """Return the reasons against a comparison; one without a word of its own is a title."""
    found = ((name, f"differs-{name}") for name in ids)
    return tuple(note(word) if has_message(word) else titles.title(name) for name, word in found)


def deviation(one: Deviation) -> str | None:
    """Write a deviation from a published figure.

    A range, if the published averaging rule is unknown.
    """
    if one.ratio is not None:
        return signed_percent(one.ratio)
    return None if one.ratios is None else signed_range(*one.ratios)


def signed_range(low: float, high: float, to: str = "…") -> str:
    """Write two deviations, or one if they look the same: ``−6.9…−5.9 %``."""
    least = signed_percent(low)
    most = signed_percent(high)
    return least if least == most else f"{least.removesuffix(' %')}{to}{most}"


def is_range(one: Deviation) -> bool:
    """True if a deviation is written with two ends."""
    return one.ratios is not None and len({*map(signed_percent, one.ratios)}) > 1


def quantity(one: Deviation, figure: float) -> str:
    """Write a published figure, or ours beside it, with the digits of its kind."""
    return seconds(figure) if one.quantity == "time_to_train" else significant(figure, 7)


def seconds(value: float) -> str:
    """Write a time to train in milliseconds, without zeros at the end."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def days(moments: Iterable[float]) -> str:
    """Write the first and the last day in UTC; one if they are equal."""
    found = [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in moments]
    return " – ".join(dict.fromkeys((min(found), max(found)))) if found else ""


def millions(value: int) -> str:
    """A number of parameters: 25557032 is ``25.56 M``."""
    return f"{value / 1e6:.2f} M" if value >= 10_000 else str(value)


def or_absent(value: Any, write: Callable[[Any], str] = str) -> str:
    """Write a value, or the sign for a missing one."""
    return plain_text.ABSENT if value is None else write(value)
