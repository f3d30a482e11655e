"""Names for shells to complete: quickly, from what lies on this machine, of no cluster."""

from __future__ import annotations

from collections.abc import Iterable


def known(kind: str, store: str | None) -> Iterable[str]:
    """Return the names of a kind: of a store's runs, sets and baselines the newest first.

    ``store`` is a folder or URL; None: the default place.
    """
    match kind:
        case "benchmarks":
            from k8sbench.adapters.files import catalog

            return catalog.names()
        case "pools":
            from k8sbench.adapters.files import pools

            return sorted(pools.load().pools)
        case "data-sets":
            from k8sbench.model.data_set import DATA_SETS

            return [data_set.name for data_set in DATA_SETS]
        case "reasons":
            from k8sbench.measure.group import rules as of_groups
            from k8sbench.measure.run import rules as of_runs

            return sorted({*of_runs.ALL, *of_groups.ALL})
        case _:
            from k8sbench.adapters.store import quick_look

            return quick_look.names(kind, store)
