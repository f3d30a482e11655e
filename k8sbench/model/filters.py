"""Which rows a command is asked for, by what people name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from k8sbench.model.errors import NotFound, did_you_mean
from k8sbench.model.group import Group


class GroupFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a group's key must have; None: any."""

    benchmark: str | None = None
    framework: str | None = None
    precision: str | None = None
    case: str | None = None

    def fits(self, group: Group) -> bool:
        """Whether a group has every value."""
        return all(getattr(group.key, name) == value for name, value in self._given())

    def chosen(self, groups: Iterable[Group]) -> list[Group]:
        """Return the groups that fit; raises :class:`NotFound` where none of several does.

        The error names the values that there are, the nearest first.
        """
        groups = list(groups)
        fitting = [group for group in groups if self.fits(group)]
        if groups and not fitting:
            raise self._no_match(groups)
        return fitting

    def _given(self) -> list[tuple[str, str]]:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return [(name, value) for name, value in values if value is not None]

    def _no_match(self, groups: Sequence[Group]) -> NotFound:
        for name, value in self._given():
            known = sorted({getattr(group.key, name) for group in groups})
            if value not in known:
                return no_run_of(name, value, known)
        words = " and ".join(f"{name} {value}" for name, value in self._given())
        return NotFound(f"There is no run of {words} together.", "Leave one of them out.")


def no_run_of(name: str, value: str, known: Sequence[str]) -> NotFound:
    """Return the error for a value that no run has; ``known`` are those that there are."""
    near = did_you_mean(value, known)
    return NotFound(f"There is no run of {name} {value}.", f"{near}There are: {', '.join(known)}.")


def no_run_together(since: float | None, newest: float) -> NotFound:
    """Return the error for filters that fit runs one by one; ``newest``: of the newest of all."""
    if since is not None and newest < since:
        at = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
        return NotFound("No run is as new as --since.", f"The newest is of {at}.")
    return NotFound("No run fits all of the filters together.", "Leave one of them out.")


EVERY = GroupFilter()
"""Any group."""
