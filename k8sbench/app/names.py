"""Names for shells to complete: quickly, from what lies on this machine, of no cluster."""

from __future__ import annotations


def runs(where: str | None) -> list[str]:
    """Return the ids of a store's runs, the newest first; none where the store is not a folder."""
    from k8sbench.adapters.store import quick_look

    return quick_look.runs(where)


def sets(where: str | None) -> list[str]:
    """Return the names of a store's sets, the newest first."""
    from k8sbench.adapters.store import quick_look

    return quick_look.sets(where)


def baselines(where: str | None) -> list[str]:
    """Return the names of a store's baselines, the one that was saved last first."""
    from k8sbench.adapters.store import quick_look

    return quick_look.baselines(where)


def benchmarks() -> list[str]:
    """Return the names of the built-in benchmarks."""
    from k8sbench.adapters.files import catalog

    return catalog.names()


def pools() -> list[str]:
    """Return the names of the user's node pools, or of the built-in ones."""
    from k8sbench.adapters.files import pools

    return sorted(pools.load().pools)


def reasons() -> list[str]:
    """Return the ids that ``--accept`` takes."""
    from k8sbench.measure.group import grouping
    from k8sbench.measure.run import reasons

    return sorted({*reasons.RULES, *grouping.REASONS})
