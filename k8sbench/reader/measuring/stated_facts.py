"""Facts that a log states of its run: model, GPUs, batch, precision and others."""

from __future__ import annotations

import math

from k8sbench.messages import Note, quoted
from k8sbench.model.sample import Place
from k8sbench.reader.family import number_in


class StatedFacts(dict[str, dict[str, Place]]):
    """Name of a fact → value → first line with it; values in log order."""

    def __init__(self) -> None:
        super().__init__()
        self.other_heads: list[Place] = []
        """First lines that state known facts again before another run's record."""
        self.notes: dict[str, Note] = {}
        """Value that is a sentence of ours → its message."""
        self._head: Place | None = None
        """The first such line since the last record."""

    def state_again(self, place: Place) -> None:
        """Note a line that states a known fact again."""
        self._head = self._head or place

    def end_head(self, *, of_other_run: bool) -> None:
        """Note a record: what stands before it is its run's head."""
        if of_other_run and self._head is not None:
            self.other_heads.append(self._head)
        self._head = None

    def add(self, name: str, value: str, place: Place) -> None:
        """Add a value; a known one keeps its first line."""
        self.setdefault(name, {}).setdefault(value, place)

    def first(self, name: str) -> str | None:
        """Return the first value that the log states; None if it states none."""
        return next(iter(self.get(name, ())), None)

    def said(self, name: str) -> Note | None:
        """Return the first value, a sentence, as a message."""
        value = self.first(name)
        return None if value is None else self.notes.get(value) or quoted(value)

    def number(self, name: str) -> float | None:
        """Return the first value as a finite number."""
        value = number_in(self.first(name))
        return value if value is not None and math.isfinite(value) else None

    def whole(self, name: str) -> int | None:
        """Return the first value as a whole number."""
        value = self.number(name)
        return None if value is None else int(value)

    def places(self, name: str) -> list[Place]:
        """Return the first line that states a fact; empty without one."""
        return list(self.get(name, {}).values())[:1]

    def others_than(self, stated: StatedFacts) -> StatedFacts:
        """Return the values that differ from all those of the same name in ``stated``."""
        differing = StatedFacts()
        for name, values in self.items():
            for value, place in values.items():
                if name in stated and value not in stated[name]:
                    differing.add(name, value, place)
        return differing
