"""The arithmetic of a run: which kinds of operations compute in which type; imports no framework.

Two runs in mixed precision may leave different operations in FP32, and then one has more to compute
than the other. So a run states what it did: for each kind the type of what came out in the forward
pass and the loss, or, where a kind has several, how many of each (``2 float16 + 2 float32``).
Frameworks name their operations differently; a kind has one name.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping


class Tally:
    """Counts operations by kind and type."""

    def __init__(self) -> None:
        self._found: dict[str, Counter[str]] = {}

    def add(self, kind: str, type_: str) -> None:
        """One operation."""
        self._found.setdefault(kind, Counter())[type_] += 1

    def forget(self) -> None:
        """Drop what was counted: it is not all."""
        self._found.clear()

    def types(self) -> dict[str, str]:
        """Each kind's type, or numbers and types."""
        return {kind: _joined(self._found[kind]) for kind in sorted(self._found)}


def statement(types: Mapping[str, str], *, by: str) -> dict[str, object]:
    """What a run states: the types, a digest that is equal where they are, and how it knows.

    ``seen`` in a step of the run itself, or ``derived`` for a device that it did not have.
    """
    text = json.dumps(types, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"by": by, "digest": digest, "types": dict(types)}


def _joined(found: Counter[str]) -> str:
    if len(found) == 1:
        return next(iter(found))
    return " + ".join(f"{found[type_]} {type_}" for type_ in sorted(found))
