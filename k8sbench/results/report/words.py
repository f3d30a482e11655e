"""Words of reports and tables in English and Chinese (``--lang``).

Figures, names and ids stay in English, so that users find them in the documentation.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from k8sbench import messages
from k8sbench.messages import Lang
from k8sbench.results.report.tables import Table


@functools.cache
def texts() -> dict[str, dict[str, Any]]:
    """Return the content of ``words.yaml``."""
    from k8sbench.catalog import yaml_text  # noqa: PLC0415 - most commands print no such word

    read: dict[str, dict[str, Any]] = yaml_text.load(
        importlib.resources.files(__package__).joinpath("words.yaml").read_text("utf-8")
    )
    return read


def say(lang: str, word: str, **values: object) -> str:
    """Return a text of a published report, its placeholders filled."""
    args = {name: _arg(value) for name, value in values.items()}
    return messages.text("zh" if lang == "zh" else "en", messages.Note(word, args))


def both(word: str) -> tuple[str, str]:
    """Return a text without arguments in English and Chinese."""
    return say("en", word), say("zh", word)


def _arg(value: object) -> messages.Arg:
    return value if isinstance(value, str | int | messages.Note) else str(value)


def title(text: str) -> str:
    """Translate a title; an unknown one stays."""
    titles = texts()["titles"]
    name, bracket, unit = text.partition(" (")
    if text.endswith("/s"):  # the default table names throughput by its unit
        return f"{titles['throughput']}({text})"
    if text not in titles and bracket and name in titles:
        return f"{titles[name]}({unit}"
    return str(titles.get(text, text))


def translated(tables: Sequence[Table]) -> list[Table]:
    """Return tables in Chinese; names, ids and figures stay.

    Notes name columns by the Chinese titles.
    """
    some, every, more = texts()["counts"].values()
    return [
        msgspec.structs.replace(
            table,
            title=table.title and title(table.title),
            columns=tuple(
                msgspec.structs.replace(column, title=title(column.title))
                for column in table.columns
            ),
            rows=tuple(
                tuple(
                    msgspec.structs.replace(
                        cell,
                        text="; ".join(phrase("zh", part) for part in cell.text.split("; ")),
                        notes=tuple(note("zh", one) for one in cell.notes),
                    )
                    for cell in row
                )
                for row in table.rows
            ),
            notes=tuple(note("zh", one) for one in table.notes),
            counts=(some, every, more),
        )
        for table in tables
    ]


def phrase(lang: str, text: str) -> str:
    """Translate a note or a value; an unknown one stays."""
    if lang != "zh":
        return text
    known = texts()["phrases"].get(text)
    if known is not None:
        return str(known)
    for pattern, chinese in _patterns():
        if (match := pattern.fullmatch(text)) is not None:
            parts = {name: phrase(lang, part) for name, part in match.groupdict().items()}
            return chinese.format(**parts)
    parts_of_list = text.split(", ")
    if len(parts_of_list) > 1 and all(part in texts()["phrases"] for part in parts_of_list):
        return "、".join(phrase(lang, part) for part in parts_of_list)
    return text


_PART = "[^,]+?"
"""Text of the placeholder ``{d}``: longer lists are the user's own words."""


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return the phrases with placeholders, the longest first."""
    made = []
    for english, chinese in texts()["phrases"].items():
        if "{" in english:
            parts = re.split(r"\{(\w)\}", english)
            text = "".join(
                f"(?P<{part}>{_PART if part == 'd' else '.+?'})" if place % 2 else re.escape(part)
                for place, part in enumerate(parts)
            )
            made.append((re.compile(text), chinese))
    return sorted(made, key=lambda each: -len(each[0].pattern))


_REASON = re.compile(
    r"(?P<id>[a-z][a-z0-9-]+)(?P<of> \((?:(?P<runs>\d+) runs|(?P<run>[^)]*))\))?: (?P<text>.*)"
)


_FIGURE = re.compile(r"(?<![\w.])[+−]?\d[\d,.]*(?<![.,])(?: %)?")


def note(lang: str, text: str) -> str:
    """Translate a note: a phrase, a reason, or the name of the column before it.

    A reason whose sentence has no translation is its meaning with the sentence's figures.
    """
    found = phrase(lang, text)
    if found != text or lang != "zh":
        return found
    match = _REASON.fullmatch(text)
    meaning = texts()["reasons"].get(match["id"]) if match else None
    if match is not None and meaning is not None:
        runs = f"{match['runs']} 次运行" if match["runs"] else match["run"]
        plain = f"{match['id']}: {match['text']}"
        translated = phrase(lang, plain).partition(": ")[2]
        figures = "、".join(_FIGURE.findall(match["text"]))
        said = f"{meaning}（{figures}）" if figures else meaning
        said = said if translated == match["text"] else translated
        return f"{match['id']}{f' ({runs})' if runs else ''}: {said}"
    name, colon, rest = text.partition(": ")
    titles = texts()["titles"]
    column = titles.get(name) or titles.get(name.lower())
    return f"{column}{colon}{phrase('zh', rest)}" if column and colon else text


def word(lang: Lang, text: str) -> str:
    """Translate a word of the README; another text stays."""
    return say(lang, text) if messages.has_message(text) else text


def original(lang: Lang, text: str) -> str:
    """Mark a note of the catalog, which is English, where the page is not; nothing if empty."""
    return say(lang, "original", text=text) if text else ""


def join(lang: Lang, items: Iterable[str]) -> str:
    """List items, with the commas of the language."""
    return ("、" if lang == "zh" else ", ").join(items)
