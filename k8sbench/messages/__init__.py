"""Messages as values, and their texts in English and Chinese.

A :class:`Note` is what the program has to say, from where it is found to where it is printed: the
id of a message, and its arguments by name. :func:`text` writes it in a language. The texts are in
``en/*.ftl`` and ``zh/*.ftl``, in the syntax of Project Fluent: a message may have several plurals,
and a language may order the arguments as it needs, neither of which gettext has.
"""

from __future__ import annotations

from k8sbench.messages.catalogue import can_write, has_message, ids, stored, text, written
from k8sbench.messages.note import (
    Arg,
    Lang,
    Member,
    Note,
    and_list,
    chain,
    few,
    note,
    of_catalog,
    or_list,
    quoted,
)

__all__ = [
    "Arg",
    "Lang",
    "Member",
    "Note",
    "and_list",
    "can_write",
    "chain",
    "few",
    "has_message",
    "ids",
    "note",
    "of_catalog",
    "or_list",
    "quoted",
    "stored",
    "text",
    "written",
]
