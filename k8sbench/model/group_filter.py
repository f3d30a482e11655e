"""Groups that a command is asked for, and the errors where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import NotFound, did_you_mean
from k8sbench.model.group import GroupRow
from k8sbench.model.spec_values import Precision


class GroupFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a group's key must have; None: any."""

    benchmark: str | None = None
    framework: str | None = None
    precision: Precision | None = None
    case: str | None = None

    def fits(self, row: GroupRow) -> bool:
        """True if a group has every value."""
        return bool(self.fitting([row]))

    def fitting(self, rows: Iterable[GroupRow]) -> list[GroupRow]:
        """Return the rows of the groups that have every value."""
        found = list(rows)
        for name, value in self._given():
            found = [row for row in found if getattr(row, name) == value]
        return found

    def chosen(self, rows: Iterable[GroupRow]) -> list[GroupRow]:
        """Return the rows of the groups that fit.

        Raises :class:`NotFound` if none of several fits; the error names the existing values, the
        nearest first.
        """
        rows = list(rows)
        fitting = self.fitting(rows)
        if rows and not fitting:
            raise self._no_match(rows)
        return fitting

    def _given(self) -> list[tuple[str, str]]:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return [(name, value) for name, value in values if value is not None]

    def _no_match(self, rows: Sequence[GroupRow]) -> NotFound:
        for name, value in self._given():
            known = sorted({getattr(row, name) for row in rows})
            if value not in known:
                return no_run_of(name, value, known)
        words = " and ".join(f"{name} {value}" for name, value in self._given())
        return NotFound(f"There is no run of {words} together.", "Leave one of them out.")


def no_run_of(name: str, value: str, known: Sequence[str]) -> NotFound:
    """Return the error for a value that no run has; ``known`` exist."""
    near = did_you_mean(value, known)
    return NotFound(f"There is no run of {name} {value}.", f"{near}There are: {', '.join(known)}.")


def no_run_together(since: float | None, newest: float) -> NotFound:
    """Return the error for filters that match no run together.

    ``newest`` is the time of the newest run of all.
    """
    if since is not None and newest < since:
        return NotFound("No run is as new as --since.", f"The newest is of {times.minute(newest)}.")
    return NotFound("No run fits all of the filters together.", "Leave one of them out.")


EVERY = GroupFilter()
"""Any group."""
