"""``compare``, ``history`` and ``baseline``: sets beside each other; also for the collector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import collectors, results, stores
from k8sbench.measure.group import compare as comparing
from k8sbench.measure.group import grouping
from k8sbench.measure.group.compare import Side, differing
from k8sbench.model.counts import counted
from k8sbench.model.errors import NotFound, UsageError, did_you_mean, few
from k8sbench.model.group import EVERY, Group, GroupFilter, no_run_together
from k8sbench.model.identity import checked_set_name
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run, kept_run
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison, Series

Note = Callable[[str], None]
KINDS = ("baseline", "set", "group", "run")
"""Kinds of sides; ``KIND:NAME`` states one explicitly."""


class StoresRead(msgspec.Struct, frozen=True, kw_only=True):
    """Stores to search for runs and baselines, and their filter."""

    where: str | None = None
    """Folder or URL of a store, or ``cluster``."""
    access: ClusterAccess = ClusterAccess()
    accept: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, groups and baselines that names can refer to."""

    runs: Mapping[str, Run]
    groups: Sequence[Group]
    baselines: Mapping[str, Baseline]


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
    known = _read(scope, note)
    one, two = _side(a, known), _side(b, known)
    chosen.chosen([*one.groups, *two.groups])  # raises where nothing fits
    one, two = (
        msgspec.structs.replace(side, groups=tuple(filter(chosen.fits, side.groups)))
        for side in (one, two)
    )
    if both := _run_ids(one) & _run_ids(two):
        note(f"note: {counted(len(both), 'run', ('is', 'are'))} on both sides.")
    for side in (one, two):
        if count := sum(group.in_progress for group in side.groups):
            open_runs = counted(count, "run", ("is", "are"))
            note(f"note: {side.name}: {open_runs} open, without a figure as yet.")
    return comparing.compare(one, two, limit=limit)


def history(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> list[Series]:
    """Return every case of a benchmark over its sets, with the changes marked."""
    known = _read(scope, note)
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


# -- the newest sets against a baseline -----------------------------------------------------------


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the newest set, held against a baseline."""

    ratio: float
    is_separated: bool
    """True if the difference is statistically significant."""


def labels(plan: RunPlan) -> tuple[str, ...]:
    """Return the user-chosen names that make throughputs comparable over time."""
    return (
        *(plan.benchmark, plan.variant, plan.framework, plan.precision, plan.case),
        *(plan.preset, plan.pool.name),
    )


def held_against(where: str | None, name: str, newest: int) -> dict[tuple[str, ...], Held]:
    """Compare the newest set of each case with a baseline, by :func:`labels`.

    Only the ``newest`` runs of the store are considered, and sets with active runs are left out.
    Returns nothing if there is no such baseline.
    """
    with stores.to_read(where, lambda _: None) as store:
        kept = next((one for one in store.baselines() if one.name == name), None)
        if kept is None:
            return {}
        runs = store.runs(RunFilter(limit=newest))
    ours = _of_baseline(kept)
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
                is_separated = case.finding in ("faster", "slower")
                held[labels(group.plan)] = Held(ratio=case.ratio, is_separated=is_separated)
    return held


# -- baselines ------------------------------------------------------------------------------------


class BaselineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One baseline in ``baseline list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Name of the baseline, as ``compare`` takes it."""
    saved_at: float
    """Unix seconds."""
    of: tuple[str, ...]
    """Names of the runs, groups and sets given to ``baseline save``."""
    benchmarks: tuple[str, ...]
    """The benchmarks of its runs."""
    sets: tuple[str, ...]
    """The sets of its runs."""
    runs: int
    """Number of runs in the baseline."""
    source: str = "here"
    """Store of the baseline: ``here`` or ``collector``."""


def save_baseline(
    name: str, texts: Sequence[str], where: str | None, note: Note, *, replace: bool, at: float
) -> Baseline:
    """Keep the runs of a side that count, under a name."""
    checked_set_name(name, "baseline")
    with stores.to_write(where, create=False) as store:
        side = _side(",".join(texts), _known(store.runs(RunFilter()), store.baselines()))
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
    """List baselines by name, a collector's after local ones."""
    insist = scope.where == stores.CLUSTER
    with stores.to_read(stores.NOWHERE if insist else scope.where, note) as store:
        here = {baseline.name: _info(baseline, "here") for baseline in store.baselines()}
    theirs = collectors.baselines(scope.access, note, insist=insist)
    there = [_info(one, collectors.SOURCE) for one in theirs if one.name not in here]
    return [*here.values(), *there]


def remove_baseline(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    with stores.to_write(where, create=False) as store:
        store.remove_baseline(name)


def _info(baseline: Baseline, source: str) -> BaselineInfo:
    plans = [run.plan for run in baseline.runs]
    return BaselineInfo(
        name=baseline.name,
        saved_at=baseline.saved_at,
        of=baseline.of,
        benchmarks=tuple(sorted({plan.benchmark for plan in plans})),
        sets=tuple(dict.fromkeys(plan.set_name for plan in plans)),
        runs=len(plans),
        source=source,
    )


# -- sides, by name -------------------------------------------------------------------------------


def _read(scope: StoresRead, note: Note) -> Known:
    """Read the runs and baselines of a store, and of the collector."""
    results.check_accepted(scope.accept)
    with stores.with_collector(scope.where, scope.access, note) as (store, runs):
        here = store.baselines()
    # What hinders it was noted with the runs.
    insist = scope.where == stores.CLUSTER
    there = collectors.baselines(scope.access, lambda _: None, insist=insist)
    return _known(runs, [*there, *here], accept=scope.accept)


def _known(runs: Sequence[Run], kept: Iterable[Baseline], *, accept: Collection[str] = ()) -> Known:
    """Group runs and index baselines; later ones replace namesakes."""
    return Known(
        runs={run.run_id: run for run in runs},
        groups=grouping.groups(runs, accept=accept),
        baselines={baseline.name: baseline for baseline in kept},
    )


def _of_baseline(kept: Baseline) -> Side:
    """Return a baseline as a side, grouping only its own runs."""
    runs = kept.as_runs()
    by_id = {run.run_id: run for run in runs}
    return Side(name=kept.name, groups=tuple(grouping.groups(runs)), runs=by_id)


def _run_ids(side: Side) -> set[str]:
    return {member.run_id for group in side.groups for member in group.members}


def _side(text: str, known: Known) -> Side:
    """Find what a side's text stands for: names, separated by commas."""
    run_ids: set[str] = set()
    groups: list[Group] = []
    runs = {**known.runs}
    for part in text.split(","):
        kind, name = _meant(part.strip(), known)
        if kind == "baseline":
            kept = _of_baseline(known.baselines[name])
            groups += kept.groups
            runs |= kept.runs
        elif kind == "run":
            run_ids.add(name)
        else:
            of = [g for g in known.groups if name in (g.key.set_name, g.key.id)]
            run_ids |= {member.run_id for group in of for member in group.members}
    groups += comparing.chosen(known.groups, run_ids)
    return Side(name=text, groups=tuple(groups), runs=runs)


def _meant(text: str, known: Known) -> tuple[str, str]:
    """Return the kind and the full name of what a name stands for."""
    names = {
        "baseline": sorted(known.baselines),
        "set": sorted({group.key.set_name for group in known.groups}),
        "group": sorted({group.key.id for group in known.groups}),
        "run": list(known.runs),
    }
    prefix, _, rest = text.partition(":")
    kinds, name = ((prefix,), rest) if prefix in KINDS and rest else (KINDS, text)
    found = [(kind, name) for kind in kinds if name in names[kind]] or [
        (kind, known_name)
        for kind in kinds
        if kind in ("group", "run") and name
        for known_name in names[kind]
        if known_name.startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        some = few([f"{kind}:{known_name}" for kind, known_name in found])
        raise NotFound(f"{name!r} stands for {len(found)} things.", f"Write one of: {some}.")
    every = [known_name for kind in kinds for known_name in names[kind]]
    hint = did_you_mean(name, every) or "k8sbench list shows the runs and their sets."
    raise NotFound(f"There is no {' or '.join(kinds)} {name!r}.", hint)
