"""Selection of report rows from the recorded runs.

Groups are made of all runs at hand, because a baseline, a duplicate log or an older set may be
anywhere among them. Filters apply afterwards, to groups. By default only the latest set of each
case is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench.measure.group import grouping, history, ratios, speedup
from k8sbench.model.errors import UsageError
from k8sbench.model.group import (
    OUT_OF_MEMORY,
    Changed,
    Group,
    GroupFilter,
    Newer,
    Parity,
    Result,
    no_run_together,
)
from k8sbench.model.identity import GroupKey, check_set, resolve
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec

Sort = Literal["case", "throughput", "speedup", "efficiency", "created"]
"""Sort orders: figures are descending with missing values last.

``case``: by benchmark, framework, FP32 before AMP, GPUs. ``created``: newest first.
"""
_FIGURES: dict[Sort, Callable[[Result], float | None]] = {
    "throughput": lambda result: result.group.spread.median if result.group.spread else None,
    "speedup": lambda result: result.speedup.value,
    "efficiency": lambda result: result.efficiency.value,
    "created": lambda result: result.group.latest,
}
Find = Callable[[RunPlan], BenchmarkSpec | None]
"""The catalog entry of a plan, or None."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Row filter; all fields must match, None matches any."""

    chosen: GroupFilter = GroupFilter()
    set_name: str | None = None
    since: float | None = None
    """Only sets with a run created at or after, Unix seconds."""
    every: bool = False
    """All sets of each case, not only the latest."""
    runs: tuple[str, ...] = ()
    """Run ids: only their sets, and only rows with these runs; empty: any.

    With ``is_strict`` beginnings of ids do.
    """
    sort: Sort = "case"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that were asked for, and what stands beside them."""

    results: tuple[Result, ...]
    parities: tuple[Parity, ...]
    older: int = 0
    """Groups that fit too, but belong to an older set of their case."""
    fitting: tuple[Group, ...] = ()
    """All that fit, shown or not."""


def report(
    runs: Sequence[Run],
    wanted: Wanted,
    *,
    accept: Collection[str] = (),
    published: bool = False,
    find: Find = lambda _: None,
    is_strict: bool = False,
) -> Report:
    """Make the rows that are wanted of all runs at hand.

    ``is_strict``: filters that nothing of several rows fits are an error that names the nearest.
    """
    groups = grouping.groups(runs, accept=accept)
    if wanted.set_name is not None:
        newest_first = sorted(groups, key=lambda group: (-group.began[1], group.key.set_name))
        check_set(wanted.set_name, [group.key.set_name for group in newest_first])
    if is_strict:
        wanted.chosen.chosen(groups)
        run_ids = tuple(run_id(text, runs) for text in wanted.runs)
        wanted = msgspec.structs.replace(wanted, runs=run_ids)
    fitting = [group for group in groups if _fits(group, wanted)]
    if is_strict and groups and not fitting:
        raise no_run_together(wanted.since, max(group.latest for group in groups))
    every = wanted.every or wanted.runs or wanted.set_name is not None or wanted.since is not None
    shown, newer = (fitting, dict[str, Newer]()) if every else latest(fitting)
    made = speedup.results(shown, among=groups, find=find, published=published)
    results = sorted(_with_history(made, groups, newer), key=lambda it: _order(it.group.key))
    if figure := _FIGURES.get(wanted.sort):
        results.sort(key=lambda result: -(figure(result) or 0.0))
    pairs = sorted(ratios.parities(shown), key=lambda it: (*_order(it.paddle.key), it.pytorch.key))
    return Report(
        results=tuple(results),
        parities=tuple(pairs),
        older=len(fitting) - len(shown),
        fitting=tuple(fitting),
    )


def run_id(text: str, runs: Sequence[Run]) -> str:
    """Return the full id of a run; a set is an error."""
    ids = [run.run_id for run in runs]
    if text not in ids and any(run.plan.set_name == text for run in runs):
        way = f"Its runs: k8sbench results --set {text} -o wide"
        raise UsageError(f"{text!r} is a set, not a run.", way)
    return resolve(ids, text)


def latest(groups: Iterable[Group]) -> tuple[list[Group], dict[str, Newer]]:
    """Return of each case the groups of its latest set, in the order given.

    That is the latest that was measured, if any was: runs that go on, or were cancelled or failed
    later, do not hide it. By the ids of such groups comes the newest set, which was not.
    """
    groups = list(groups)
    by_case: dict[tuple[object, ...], dict[str, list[Group]]] = {}
    for group in groups:
        by_case.setdefault(group.key.only("series"), {}).setdefault(group.key.set_name, []).append(
            group
        )
    shown, newer = set[str](), dict[str, Newer]()
    for sets in by_case.values():
        order = sorted(sets, key=lambda name: (max(g.began[1] for g in sets[name]), name))
        measured = ("valid", "rejected", "unsteady")
        known = [name for name in order if any(g.state in measured for g in sets[name])]
        chosen, last = (known or order)[-1], order[-1]
        for group in sets[chosen]:
            shown.add(group.key.id)
            if last != chosen:
                state = max(sets[last], key=lambda one: one.began[1]).state
                newer[group.key.id] = Newer(set_name=last, state=state)
    return [group for group in groups if group.key.id in shown], newer


def _with_history(
    results: Sequence[Result], groups: Sequence[Group], newer: Mapping[str, Newer]
) -> Iterator[Result]:
    """Add what other sets and batch sizes of a case say.

    The last change, a newer set, and the fastest batch of its sweep.

    The history of a result ends with its own set. A set that differed alone, with a later set at
    the old level, is no change.
    """
    by_id, fastest = dict[str, Changed | None](), _fastest(groups)
    for series in history.history(groups):
        step = None
        for point in series.points:
            changed = step
            if point.change is not None:
                changed = Changed(since=point.group.key.set_name, ratio=point.change)
                step = changed if point.step else step
            by_id[point.group.key.id] = changed
    for result in results:
        key = result.group.key.id
        yield msgspec.structs.replace(
            result,
            changed=by_id.get(key),
            newer=newer.get(key),
            fastest_batch_size=fastest.get(key),
        )


def _order(key: GroupKey) -> tuple[object, ...]:
    program = (key.benchmark, key.framework, key.variant, key.impl, key.precision != "fp32")
    return (*program, key.amp_dtype, key.replicas * key.processes_per_replica, key)


def _fits(group: Group, wanted: Wanted) -> bool:
    return (
        wanted.chosen.fits(group)
        and wanted.set_name in (None, group.key.set_name)
        and (wanted.since is None or group.latest >= wanted.since)
        and (not wanted.runs or any(member.run_id in wanted.runs for member in group.members))
    )


def _fastest(groups: Iterable[Group]) -> dict[str, int | float]:
    """Map group id → batch size of the fastest group of its sweep.

    Only valid groups count, and none in which a run was out of memory. Smoke runs claim no speed.
    A group without another batch size has no sweep.
    """
    sweeps: defaultdict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in groups:
        if not group.smoke:
            sweeps[group.key.sweep].append(group)
    found: dict[str, int | float] = {}
    for sweep in sweeps.values():
        rates = [
            (group.spread.median, group.key.batch_size)
            for group in sweep
            if group.spread and group.state == "valid" and OUT_OF_MEMORY not in group.ids("reject")
        ]
        if rates and len({group.key.batch_size for group in sweep}) > 1:
            _, size = max(rates)
            found |= {group.key.id: size for group in sweep}
    return found
