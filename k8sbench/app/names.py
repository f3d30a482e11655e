"""What a store's runs, and what is made of them, may be called on a command line."""

from __future__ import annotations

from k8sbench.app import stores
from k8sbench.ports import RunFilter


def names(where: str | None, *, with_groups: bool) -> dict[str, list[str]]:
    """Read the names that a store knows, by kind; the newest runs and sets first.

    ``prefixed_sets`` are ``set:NAME``, for a set that is called like something else, ``baselines``
    ``baseline:NAME``. ``groups`` are made of all runs, and empty unless they are asked for.
    """
    from k8sbench.measure.group import grouping

    with stores.to_read(where, lambda _: None) as store:
        runs = store.runs(RunFilter())[::-1]
        baselines = [f"baseline:{baseline.name}" for baseline in store.baselines()]
    sets = list(dict.fromkeys(run.plan.set_name for run in runs))
    return {
        "runs": [run.run_id for run in runs],
        "sets": sets,
        "prefixed_sets": [f"set:{name}" for name in sets],
        "baselines": baselines,
        "groups": [group.key.id for group in grouping.groups(runs)] if with_groups else [],
    }
