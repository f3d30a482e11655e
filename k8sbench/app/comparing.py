"""``compare`` and ``history``: sets beside each other; also for the collector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import results, sides, stores
from k8sbench.app.sides import StoresRead
from k8sbench.measure.group import compare as comparing
from k8sbench.measure.group import grouping
from k8sbench.measure.group.compare import Side, differing
from k8sbench.model.counts import counted
from k8sbench.model.errors import NotFound
from k8sbench.model.group import EVERY, GroupFilter, no_run_together
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison, Series

Note = Callable[[str], None]


def compare(
    a: str,
    b: str,
    scope: StoresRead,
    note: Note,
    *,
    limit: float | None = None,
    chosen: GroupFilter = EVERY,
) -> Comparison:
    """Compare the selected cases of two sides.

    Each side consists of runs, groups, sets or baselines.
    """
    results.check_accepted(scope.accept)
    known = sides.known(scope, note)
    one, two = sides.side(a, known), sides.side(b, known)
    chosen.chosen([*one.groups, *two.groups])  # raises where nothing fits
    one, two = (
        msgspec.structs.replace(side, groups=tuple(filter(chosen.fits, side.groups)))
        for side in (one, two)
    )
    both = {m.run_id for g in one.groups for m in g.members} & {
        m.run_id for g in two.groups for m in g.members
    }
    if both:
        note(f"note: {counted(len(both), 'run', ('is', 'are'))} on both sides.")
    for side in (one, two):
        count = _open_in(side)
        if count:
            open_runs = counted(count, "run", ("is", "are"))
            note(f"note: {side.name}: {open_runs} open, without a figure as yet.")
    return comparing.compare(one, two, limit=limit)


def _open_in(side: Side) -> int:
    runs = (side.runs[member.run_id] for group in side.groups for member in group.members)
    return sum(
        not run.phase.final or (run.phase is Phase.SUCCEEDED and run.measurement is None)
        for run in runs
    )


def history(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> list[Series]:
    """Return every case of a benchmark over its sets, with the changes marked."""
    results.check_accepted(scope.accept)
    known = sides.known(scope, note)
    if not known.groups:
        raise NotFound(f"There is no run of {chosen.benchmark}: there are no runs yet.")
    fitting = chosen.chosen(known.groups)
    at = since or 0.0
    # Older sets are not shown, but changes are told by all of them.
    shown = (
        msgspec.structs.replace(one, points=tuple(p for p in one.points if p.group.began[1] >= at))
        for one in comparing.history(fitting)
    )
    series = [one for one in shown if one.points]
    if not series:
        raise no_run_together(since, max(group.began[1] for group in fitting))
    return series


def labels(plan: RunPlan) -> tuple[str, ...]:
    """Return the user-chosen names that make throughputs comparable over time."""
    return (
        *(plan.benchmark, plan.variant, plan.framework, plan.precision, plan.case),
        *(plan.preset, plan.pool.name),
    )


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the newest set, held against a baseline."""

    labels: tuple[str, ...]
    """As :func:`labels` has them."""
    ratio: float
    is_separated: bool
    """True if the difference is statistically significant."""


def held_against(where: str | None, name: str, newest: int) -> list[Held]:
    """Compare the newest set of each case with a baseline.

    Only the ``newest`` runs of the store are considered, and sets with active runs are left out.
    Returns an empty list if there is no such baseline.
    """
    with stores.to_read(where, lambda _: None) as store:
        kept = next((one for one in store.baselines() if one.name == name), None)
        if kept is None:
            return []
        runs = store.runs(RunFilter(limit=newest))
    ours = sides.of_baseline(kept)
    # Its own sets are no news.
    sets = {run.plan.set_name for run in ours.runs.values()}
    complete = [
        group
        for group in grouping.groups(runs)
        if group.spread is not None and not group.in_progress and group.key.set_name not in sets
    ]
    held: dict[tuple[str, ...], Held] = {}
    for group in sorted(complete, key=lambda group: group.began[1]):
        side = Side(name="", groups=(group,), runs={run.run_id: run for run in runs})
        alike = [one for one in ours.groups if not differing(one, group)]
        against = msgspec.structs.replace(ours, groups=tuple(alike))
        for case in comparing.compare(against, side).cases if alike else ():
            if case.ratio is not None:
                key = labels(group.plan)
                is_separated = case.finding in ("faster", "slower")
                held[key] = Held(labels=key, ratio=case.ratio, is_separated=is_separated)
    return [*held.values()]
