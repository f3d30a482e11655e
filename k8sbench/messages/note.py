"""The value of a message."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Lang = Literal["en", "zh"]
"""Language of a text."""


class Note(msgspec.Struct, frozen=True):
    """A message: its id in the catalogue, and its arguments by name."""

    id: str
    """Name of the message in ``k8sbench/messages/en/*.ftl``."""
    args: dict[str, str | int | Note | tuple[str | int | Note, ...]] = {}
    """Arguments by name.

    A text is a name or a figure, which no language translates. A number decides about plurals. A
    tuple is a list, which each language joins by its own comma.
    """

    def __hash__(self) -> int:
        return hash((self.id, *sorted(self.args)))


Member = str | int | Note
"""Member of a list."""
Arg = Member | tuple[Member, ...]
"""Value of an argument."""


def note(name: str, /, **args: Arg) -> Note:
    """Build a note."""
    return Note(name, args)


def of_catalog(text: str) -> Note:
    """Make a note of a text of the catalog, which is English."""
    return Note("catalog-text", {"text": text})


def and_list(values: Sequence[Member]) -> Member:
    """Write a list as ``a``, ``a and b``, ``a, b and c``."""
    *first, last = values
    return note("and-list", first=tuple(first), last=last) if first else last


def or_list(values: Sequence[Member]) -> Member:
    """Write a list as ``a``, ``a or b``, ``a, b or c``."""
    *first, last = values
    return note("or-list", first=tuple(first), last=last) if first else last


def few(values: Sequence[Member], most: int) -> Arg:
    """Write a list as its first members, and how many more there are."""
    if len(values) <= most:
        return tuple(values)
    return note("and-more", names=tuple(values[:most]), number=len(values) - most)


def chain(joint: str, parts: Iterable[Member]) -> Member:
    """Write one or more parts one after another, joined by a message, such as ``and-then``."""
    return functools.reduce(lambda first, then: note(joint, first=first, then=then), parts)


def quoted(text: str) -> Note:
    """Quote a sentence that is no message: of a log, of another program, of a former release."""
    return Note("quoted", {"text": text})
