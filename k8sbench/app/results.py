"""``results``: result rows of the whole store or of some runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import catalog, stores
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.measure.group import selection
from k8sbench.model.errors import BenchError, NotFound, did_you_mean
from k8sbench.model.finding import FORMER_IDS
from k8sbench.model.run import Run, merged
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.measure.group.selection import Report, Wanted
    from k8sbench.ports import Store
    from k8sbench.report.explanation import Row


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """Finished runs and the rows of their groups."""

    runs: tuple[Run, ...]
    report: Report
    rejected: frozenset[str]
    """Ids of invalid runs, including outliers within their groups."""
    refusals: tuple[BenchError, ...] = ()
    """Errors of jobs that were not created."""


def results(
    wanted: Wanted,
    scope: StoresRead,
    note: Note,
    *,
    published: bool = False,
) -> Report:
    """Make the selected rows of a store and the operator.

    If none match, notes what the store has. If the scope names the operator's store, only its runs
    count.
    """
    check_accepted(scope.accept)
    # Not of one set, nor by time: speedups refer to other sets, and a set may be older in part.
    query = {"benchmark": wanted.chosen.benchmark, "framework": wanted.chosen.framework}
    with stores.with_operator(scope, note, **query) as (store, runs):
        find = catalog.finder(store, note)
        report = selection.report(
            runs, wanted, accept=scope.accept, published=published, find=find, is_strict=True
        )
        if not report.results:
            stores.note_empty(store, note)
    return report


def rows(
    store: Store,
    runs: Sequence[Run],
    note: Note,
    *,
    accept: Collection[str] = (),
    among: Sequence[Run] = (),
) -> RunRows:
    """Make the rows that some runs belong to: the end of ``submit``.

    ``among`` are the other runs of the operator.
    """
    run_ids = {run.run_id for run in runs}
    known = {run.run_id: run for run in runs if run.source != stores.SOURCE}
    benchmarks = sorted({run.plan.benchmark for run in runs})
    ours = [run for name in benchmarks for run in store.runs(RunFilter(benchmark=name), known)]
    theirs = [*among, *(run for run in runs if run.source == stores.SOURCE)]
    both, _ = merged(ours, theirs)
    wanted = selection.Wanted(runs=tuple(run_ids))
    report = selection.report(both, wanted, accept=accept, find=catalog.finder(store, note))
    rejected = frozenset(
        member.run_id
        for row in report.results
        for member in row.group.members
        if member.run_id in run_ids
        and (member.verdict == "rejected" or row.group.state == "unsteady")
    )
    return RunRows(runs=tuple(runs), report=report, rejected=rejected)


def explain(text: str, scope: StoresRead, note: Note) -> list[Row]:
    """Explain a finding, run or group by its id."""
    from k8sbench.report import explanation, ids

    if found := list(ids.matching(text)):
        return found
    check_accepted(scope.accept)
    with stores.with_operator(scope, note) as (store, runs):
        try:
            return list(explanation.of(text, runs, scope.accept, catalog.finder(store, note)))
        except NotFound as missing:
            action = did_you_mean(text, ids.ALL) + (missing.action or "")
            raise NotFound(missing.message, action) from missing


def check_accepted(accept: Collection[str], *, of_groups: bool = True) -> None:
    """Reject a mistyped id, which would otherwise overrule nothing, in silence."""
    if not accept:
        return
    from k8sbench.measure import rules
    from k8sbench.report import ids

    known = ids.REASONS if of_groups else rules.ALL
    for name in accept:
        if FORMER_IDS.get(name, name) not in known:
            raise NotFound(
                f"--accept {name}: there is no such reason.",
                did_you_mean(name, known) + "List them: k8sbench explain '*'",
            )
