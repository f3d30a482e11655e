"""Facts that a log states of its run: model, GPUs, batch, precision and others."""

from __future__ import annotations

import math

from k8sbench.model.sample import Place
from k8sbench.reader.family import number_in


class StatedFacts(dict[str, dict[str, Place]]):
    """Name of a fact → value → first line with it; values in log order."""

    def add(self, name: str, value: str, place: Place) -> None:
        """Add a value; a known one keeps its first line."""
        self.setdefault(name, {}).setdefault(value, place)

    def first(self, name: str) -> str | None:
        """Return the first value that the log states; None if it states none."""
        return next(iter(self.get(name, ())), None)

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
