"""Meanings of the words and columns of the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

from k8sbench import messages
from k8sbench.messages import Note, note
from k8sbench.model.compared import RateChange
from k8sbench.model.phase import Phase
from k8sbench.model.series import Kind
from k8sbench.model.titles import title_slug
from k8sbench.results.report.columns import COLUMNS

STATES = ("valid", "ok", "rejected", "failed", "cancelled", "out-of-memory", "running")
"""States of rows that are no reasons."""
MARKS = (*get_args(Kind), "alternating", "missing", "older")
"""Remarks behind a state."""
UNLIKE = "unlike_"
"""Beginning of the messages of differences that forbid a ratio."""


class Meaning(NamedTuple):
    """A word of the results with its meaning."""

    name: str
    """As it is printed, in lower case but for columns."""
    kind: str
    """Kind of the word, as a noun phrase."""
    said: Note


def column(title: str) -> Note:
    """Return how a column is made, by its English title."""
    return note(f"column-{title_slug(title)}")


def every() -> Iterator[Meaning]:
    """Yield all words."""
    for name in STATES:
        yield Meaning(name, "a state of a row", note(f"mean-state-{name}"))
    for name in MARKS:
        yield Meaning(name, "a remark on a row", note(f"mean-mark-{name}"))
    for name in get_args(RateChange):
        yield Meaning(name, "a verdict of compare", note(f"mean-finding-{name}"))
    for phase in Phase:
        yield Meaning(phase.lower(), "a state of a run", note(f"mean-phase-{phase.lower()}"))
    for message in messages.ids("en"):
        if message.startswith(UNLIKE):
            name = message.removeprefix(UNLIKE)
            yield Meaning(name, "a difference that forbids a ratio", note(message))
    for title in dict.fromkeys(one.title for one in COLUMNS):
        yield Meaning(title, "a column", column(title))
