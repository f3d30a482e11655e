"""Lines of a log that share an oddity: the first few as evidence, the rest counted."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from k8sbench.measure.run import redaction
from k8sbench.model.sample import Place, Record

MANY = 20
"""Places that are listed of anything; the rest are counted."""


class Occurrence(NamedTuple):
    """A line that a reason quotes."""

    file: str
    record: Record
    position: int

    @property
    def place(self) -> Place:
        """The line as evidence."""
        return redaction.place(self.file, self.record.line, self.record.text)


class Occurrences(msgspec.Struct):
    """The first few lines that share an oddity, and how many there are."""

    count: int = 0
    amount: int = 0
    first: list[Occurrence] = []

    def add(self, line: Occurrence, amount: int = 0) -> None:
        """Count one more line; ``amount`` sums what each of them stands for."""
        self.count += 1
        self.amount += amount
        if len(self.first) < MANY:
            self.first.append(line)

    @property
    def places(self) -> list[Place]:
        """The first lines, as evidence."""
        return [occurrence.place for occurrence in self.first]

    def __bool__(self) -> bool:
        return self.count > 0
