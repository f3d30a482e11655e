"""Catalogue of messages: the text of each id in each language."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Collection
from typing import Any

import msgspec

from k8sbench.messages.note import Arg, Lang, Note

SEPARATORS = {"en": ", ", "zh": "、"}
"""Language → text between the members of a list."""
_ARGUMENT = re.compile(r"\$([a-zA-Z][\w-]*)")
"""An argument in the syntax of Fluent."""


def text(lang: Lang, message: Note) -> str:
    """Write a message in a language.

    Raises ``KeyError`` for an unknown id, and for an argument that the message needs and lacks.
    """
    values = {name: _value(lang, value) for name, value in message.args.items()}
    bundle = _bundle(lang)
    if not bundle.has_message(message.id):
        _add(lang, message.id)
    pattern = bundle.get_message(message.id).value
    written, errors = bundle.format_pattern(pattern, values)
    if errors:
        raise KeyError(f"message {message.id}: {errors[0]}")
    return str(written)


def has_message(name: str) -> bool:
    """Return True if the catalogue has a message of this id."""
    return name in _entries("en")


def can_write(message: Note) -> bool:
    """Return True if the catalogue has a message and those in its arguments, and all that it needs.

    A store may hold messages of a later version, which this one cannot write.
    """
    if not has_message(message.id) or not _needed(message.id) <= message.args.keys():
        return False
    return all(map(_can_write, message.args.values()))


def _can_write(value: Arg) -> bool:
    if isinstance(value, tuple):
        return all(map(_can_write, value))
    return not isinstance(value, Note) or can_write(value)


def stored(message: Note | None, otherwise: Note) -> Note:
    """Return a message of a store; ``otherwise`` if it has none, or one of a later version."""
    return message if message is not None and can_write(message) else otherwise


@functools.cache
def _needed(name: str) -> frozenset[str]:
    """Return the names of the arguments of a message in all languages."""
    texts = (_entries(lang)[name] for lang in SEPARATORS)
    return frozenset(found for text in texts for found in _ARGUMENT.findall(text))


def ids(lang: Lang) -> Collection[str]:
    """Return the ids of all messages of a language."""
    return _entries(lang).keys()


def _value(lang: Lang, value: Arg) -> Any:
    """Return an argument as Fluent takes it: a text, or a number without separators."""
    from fluent.runtime.types import fluent_number  # noqa: PLC0415 - with the library's bundle

    if isinstance(value, int):
        return fluent_number(value, useGrouping=False)
    return written(lang, value)


def written(lang: Lang, value: Arg) -> str:
    """Write a value: a message, a text as it is, or a list."""
    if isinstance(value, Note):
        return text(lang, value)
    if isinstance(value, tuple):
        return SEPARATORS[lang].join(written(lang, one) for one in value)
    return str(value)


@functools.cache
def _bundle(lang: Lang) -> Any:
    # Commands that print no message do not wait for it.
    from fluent.runtime import FluentBundle  # noqa: PLC0415

    functions: dict[str, Any] = {"CATALOG": functools.partial(_of_catalog, lang)}
    return FluentBundle([lang], functions, use_isolating=False)


def _of_catalog(lang: Lang, text: Any) -> str:
    """Translate a text of the catalog; that of a user's own benchmark stays."""
    return _catalog_texts().get(str(text), str(text)) if lang == "zh" else str(text)


@functools.cache
def _catalog_texts() -> dict[str, str]:
    """Map the texts of the catalog in English → in Chinese."""
    file = importlib.resources.files(__package__).joinpath("catalog_zh.json")
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str])


def _add(lang: Lang, name: str) -> None:
    """Parse a message: a command needs a few of a thousand, and to parse all takes longer."""
    from fluent.runtime import FluentResource  # noqa: PLC0415

    _bundle(lang).add_resource(FluentResource(_entries(lang)[name]))


@functools.cache
def _entries(lang: Lang) -> dict[str, str]:
    """Map the id of each message → its text in the syntax of Fluent."""
    found: dict[str, str] = {}
    folder = importlib.resources.files(__package__).joinpath(lang)
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        name = ""
        for line in file.read_text("utf-8").splitlines(keepends=True):
            if line[:1].isalpha():
                name = line.partition(" =")[0]
                if name in found:
                    raise ValueError(f"{lang}/{file.name}: {name} stands twice")
                found[name] = ""
            if name and not line.startswith("#"):
                found[name] += line
    return found
