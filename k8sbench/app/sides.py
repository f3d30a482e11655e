"""Sides of a comparison, by name: runs, groups, sets, baselines."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from k8sbench.app import collectors, stores
from k8sbench.measure.group import grouping
from k8sbench.measure.group.compare import Side, chosen
from k8sbench.model.errors import NotFound, UsageError, few
from k8sbench.model.group import Group
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run

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


def known(scope: StoresRead, note: Callable[[str], None]) -> Known:
    """Read the runs and baselines of a store, and of the collector."""
    with stores.with_collector(scope.where, scope.access, note) as (store, runs):
        here = store.baselines()
    # What hinders it was noted with the runs.
    insist = scope.where == stores.CLUSTER
    there = collectors.baselines(scope.access, lambda _: None, insist=insist)
    return made_of(runs, [*there, *here], accept=scope.accept)


def made_of(
    runs: Sequence[Run], kept: Iterable[Baseline], *, accept: Collection[str] = ()
) -> Known:
    """Group runs and index baselines; later ones replace namesakes."""
    return Known(
        runs={run.run_id: run for run in runs},
        groups=grouping.groups(runs, accept=accept),
        baselines={baseline.name: baseline for baseline in kept},
    )


def of_baseline(kept: Baseline) -> Side:
    """Return a baseline as a side, grouping only its own runs."""
    runs = kept.as_runs()
    return Side(
        name=kept.name,
        groups=tuple(grouping.groups(runs)),
        runs={run.run_id: run for run in runs},
    )


def side(text: str, known: Known) -> Side:
    """Find what a side's text stands for: names, separated by commas."""
    if not isinstance(text, str):
        raise UsageError("A side is one text.", "Write several names with commas: first,second.")
    run_ids: set[str] = set()
    groups: list[Group] = []
    runs: dict[str, Run] = {}
    for part in map(str.strip, text.split(",")):
        if not part:
            raise UsageError(f"{text!r} has an empty name.", "Write no blank after a comma: a,b.")
        kind, name = _meant(part, known)
        if kind == "baseline":
            kept = of_baseline(known.baselines[name])
            groups += kept.groups
            runs |= kept.runs
        elif kind == "run":
            run_ids.add(name)
        else:
            run_ids |= {
                member.run_id
                for group in known.groups
                if name == (group.key.set_name if kind == "set" else group.key.id)
                for member in group.members
            }
    groups += chosen(known.groups, run_ids)
    return Side(name=text, groups=tuple(groups), runs={**known.runs, **runs})


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
    exact = [kind for kind in kinds if name in names[kind]]
    if len(exact) > 1:
        raise UsageError(
            f"{name!r} names a {' and a '.join(exact)}.",
            f"Write {' or '.join(f'{kind}:{name}' for kind in exact)}.",
        )
    if exact:
        return exact[0], name
    begins = [
        (kind, known_name)
        for kind in kinds
        if kind in ("group", "run") and name
        for known_name in names[kind]
        if known_name.startswith(name)
    ]
    if len(begins) == 1:
        return begins[0]
    if begins:
        shown = few([known_name for _, known_name in begins])
        raise NotFound(f"{name!r} begins {len(begins)} names.", f"Give more of it: {shown}.")
    every = {known_name for kind in kinds for known_name in names[kind]}
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    either = kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    raise NotFound(
        f"There is no {either} {name!r}.",
        f"Nearest: {', '.join(near)}." if near else "k8sbench list shows the runs and their sets.",
    )
