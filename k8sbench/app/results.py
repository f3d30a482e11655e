"""``results``, ``explain``, ``compare``, ``history``, ``baseline``: rows and sets side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import catalog, stores
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.measure.group import comparison, selection, sides
from k8sbench.measure.group import history as histories
from k8sbench.measure.group.comparison import Held
from k8sbench.model.errors import (
    FIRST_RUN,
    FORMER_IDS,
    BenchError,
    NotFound,
    UsageError,
    did_you_mean,
)
from k8sbench.model.group import EVERY, GroupFilter, no_run_together
from k8sbench.model.identity import checked_set_name
from k8sbench.model.plain_text import counted
from k8sbench.model.run import Baseline, Run, kept_run, merged
from k8sbench.ports import RunFilter
from k8sbench.report.run_document import BaselineInfo, baseline_info

if TYPE_CHECKING:
    from k8sbench.measure.group.selection import Report, Wanted
    from k8sbench.model.compared import CaseHistory, Comparison
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
    """Explain a finding, run or group by its id.

    The beginning of a run's id is enough, if it is unique.
    """
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


# -- compare, history and baseline; also for the operator ------------------------------------------


def compare(
    a: str,
    b: str,
    scope: StoresRead,
    note: Note,
    *,
    limit: float | None = None,
    floor: float = comparison.FLOOR,
    chosen: GroupFilter = EVERY,
) -> Comparison:
    """Compare the selected cases of two sides.

    Each side consists of runs, groups, sets or baselines. The store's other sets tell how much
    sets of a case vary.
    """
    known = _read(scope, note)
    one, two = sides.named(a, known), sides.named(b, known)
    chosen.chosen([*one.groups, *two.groups])  # raises where nothing fits
    one, two = (
        msgspec.structs.replace(side, groups=tuple(filter(chosen.fits, side.groups)))
        for side in (one, two)
    )
    if both := one.run_ids & two.run_ids:
        note(f"note: {counted(len(both), 'run', ('is', 'are'))} on both sides.")
    for side in (one, two):
        if count := sum(group.in_progress for group in side.groups):
            open_runs = counted(count, "run", ("is", "are"))
            note(f"note: {side.name}: {open_runs} open, without a figure as yet.")
    return comparison.compare(one, two, limit=limit, floor=floor, among=known.groups)


def history(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> list[CaseHistory]:
    """Return every case of a benchmark over its sets, with the changes marked."""
    known = _read(scope, note)
    if not known.groups:
        raise NotFound(f"There is no run of {chosen.benchmark}: there are no runs yet.", FIRST_RUN)
    fitting = chosen.chosen(known.groups)
    series = histories.history(known.groups, since or 0.0, chosen.fits)
    if not series:
        raise no_run_together(since, max(group.began[1] for group in fitting))
    return series


# -- the newest sets against a baseline -----------------------------------------------------------


def held_against(where: str | None, name: str, newest: int) -> dict[tuple[str, ...], Held]:
    """Compare the newest set of each case with a baseline, if there is one.

    Only the ``newest`` runs of the store are considered.
    """
    with stores.to_read(where, lambda _: None) as store:
        kept = next((one for one in store.baselines() if one.name == name), None)
        return {} if kept is None else comparison.against(kept, store.runs(RunFilter(limit=newest)))


# -- baselines ------------------------------------------------------------------------------------


def save_baseline(
    name: str, texts: Sequence[str], where: str | None, note: Note, *, replace: bool, at: float
) -> Baseline:
    """Keep the runs of a side that count, under a name."""
    checked_set_name(name, "baseline")
    with stores.to_write(where, create=False) as store:
        side = sides.named(",".join(texts), sides.known(store.runs(RunFilter()), store.baselines()))
        valid = [m.run_id for g in side.groups for m in g.members if m.rate is not None]
        left_out = sum(len(group.members) for group in side.groups) - len(valid)
        if not valid:
            raise UsageError(
                f"No run of {side.name} counts, so there is nothing to compare with.",
                "See why with: k8sbench results",
            )
        if left_out:
            note(
                f"{left_out} of the runs do not count and are left out; k8sbench results says why."
            )
        kept = tuple(kept_run(side.runs[run_id]) for run_id in valid)
        made = Baseline(name=name, saved_at=at, of=tuple(texts), runs=kept)
        store.save_baseline(made, replace=replace)
    return made


def list_baselines(scope: StoresRead, note: Note) -> list[BaselineInfo]:
    """List baselines by name, an operator's after local ones."""
    insist = scope.where == stores.CLUSTER
    with stores.to_read(stores.NOWHERE if insist else scope.where, note) as store:
        here = {baseline.name: baseline_info(baseline, "here") for baseline in store.baselines()}
    theirs = stores.operator_baselines(scope.access, note, insist=insist)
    there = [baseline_info(one, stores.SOURCE) for one in theirs if one.name not in here]
    return [*here.values(), *there]


def remove_baseline(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    with stores.to_write(where, create=False) as store:
        store.remove_baseline(name)


def _read(scope: StoresRead, note: Note) -> sides.Known:
    """Read the runs and baselines of a store, and of the operator."""
    check_accepted(scope.accept)
    with stores.with_operator(scope, note) as (store, runs):
        here = store.baselines()
    # What hinders it was noted with the runs.
    insist = scope.where == stores.CLUSTER
    there = stores.operator_baselines(scope.access, lambda _: None, insist=insist)
    return sides.known(runs, [*there, *here], accept=scope.accept)
