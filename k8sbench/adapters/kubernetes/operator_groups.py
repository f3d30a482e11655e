"""The groups of an operator: rows at once, and groups and runs when they are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
from k8sbench.model.errors import BenchError, OperatorLost
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.store.interface import RunFilter


class OperatorGroups:
    """Implements :class:`k8sbench.store.group_interface.ServedGroups`."""

    def __init__(self, operator: OperatorProxy) -> None:
        self._operator = operator
        self._runs: dict[str, list[Run]] = {}
        """Runs of sets that were asked for, by set."""
        with _asking():
            found = operator.group_list()
        self.rows: Sequence[GroupRow] = found.rows
        self.logs: Mapping[str, Mapping[str, str | None]] = found.logs

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id, less those that are gone."""
        with _asking():
            return {group.key.id: group for group in self._operator.groups(ids)}

    def runs_of(self, set_name: str) -> Sequence[Run]:
        """Return the runs of a set, oldest first."""
        if set_name not in self._runs:
            with _asking():
                self._runs[set_name] = _in_order(self._operator.runs({"set": set_name}))
        return self._runs[set_name]

    def newest_runs(self, wanted: RunFilter) -> Sequence[Run]:
        """Return the newest runs that match, oldest first."""
        names = {"benchmark": "benchmark", "framework": "framework", "set_name": "set"}
        query = {
            key: value
            for name, key in names.items()
            if (value := getattr(wanted, name)) is not None
        }
        if wanted.since is not None:
            query["since"] = repr(wanted.since)
        with _asking():
            return _in_order(self._operator.runs(query, wanted.limit))


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Turn what hinders an answer into :class:`OperatorLost`."""
    try:
        yield
    except BenchError as wrong:
        raise OperatorLost(wrong.message, wrong.action) from wrong


def _in_order(runs: Iterator[Run]) -> list[Run]:
    by_id = {run.run_id: run for run in runs}
    return sorted(by_id.values(), key=lambda run: (run.created_at, run.run_id))
