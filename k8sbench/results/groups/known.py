"""The groups that an answer may be about: a row of each, and each in full when it is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.model.series import Judged


class KnownGroups(Protocol):
    """The groups of a store."""

    @property
    def rows(self) -> Sequence[GroupRow]:
        """A row of each group."""

    @property
    def runs(self) -> Mapping[str, Run]:
        """The runs by id; each is read when it is asked for."""

    def groups(self, rows: Iterable[GroupRow]) -> list[Group]:
        """Return the groups of some rows."""

    def judged(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return what the series of their cases say of some sets, by group id."""

    def notable(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return the judgements of some sets that are notable, by group id, in the rows' order.

        They are few, and as a store grows much faster to read than all.
        """

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""


MOST_SINGLES = 60
"""Newest sets among whose 1x1 cases the one of a speedup is looked for."""


def singles(known: KnownGroups, groups: Collection[Group]) -> list[Group]:
    """Return the 1x1 cases that the speedups of some groups may refer to.

    These are those of their own sets, and of the newest other sets.
    """
    programs = {(group.key.benchmark, group.key.framework) for group in groups}
    sets = {group.key.set_name for group in groups}
    fitting = [
        row for row in known.rows if row.gpus == 1 and (row.benchmark, row.framework) in programs
    ]
    newest = sorted((row for row in fitting if row.set_name not in sets), key=_age)
    others = dict.fromkeys(row.set_name for row in newest)
    sets.update(list(others)[:MOST_SINGLES])
    return known.groups(row for row in fitting if row.set_name in sets)


def _age(row: GroupRow) -> float:
    return -row.ended
