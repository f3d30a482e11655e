"""The groups of an operator's store: rows at once, groups and runs when they are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from k8sbench.model.errors import BenchError, NotFound, OperatorLost
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Baseline, Run
from k8sbench.model.series import Judged
from k8sbench.results.groups import nights
from k8sbench.results.judged_series import acceptances, notable, with_acceptances
from k8sbench.results.stored_groups import RunsById
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy


class ServedGroups:
    """Implements :class:`~k8sbench.results.groups.known.KnownGroups` by requests.

    Raises :class:`~k8sbench.model.errors.OperatorLost` if the operator does not answer.
    """

    def __init__(self, operator: OperatorProxy, *, accept: Collection[str] = ()) -> None:
        self._operator = operator
        self._accept = accept
        with _asking():
            found = operator.group_list(accept)
        self.rows: Sequence[GroupRow] = found.rows
        self.created: Mapping[str, Mapping[str, float]] = found.created
        """Set → run id → creation of the run, Unix seconds."""
        self.runs: Mapping[str, Run] = RunsById(self._run_ids, self._read_run)
        self._accepted = acceptances(found.accepted, found.rows)
        self._groups: dict[str, Group] = {}
        """Groups that were read, by id."""
        self._runs: dict[str, list[Run]] = {}
        """Runs that were read, by set."""
        self._judged: Mapping[str, Judged] | None = None
        self._baselines: Sequence[Baseline] | None = None

    @property
    def namespace(self) -> str:
        """The namespace that the operator serves."""
        return self._operator.namespace

    def groups(self, rows: Iterable[GroupRow]) -> list[Group]:
        """Return the groups of some rows, less those that were removed meanwhile."""
        ids = [row.group_id for row in rows]
        if unread := set(ids) - self._groups.keys():
            with _asking():
                read = self._operator.groups(unread, self._accept)
                self._groups |= {group.key.id: group for group in read}
        return [self._groups[group_id] for group_id in ids if group_id in self._groups]

    def judged(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return what the series of their cases say of some sets, by group id."""
        if self._judged is None:
            self._judged = nights.play(self.rows, self._accepted).judged
        return with_acceptances(rows, self._judged, self._accepted)

    def notable(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return the judgements of some sets that are notable, by group id, in the rows' order."""
        return notable(self.judged(rows))

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""
        wanted = set(run_ids)
        return {name for name, runs in self.created.items() if not wanted.isdisjoint(runs)}

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

    def baselines(self) -> Sequence[Baseline]:
        """Return the baselines, by name."""
        if self._baselines is None:
            with _asking():
                self._baselines = self._operator.baselines()
        return self._baselines

    def _run_ids(self) -> list[str]:
        return [run_id for runs in self.created.values() for run_id in runs]

    def _read_run(self, run_id: str) -> Run:
        for name in self.sets_of([run_id]):
            for run in self.runs_of(name):
                if run.run_id == run_id:
                    return run
        raise NotFound(f"The operator has no such run: {run_id}.")


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
