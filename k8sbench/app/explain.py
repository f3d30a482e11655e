"""``explain``: what a figure was made of."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from k8sbench.app import catalog, records, results, stores
from k8sbench.app.stores import Note
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.request import ClusterAccess

if TYPE_CHECKING:
    from k8sbench.report.explanation import Row


def explain(
    text: str,
    where: str | None,
    note: Note,
    *,
    access: ClusterAccess,
    accept: Collection[str] = (),
) -> list[Row]:
    """Explain a run (id or unique prefix) or a group (id)."""
    from k8sbench.measure.group import grouping, speedup
    from k8sbench.report import explanation

    results.check_accepted(accept)
    with stores.with_collector(where, access, note) as (store, runs):
        groups = grouping.groups(runs, accept=accept)
        if text.startswith("g-"):  # as the ids of groups do
            named = [group for group in groups if group.key.id.startswith(text)]
            if len(named) != 1:
                count = f"{len(named)} groups begin with" if named else "There is no group"
                way = "k8sbench results -o wide shows the groups' ids."
                raise NotFound(f"{count} {text!r}.", way)
            (result,) = speedup.results(named, among=groups, find=catalog.finder(store, note))
            return list(explanation.of_group(result))
        is_run = any(run.run_id == text for run in runs)
        if not is_run and any(run.plan.set_name == text for run in runs):
            raise UsageError(
                f"{text!r} is a set, not a run or a group.",
                f"See their ids with: k8sbench results --set {text} -o wide",
            )
        by_id = {run.run_id: run for run in runs}
        run_id = records.resolve(list(by_id), text)
        group = next(each for each in groups if any(m.run_id == run_id for m in each.members))
        return list(explanation.of_run(by_id[run_id], group))
