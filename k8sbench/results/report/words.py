"""Texts of reports, pages and tables, by ids in English and Chinese (``--lang``).

Figures, names and ids stay as they are, so that users find them in the documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from k8sbench import messages
from k8sbench.messages import Arg, Lang, Note
from k8sbench.model.titles import title


def say(lang: Lang, word: str, **values: object) -> str:
    """Return the text of a message, its arguments filled."""
    return messages.text(lang, Note(word, {name: _arg(value) for name, value in values.items()}))


english = functools.partial(messages.written, "en")
"""Writes a message or a list in English, for what has no other language."""


def both(text: str) -> tuple[str, str]:
    """Return a word of the README in English and Chinese."""
    return word("en", text), word("zh", text)


def _arg(value: object) -> Arg:
    return value if isinstance(value, str | int | Note | tuple) else str(value)


def name_of_fact(lang: Lang, name: str) -> str:
    """Write a title, or the name of a fact."""
    return messages.text(lang, title(name))


def of_catalog(lang: Lang, text: str) -> str:
    """Translate a text of the catalog; that of a user's own benchmark stays."""
    return messages.text(lang, messages.of_catalog(text))


def word(lang: Lang, text: str) -> str:
    """Translate a word of the README, or a title; another text stays."""
    return say(lang, text) if messages.has_message(text) else name_of_fact(lang, text)


def original(lang: Lang, text: str) -> str:
    """Mark a note of the catalog, which is English, where the page is not; nothing if empty."""
    return say(lang, "original", text=text) if text else ""


def chained(lang: Lang, joint: str, parts: Iterable[str]) -> str:
    """Join the parts that are not empty by a message, such as ``and-then``."""
    found = [*filter(None, parts)]
    return messages.written(lang, messages.chain(joint, found)) if found else ""


def named(lang: Lang, name: str, value: str) -> str:
    """Write a value behind its name and a colon."""
    return say(lang, "named-value", name=name, value=value)


def join(lang: Lang, items: Iterable[str]) -> str:
    """List items, with the commas of the language."""
    return messages.written(lang, tuple(items))
