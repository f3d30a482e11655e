"""Names that a shell completes: the sets and runs in the index of the local store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from k8sbench.model.errors import BenchError
from k8sbench.store.open_store import recorded_names

Kind = Literal["set", "run"]


def beginning_with(text: str, kinds: Collection[Kind], where: str | None) -> list[str]:
    """Return names of a store that begin so, the newest first; none if it cannot be read."""
    try:
        return recorded_names(where, text, kinds)
    except BenchError:
        return []
