"""Groups at hand, in place of a store's."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from k8sbench.model.compared import CaseHistory, Comparison
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.model.series import UNJUDGED, Judged
from k8sbench.results.groups import comparison, grouping, nights, selection
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.judged_series import notable


class Grouped:
    """Implements :class:`KnownGroups`.

    ``judged``: what the series say of sets, by name, in place of the rule.
    """

    def __init__(
        self,
        groups: Iterable[Group],
        runs: Iterable[Run] = (),
        judged: Mapping[str, Judged] | None = None,
    ) -> None:
        self.runs: Mapping[str, Run] = {run.run_id: run for run in runs}
        self._groups = {group.key.id: group for group in groups}
        self.rows: Sequence[GroupRow] = [group.row for group in self._groups.values()]
        self._given = judged

    def groups(self, rows: Iterable[GroupRow]) -> list[Group]:
        return [self._groups[row.group_id] for row in rows]

    def judged(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        return {row.group_id: self._judged.get(row.group_id, UNJUDGED) for row in rows}

    def notable(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        return notable(self.judged(rows))

    @functools.cached_property
    def _judged(self) -> Mapping[str, Judged]:
        if self._given is None:
            return nights.judge(self.rows)
        return {row.group_id: self._given.get(row.set_name, UNJUDGED) for row in self.rows}

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        return {self.runs[run_id].plan.set_name for run_id in run_ids}


def grouped(runs: Iterable[Run], *, accept: Collection[str] = ()) -> Grouped:
    """Group runs."""
    runs = list(runs)
    return Grouped(grouping.groups(runs, accept=accept), runs)


def report(
    runs: Iterable[Run], wanted: Wanted, *, accept: Collection[str] = (), **asked: Any
) -> Report:
    """Make the rows of some runs."""
    return selection.report(grouped(runs, accept=accept), wanted, **asked)


def histories(groups: Iterable[Group]) -> list[CaseHistory]:
    """Return the histories of all cases."""
    known = Grouped(groups)
    return selection.histories(known, known.rows)


def newest_nights(groups: Iterable[Group]) -> Comparison | None:
    """Compare the newest two nights."""
    known = Grouped(groups)
    return comparison.newest_nights(known, known.rows)
