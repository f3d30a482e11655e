"""What a store's runs, and what is made of them, may be called on a command line."""

from __future__ import annotations

from typing import NamedTuple

from k8sbench.app import stores
from k8sbench.ports import RunFilter


class Names(NamedTuple):
    """The names that a store knows."""

    runs: list[str]
    """The newest first."""
    sets: list[str]
    prefixed_sets: list[str]
    """``set:NAME``, for a set that is called like something else."""
    baselines: list[str]
    """``baseline:NAME``."""
    groups: list[str]
    """Ids, if they were asked for: they are made of all runs."""


def names(where: str | None, *, with_groups: bool) -> Names:
    """Read the names that a store knows."""
    from k8sbench.measure.group import grouping

    with stores.to_read(where, lambda _: None) as store:
        runs = store.runs(RunFilter())[::-1]
        baselines = [f"baseline:{baseline.name}" for baseline in store.baselines()]
    sets = list(dict.fromkeys(run.plan.set_name for run in runs))
    groups = [group.key.id for group in grouping.groups(runs)] if with_groups else []
    prefixed = [f"set:{name}" for name in sets]
    return Names([run.run_id for run in runs], sets, prefixed, baselines, groups)
