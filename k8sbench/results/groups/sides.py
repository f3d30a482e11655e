"""Sides of a comparison: what their names stand for, and their cases.

The groups of a side form cases as in a history (:func:`.history.cases`). Cases of the two sides
that are equal in what stays the same over sets are counterparts; what is left is paired by
benchmark, framework and case, those first that differ in the least; and where each of two sides
that were named is one single case, these are a pair, whatever they are.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum

import msgspec

from k8sbench.model.errors import FIRST_RUN, NoSide, NotFound, did_you_mean, list_few
from k8sbench.model.group import Group, GroupRow, rows_named
from k8sbench.model.identity import NOT_STATED, fields_for
from k8sbench.model.plain_text import counted
from k8sbench.model.run import Baseline, Run
from k8sbench.model.series import DAY
from k8sbench.results.groups import group_figures, grouping, history, nights
from k8sbench.results.groups.known import KnownGroups

KINDS = ("baseline", "set", "group", "run")
"""Kinds of sides; ``KIND:NAME`` states one explicitly."""
SERIES = fields_for("series")
ALWAYS_EQUAL = ("benchmark", "framework", "case")
"""Fields that counterparts share, unless each side was named and is a single case."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison, as named."""

    name: str
    groups: tuple[Group, ...]
    runs: Mapping[str, Run]
    """By id: at least the members of the groups."""
    day: str = ""
    """Day (UTC) of a night; empty for what was named."""

    @property
    def run_ids(self) -> set[str]:
        """Ids of the members of its groups."""
        return {member.run_id for group in self.groups for member in group.members}

    def cases(self) -> list[list[Group]]:
        """Its groups by case; each oldest first, in the order of their keys."""
        by_id: dict[str, list[Group]] = {}
        for group in self.groups:
            by_id.setdefault(group.key.id, []).append(group)
        rows = {group.key.id: group.row for group in self.groups}
        cases = [
            [group for row in case for group in by_id[row.group_id]]
            for case in history.cases(rows.values())
        ]
        return sorted(cases, key=lambda groups: groups[-1].key)


def chosen(groups: Sequence[Group], run_ids: Collection[str]) -> list[Group]:
    """Return the groups of some runs, with figures of these runs alone."""
    kept = []
    for group in groups:
        members = tuple(member for member in group.members if member.run_id in run_ids)
        if len(members) == len(group.members):
            kept.append(group)
        elif members:
            rates = [member.rate for member in members if member.rate is not None]
            middle = {group.estimator: statistics.median(rates)} if rates else {}
            kept.append(
                msgspec.structs.replace(
                    group,
                    members=members,
                    spread=group_figures.spread(rates) if rates else None,
                    by_estimator=middle,
                )
            )
    return kept


def counterparts(a: Side, b: Side) -> list[tuple[list[Group], list[Group]]]:
    """Pair the cases of two sides; an empty one has no counterpart."""
    left = a.cases()
    right = b.cases()
    is_of_nights = bool(a.day and b.day)
    if len(left) == len(right) == 1 and not is_of_nights:
        return [(left[0], right[0])]
    near = sorted(
        (len(unlike), mine[-1].key.gpu_model != theirs[-1].key.gpu_model, unlike, i, j)
        for i, mine in enumerate(left)
        for j, theirs in enumerate(right)
        if all(getattr(mine[-1].key, n) == getattr(theirs[-1].key, n) for n in ALWAYS_EQUAL)
        for unlike in (differing(mine[-1], theirs[-1]),)
    )
    pairs: list[tuple[int, int]] = []
    of_left: dict[int, tuple[object, ...]] = {}
    of_right: dict[int, tuple[object, ...]] = {}
    for *distance, i, j in near:
        nearness = tuple(distance)
        is_free = _is_free(left[i], right[j], of_left.get(i), nearness)
        if is_free and _is_free(right[j], left[i], of_right.get(j), nearness):
            pairs.append((i, j))
            of_left[i] = of_right[j] = nearness
    nobody: list[Group] = []
    met = [(i, left[i], right[j]) for i, j in pairs]
    met += [(i, left[i], nobody) for i in range(len(left)) if i not in of_left]
    met.sort(key=lambda each: each[0])
    alone = [(nobody, right[j]) for j in range(len(right)) if j not in of_right]
    return [*((mine, theirs) for _, mine, theirs in met), *alone]


def _is_free(
    case: Sequence[Group],
    other: Sequence[Group],
    paired: tuple[object, ...] | None,
    nearness: tuple[object, ...],
) -> bool:
    """Return True if a case may have another as its counterpart.

    ``paired`` is how near a counterpart is that it has; None without one. A case without a
    namespace has one in each namespace.
    """
    has_others = case[-1].key.namespace == NOT_STATED != other[-1].key.namespace
    return paired is None or (has_others and paired == nearness)


def differing(one: Group, two: Group) -> tuple[str, ...]:
    """Return the differing fields that stay the same over a case's sets."""
    return tuple(name for name in SERIES if one.key.differs(two.key, name))


# -- nights ---------------------------------------------------------------------------------------


def newest_nights(known: KnownGroups, rows: Iterable[GroupRow]) -> list[Side]:
    """Return the newest night of some rows, and the one before it, that one first.

    The newest night has a set that has ended, with a figure or without. The one before it is the
    last one with a figure, else the last one; there may be none. Smoke runs and CPU runs claim no
    speed, and are of no night.
    """
    by_night = nights.of_each(row for row in rows if row.measures == "speed")
    newest = max((at for at in by_night if _has_ended(by_night[at])), default=None)
    if newest is None:
        return []
    older = [at for at in by_night if at < newest]
    with_figure = [at for at in older if any(row.median is not None for row in by_night[at])]
    chosen = [*(with_figure or older)[-1:], newest]
    sets = Counter(name for night in by_night.values() for name in {row.set_name for row in night})
    return [_night_side(known, at, by_night[at], sets) for at in chosen]


def _has_ended(rows: Iterable[GroupRow]) -> bool:
    return any(not row.in_progress for row in rows)


def _night_side(
    known: KnownGroups, at: int, rows: Sequence[GroupRow], sets: Mapping[str, int]
) -> Side:
    """Return a night as a side; it is named after its set if it is all of that."""
    day = f"{datetime.fromtimestamp(DAY * at, UTC):%Y-%m-%d}"
    names = {row.set_name for row in rows}
    name, *others = names
    if others or sets[name] > 1:
        name = f"{counted(len(names), 'set')} of {day} (UTC)"
    groups = sorted(known.groups(rows), key=lambda group: group.key)
    return Side(name=name, groups=tuple(groups), runs={}, day=day)


# -- by name --------------------------------------------------------------------------------------


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Groups and baselines that names can refer to."""

    groups: KnownGroups
    baselines: Mapping[str, Baseline]


def known(groups: KnownGroups, kept: Iterable[Baseline]) -> Known:
    """Index baselines by name beside groups."""
    return Known(groups=groups, baselines={baseline.name: baseline for baseline in kept})


def of_baseline(kept: Baseline) -> Side:
    """Return a baseline as a side, grouping only its own runs."""
    by_id = {run.run_id: run for run in kept.runs}
    return Side(name=kept.name, groups=tuple(grouping.groups(kept.runs)), runs=by_id)


def named(text: str, known: Known) -> Side:
    """Find what a side's text stands for: names, separated by commas."""
    run_ids: set[str] = set()
    rows: set[GroupRow] = set()
    groups: list[Group] = []
    kept_runs: dict[str, Run] = {}
    for part in text.split(","):
        kind, name = _meant(part.strip(), known, text)
        if kind == "baseline":
            kept = of_baseline(known.baselines[name])
            # A run counts once, whatever names it.
            groups += chosen(kept.groups, kept.runs.keys() - kept_runs.keys())
            kept_runs |= kept.runs
        elif kind == "run":
            run_ids.add(name)
            sets = known.groups.sets_of([name])
            rows |= {row for row in known.groups.rows if row.set_name in sets}
        else:
            is_group = kind == "group"
            of = set(
                rows_named(known.groups.rows, name)
                if is_group
                else (row for row in known.groups.rows if row.set_name == name)
            )
            rows |= of
            run_ids |= {m.run_id for group in known.groups.groups(of) for m in group.members}
    of_store = sorted(known.groups.groups(rows), key=lambda group: group.key)
    groups += chosen(of_store, run_ids - kept_runs.keys())
    members = {member.run_id for group in groups for member in group.members}
    runs = {run_id: known.groups.runs[run_id] for run_id in members - kept_runs.keys()}
    return Side(name=text, groups=tuple(groups), runs=runs | kept_runs)


class Fit(IntEnum):
    """Fit of a name to the names that a store has."""

    NONE = 0
    BEGINS = 1
    """It is the beginning of a name."""
    WHOLE = 2


def fit(text: str, known: Known) -> Fit:
    """Return how well a name fits what is known."""
    _, name = kinds_and_name(text)
    found = _found(text, _names(known), known)
    if any(known_name == name for _, known_name in found):
        return Fit.WHOLE
    return Fit.BEGINS if found else Fit.NONE


def _names(known: Known) -> dict[str, list[str]]:
    """Return what names can stand for, by kind."""
    return {
        "baseline": sorted(known.baselines),
        "set": sorted({row.set_name for row in known.groups.rows}),
        "group": sorted({row.group_id for row in known.groups.rows}),
        "run": list(known.groups.runs),
    }


def kinds_and_name(text: str) -> tuple[Sequence[str], str]:
    """Return the kinds that a name may be of, and the name."""
    prefix, _, rest = text.partition(":")
    return ((prefix,), rest) if prefix in KINDS and rest else (KINDS, text)


def _found(text: str, names: Mapping[str, Sequence[str]], known: Known) -> list[tuple[str, str]]:
    """Return the kinds and the full names of what a name may stand for."""
    kinds, name = kinds_and_name(text)
    found = [(kind, name) for kind in kinds if name in names[kind]] or [
        (kind, known_name)
        for kind in kinds
        if kind in ("group", "run") and name
        for known_name in names[kind]
        if known_name.startswith(name)
    ]
    if not found and "group" in kinds and name:
        former = {row.former_id for row in rows_named(known.groups.rows, name)}
        found = [("group", former_id) for former_id in sorted(former)]
    return found


def _meant(text: str, known: Known, side: str) -> tuple[str, str]:
    """Return the kind and the full name of what a name of a side stands for."""
    names = _names(known)
    kinds, name = kinds_and_name(text)
    found = _found(text, names, known)
    if len(found) == 1:
        return found[0]
    if found:
        some = list_few([f"{kind}:{known_name}" for kind, known_name in found])
        raise NotFound(f"{name!r} stands for {len(found)} things.", f"Write one of: {some}.")
    every = [known_name for kind in kinds for known_name in names[kind]]
    near = did_you_mean(name, every)
    hint = near or ("k8sbench list shows the runs and their sets." if every else FIRST_RUN)
    if kinds == ("baseline",):
        hint = near or "k8sbench baseline save NAME SET makes one."
    raise NoSide(f"There is no {' or '.join(kinds)} {name!r}.", hint, side)
