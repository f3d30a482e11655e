"""A figure, or the reason why there is none.

A function whose figure may be missing returns ``Figure | Missing``. Whoever assembles a document
from such answers writes the figures with :func:`figure_of`, and the reasons with :func:`reasons_of`
into its map ``missing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

_Figure = TypeVar("_Figure")


class Missing(msgspec.Struct, frozen=True):
    """Reason why there is no figure."""

    reason: str
    """One sentence, for users."""


def figure_of(answer: _Figure | Missing) -> _Figure | None:
    """Return the figure; None if it is missing."""
    return None if isinstance(answer, Missing) else answer


def reasons_of(answers: Mapping[str, object]) -> dict[str, str]:
    """Return the reasons of the figures that are missing, by their names and in their order."""
    return {name: answer.reason for name, answer in answers.items() if isinstance(answer, Missing)}
