"""A figure, or the reason why there is none.

A function whose figure may be missing returns ``Figure | Missing``. Whoever assembles a document
from such answers writes the figures with :func:`figure_of`, and hands the reasons of
:func:`reasons_of` to the document as messages, which writes their texts (:func:`written`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from k8sbench import messages
from k8sbench.messages import Note

_Figure = TypeVar("_Figure")


class Missing(msgspec.Struct, frozen=True):
    """Reason why there is no figure."""

    reason: Note
    """One sentence, for users."""


def figure_of(answer: _Figure | Missing) -> _Figure | None:
    """Return the figure; None if it is missing."""
    return None if isinstance(answer, Missing) else answer


def reasons_of(answers: Mapping[str, object]) -> dict[str, Note]:
    """Return the reasons of the figures that are missing, by their names and in their order."""
    return {name: answer.reason for name, answer in answers.items() if isinstance(answer, Missing)}


def written(reasons: Mapping[str, Note]) -> dict[str, str]:
    """Write reasons in English, as documents have them."""
    return {name: messages.text("en", reason) for name, reason in reasons.items()}
