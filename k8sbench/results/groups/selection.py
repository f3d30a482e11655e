"""Selection of report rows from the recorded runs.

Filters apply to the rows of all groups; in full are read the groups of the sets that are shown, and
the 1x1 cases of their speedups. By default only the latest set of each case is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.compared import CaseHistory, Comparison, MissingCase, OpenBegin
from k8sbench.model.errors import UsageError
from k8sbench.model.facts import Facts
from k8sbench.model.group import (
    OUT_OF_MEMORY,
    UNSTEADY,
    Group,
    GroupRow,
    MissingIn,
    Newer,
    Parity,
    Result,
)
from k8sbench.model.group_filter import GroupFilter, no_run_together
from k8sbench.model.identity import UNKNOWN, GroupKey
from k8sbench.model.names import check_set, resolve
from k8sbench.model.series import Judged, night_of
from k8sbench.results.groups import (
    comparison,
    history,
    known,
    missing,
    new_cases,
    opened,
    ratios,
    speedup,
)
from k8sbench.results.groups.known import KnownGroups
from k8sbench.results.groups.sides import Side

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
Find = Callable[[Facts], BenchmarkSpec | None]
"""The catalog entry of a plan, or None."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Row filter; all fields must match, None matches any."""

    chosen: GroupFilter = GroupFilter()
    set_name: str | None = None
    since: float | None = None
    """Only sets with a run since then, of imported logs by their dates, Unix seconds."""
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
    retired: tuple[Group, ...] = ()
    """Newest groups of cases that are not measured any more: they are not shown."""
    series: tuple[CaseHistory, ...] = ()
    """The cases of the rows over their sets, if it was asked for."""
    compared: Comparison | None = None
    """Comparison of the newest two nights, if it was asked for and there are two."""
    begins: tuple[OpenBegin, ...] = ()
    """Sets in which the open changes of the cases began, if it was asked for."""


def report(
    groups: KnownGroups,
    wanted: Wanted,
    *,
    published: bool = False,
    find: Find = lambda _: None,
    is_strict: bool = False,
    over_sets: bool = False,
) -> Report:
    """Make the rows that are wanted.

    ``is_strict``: filters that nothing of several rows fits are an error that names the nearest.
    ``over_sets``: also the histories of their cases, where their open changes began, and the
    comparison of the newest two nights.
    """
    rows = groups.rows
    if wanted.set_name is not None:
        newest_first = sorted(rows, key=lambda row: (-row.ended, row.set_name))
        check_set(wanted.set_name, [row.set_name for row in newest_first])
    if is_strict:
        wanted.chosen.chosen(rows)
        run_ids = tuple(run_id(text, groups) for text in wanted.runs)
        wanted = msgspec.structs.replace(wanted, runs=run_ids)
    fitting = _fitting(groups, wanted)
    if is_strict and rows and not fitting:
        raise no_run_together(wanted.since, max(row.ended for row in rows))
    every = wanted.every or wanted.runs or wanted.set_name is not None or wanted.since is not None
    shown, newer, gone, retired = (
        _Current(fitting, {}, {}, []) if every else _current(fitting, groups)
    )
    sets = {row.set_name for row in shown}
    of_sets = groups.groups(row for row in rows if row.set_name in sets)
    ids = {row.group_id for row in shown}
    made = [group for group in of_sets if group.key.id in ids]
    among = known.singles(groups, made)
    results = speedup.results(made, among=among, find=find, published=published)
    judged = history.as_of(shown, groups)
    ages = {} if every else _ages(shown)
    marked = (
        msgspec.structs.replace(
            result,
            missing_in=gone.get(result.group.key.id),
            behind_s=ages.get(result.group.key.id),
        )
        for result in _with_history(results, judged, _fastest(of_sets, judged), newer)
    )
    ordered = sorted(marked, key=lambda it: _order(it.group.key))
    if figure := _FIGURES.get(wanted.sort):
        ordered.sort(key=lambda result: -(figure(result) or 0.0))
    pairs = sorted(ratios.parities(made), key=lambda it: (*_order(it.paddle.key), it.pytorch.key))
    # Missing cases come first.
    ordered.sort(key=lambda result: result.missing_in is None)
    made_report = Report(
        results=tuple(ordered),
        parities=tuple(pairs),
        older=len(fitting) - len(shown) - len(retired),
        retired=tuple(groups.groups(retired)),
    )
    if not over_sets:
        return made_report
    cases = {row.series for row in shown}
    over_time = histories(groups, (row for row in fitting if row.series in cases))
    return msgspec.structs.replace(
        made_report,
        series=tuple(over_time),
        compared=comparison.newest_nights(groups, fitting),
        begins=tuple(opened.begins(over_time, groups)),
    )


class _Current(NamedTuple):
    """The rows that stand for some cases, and what newer sets say of them."""

    shown: Sequence[GroupRow]
    newer: Mapping[str, Newer]
    """Newer sets without a figure, by group id."""
    gone: Mapping[str, MissingIn]
    """Newer sets that lack the case, by group id."""
    retired: Sequence[GroupRow]
    """Rows that are not shown: their cases are not measured any more."""


def _current(fitting: Sequence[GroupRow], groups: KnownGroups) -> _Current:
    """Return the rows of the latest set of each case."""
    rows = groups.rows
    shown, newer = latest(fitting)
    gone = missing.in_newer_sets(shown, rows)
    # Sets that do not fit what is asked for end nothing: what was asked for is shown.
    lacking = gone if len(fitting) == len(rows) else missing.in_newer_sets(shown, fitting)
    retired = _retired(shown, lacking, groups)
    return _Current([row for row in shown if row not in retired], newer, gone, retired)


def missing_cases(
    fitting: Iterable[GroupRow], groups: KnownGroups, nights: Iterable[Side]
) -> tuple[MissingCase, ...]:
    """Return the cases that a report of some rows calls missing and that some nights lack."""
    present = [group.row for night in nights for group in night.groups]
    cases = {(row.series, row.gpu_model) for row in present}
    series = {row.series for row in present}

    def is_present(row: GroupRow) -> bool:
        """Return True if a night has the case; a row without a figure may name no GPU."""
        if row.gpu_model == UNKNOWN:
            return row.series in series
        return not cases.isdisjoint(((row.series, row.gpu_model), (row.series, UNKNOWN)))

    speeds = [row for row in fitting if row.measures == "speed"]
    if all(map(is_present, speeds)):
        return ()
    shown, _, gone, _ = _current(speeds, groups)
    rows = [row for row in shown if row.group_id in gone]
    rows = [row for row in rows if not is_present(row)]
    found = sorted(groups.groups(rows), key=lambda group: group.key)
    return tuple(MissingCase(group, gone[group.key.id]) for group in found)


MOST_SETS = 60
"""Newest sets of a case that are drawn, or printed without ``--since``; all are judged."""


def histories(
    groups: KnownGroups, fitting: Iterable[GroupRow], since: float | None = None
) -> list[CaseHistory]:
    """Return the newest sets of each case that has a fitting row; with ``since`` all since then.

    Earlier sets count for the marks.
    """
    fitting = list(fitting)
    chosen = {row.group_id for row in fitting if since is None or row.ended >= since}
    wanted = {row.series for row in fitting}
    found: list[CaseHistory] = []
    for case in history.cases(row for row in groups.rows if row.series in wanted):
        rows = [row for row in case if row.group_id in chosen]
        rows = rows[-MOST_SETS:] if since is None else rows
        if rows:
            found.append(history.history(case, rows, groups))
    lines = [one.group.row.line for one in found]
    new = new_cases.new_cases(lines, groups)
    found = [
        msgspec.structs.replace(one, new=new.get(line))
        for one, line in zip(found, lines, strict=True)
    ]
    return sorted(found, key=lambda one: one.group.key)


def run_id(text: str, groups: KnownGroups) -> str:
    """Return the full id of a run, or of the one run of a set; a set of several is an error."""
    ids = list(groups.runs)
    rows = [row for row in groups.rows if row.set_name == text]
    if text in ids or not rows:
        return resolve(ids, text)
    runs = [member.run_id for group in groups.groups(rows) for member in group.members]
    if len(runs) != 1:
        way = f"Its runs: k8sbench results --set {text} -o wide"
        raise UsageError(f"{text!r} is a set, not a run.", way)
    return runs[0]


def latest(rows: Iterable[GroupRow]) -> tuple[list[GroupRow], dict[str, Newer]]:
    """Return of each case the rows of its latest set, in the order given.

    That is the latest that was measured, if any was: runs that go on, or were cancelled or failed
    later, do not hide it. By the ids of such groups comes the newest set, which was not.
    """
    rows = list(rows)
    models = history.gpu_models(rows)
    by_case: defaultdict[tuple[str, str], list[GroupRow]] = defaultdict(list)
    for row in rows:
        by_case[row.series, models[row.group_id]].append(row)
    shown = set[str]()
    newer = dict[str, Newer]()
    for sets in by_case.values():
        last = max(sets, key=_end)
        measured = [row for row in sets if row.state in ("valid", "rejected", UNSTEADY)]
        chosen = max(measured or sets, key=_end).set_name
        its = [row.group_id for row in sets if row.set_name == chosen]
        shown.update(its)
        if chosen != last.set_name:
            one = Newer(set_name=last.set_name, state=last.state)
            newer |= dict.fromkeys(its, one)
    return [row for row in rows if row.group_id in shown], newer


def _end(row: GroupRow) -> tuple[float, str, str]:
    return row.ended, row.set_name, row.state


def _retired(
    shown: Sequence[GroupRow], lacking: Mapping[str, MissingIn], groups: KnownGroups
) -> list[GroupRow]:
    """Return the rows of cases that are not measured any more, and of which nothing is open."""
    found = [row for row in shown if row.group_id in lacking and lacking[row.group_id].gone]
    judged = history.as_of(found, groups)
    return [row for row in found if judged[row.group_id].open is None]


def _ages(shown: Sequence[GroupRow]) -> dict[str, float]:
    """Return by how much the sets of rows are older than the newest, if of an earlier night."""
    begins: dict[str, float] = {}
    for row in shown:
        begins[row.set_name] = min(row.began, begins.get(row.set_name, row.began))
    newest = max(begins.values(), default=0.0)
    older = {name: at for name, at in begins.items() if night_of(at) < night_of(newest)}
    return {row.group_id: newest - older[row.set_name] for row in shown if row.set_name in older}


def _with_history(
    results: Sequence[Result],
    judged: Mapping[str, Judged],
    fastest: Mapping[str, int | float],
    newer: Mapping[str, Newer],
) -> Iterator[Result]:
    """Add what other sets and batch sizes of a case say.

    The change, a newer set, and the fastest batch of its sweep.
    """
    for result in results:
        key = result.group.key.id
        yield msgspec.structs.replace(
            result,
            changed=history.changed(judged[key], result.group.key.set_name),
            alternating=judged[key].alternating,
            newer=newer.get(key),
            fastest_batch_size=fastest.get(key),
        )


def _order(key: GroupKey) -> tuple[object, ...]:
    program = (key.benchmark, key.framework, key.variant, key.impl, key.precision != "fp32")
    return (*program, key.amp_dtype, key.replicas * key.processes_per_replica, key)


def _fitting(groups: KnownGroups, wanted: Wanted) -> list[GroupRow]:
    rows = [
        row
        for row in wanted.chosen.fitting(groups.rows)
        if wanted.set_name in (None, row.set_name)
        and (wanted.since is None or row.ended >= wanted.since)
    ]
    if not wanted.runs:
        return rows
    sets = groups.sets_of(wanted.runs)
    rows = [row for row in rows if row.set_name in sets]
    with_runs = {
        group.key.id
        for group in groups.groups(rows)
        if any(member.run_id in wanted.runs for member in group.members)
    }
    return [row for row in rows if row.group_id in with_runs]


def _fastest(groups: Iterable[Group], judged: Mapping[str, Judged]) -> dict[str, int | float]:
    """Map group id → batch size of the fastest group of its sweep.

    It is the fastest if a comparison would call it faster than each other size. Only valid groups
    count, and none in which a run was out of memory. Smoke runs claim no speed. A group without
    another batch size has no sweep.
    """
    sweeps: defaultdict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in groups:
        if not group.smoke:
            sweeps[group.key.sweep].append(group)
    found: dict[str, int | float] = {}
    for sweep in sweeps.values():
        for alike in _by_gpu_model(sweep):
            size = _fastest_of(alike, judged)
            if size is not None:
                found |= {group.key.id: size for group in alike}
    return found


def _by_gpu_model(sweep: Sequence[Group]) -> list[list[Group]]:
    """Return the groups of a sweep by GPU model; those that name none are of each."""
    models = {group.key.gpu_model for group in sweep}
    named = sorted(models - {UNKNOWN} or models)
    return [[one for one in sweep if one.key.gpu_model in (model, UNKNOWN)] for model in named]


def _fastest_of(alike: Sequence[Group], judged: Mapping[str, Judged]) -> int | float | None:
    """Return the batch size of the fastest group; None without a second one that was tried.

    One that did not fit was tried, too.
    """
    alike = [group for group in alike if group.facts.batch_size is not None]
    too_large = {g.key.batch_size for g in alike if OUT_OF_MEMORY in g.ids("reject")}
    by_size: dict[int | float, Group] = {}
    for group in sorted(alike, key=lambda group: group.spread.median if group.spread else 0.0):
        if group.spread and group.state == "valid" and OUT_OF_MEMORY not in group.ids("reject"):
            by_size[group.key.batch_size] = group
    if not by_size or len(by_size.keys() | too_large) < 2:
        return None
    best = comparison.fastest([*by_size.values()], judged)
    return None if best is None else best.key.batch_size
