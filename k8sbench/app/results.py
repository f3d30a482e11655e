"""Rows of results: those that are asked for, those of some runs, and where a figure comes from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import answers, benchmarks, stores
from k8sbench.app.answers import Answer, StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import (
    FORMER_IDS,
    BenchError,
    NotFound,
    did_you_mean,
)
from k8sbench.model.group import UNSTEADY
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.results.groups import selection
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.stored_groups import StoredGroups

if TYPE_CHECKING:
    from k8sbench.results.groups.selection import Report
    from k8sbench.results.report.explanation import Row
    from k8sbench.store.sql_store import SqlStore


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """Finished runs and the rows of their groups."""

    runs: tuple[Run, ...]
    report: Report
    rejected: frozenset[str]
    """Ids of invalid runs, including outliers within their groups."""
    refusals: tuple[BenchError, ...] = ()
    """Errors of jobs that were not created, and of runs that were not started."""


def joined(first: RunRows, *more: RunRows) -> RunRows:
    """Return the rows of several; of a group that stands in several, the last row."""
    every = (first, *more)
    known = {row.group.key: row for rows in every for row in rows.report.results}
    return RunRows(
        runs=tuple({run.run_id: run for rows in every for run in rows.runs}.values()),
        report=msgspec.structs.replace(first.report, results=tuple(known.values())),
        rejected=frozenset[str]().union(*(rows.rejected for rows in every)),
        refusals=tuple(error for rows in every for error in rows.refusals),
    )


@answers.completed
def results(
    wanted: Wanted,
    scope: StoresRead,
    note: Note,
    *,
    published: bool = False,
    over_sets: bool = False,
) -> Report:
    """Make the selected rows of the store that answers.

    If none match, notes what the own store has.
    """
    check_accepted(scope.accept)
    names = wanted.runs if wanted.set_name is None else (*wanted.runs, f"set:{wanted.set_name}")
    with answers.answering(scope, note, names) as answer:
        report = selection.report(
            answer.groups,
            wanted,
            published=published,
            find=benchmarks.spec_finder(answer.store, note),
            is_strict=True,
            over_sets=over_sets,
        )
        if not report.results and answer.store is not None:
            stores.note_empty(answer.store, note)
    return report


def rows(
    store: SqlStore, runs: Sequence[Run], note: Note, *, accept: Collection[str] = ()
) -> RunRows:
    """Make the rows that some runs of the own store belong to: the end of ``submit``."""
    groups = StoredGroups(store, note, accept=accept)
    return rows_of(Answer(groups, store=store), runs, note)


def operator_rows(
    access: ClusterAccess, runs: Sequence[Run], note: Note, *, accept: Collection[str] = ()
) -> RunRows:
    """Make the rows that some runs of the operator belong to."""
    scope = StoresRead(where=stores.CLUSTER, access=access, accept=tuple(accept))
    with answers.answering(scope, note) as answer:
        return rows_of(answer, runs, note)


def rows_of(answer: Answer, runs: Sequence[Run], note: Note) -> RunRows:
    """Make the rows that some runs belong to, of the store that has them."""
    run_ids = {run.run_id for run in runs}
    wanted = selection.Wanted(runs=tuple(run_ids))
    find = benchmarks.spec_finder(answer.store, note)
    report = selection.report(answer.groups, wanted, find=find)
    rejected = frozenset(
        member.run_id
        for row in report.results
        for member in row.group.members
        if member.run_id in run_ids
        and (member.verdict == "rejected" or row.group.state == UNSTEADY)
    )
    return RunRows(runs=tuple(runs), report=report, rejected=rejected)


@answers.completed
def explain(text: str, scope: StoresRead, note: Note) -> list[Row]:
    """Explain a finding, run or group by its id, or a word of the results.

    The beginning of a run's id is enough, if it is unique. A run counts before a word, which is no
    id.
    """
    from k8sbench.app import finding_ids
    from k8sbench.results.report import explanation

    if found := list(finding_ids.matching(text)):
        return [*found, *finding_ids.words(text)]
    check_accepted(scope.accept)
    with answers.answering(scope, note, [text]) as answer:
        try:
            find = benchmarks.spec_finder(answer.store, note)
            return list(explanation.explain(text, answer.groups, find))
        except NotFound as missing:
            if text.startswith("g-"):
                raise
            if found := list(finding_ids.words(text)):
                return found
            meant = did_you_mean(text, finding_ids.completed(""))
            action = f"{meant}{missing.action} k8sbench explain '*' lists ids."
            raise NotFound(f"There is no run, group or id {text!r}.", action) from missing


def check_accepted(accept: Collection[str], *, of_groups: bool = True) -> None:
    """Reject a mistyped id, which would otherwise overrule nothing, in silence."""
    if not accept:
        return
    from k8sbench.app import finding_ids
    from k8sbench.model import rules

    known = finding_ids.REASONS if of_groups else rules.ALL
    for name in accept:
        if FORMER_IDS.get(name, name) not in known:
            raise NotFound(
                f"--accept {name}: there is no such reason.",
                did_you_mean(name, known) + "List them: k8sbench explain '*'",
            )
