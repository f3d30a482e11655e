"""What the chart publishes in a namespace for the command line."""

from __future__ import annotations

from k8sbench.adapters.files.pools import PublishedPools
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault

POOLS, POOLS_KEY = "dlperf-pools", "pools.yaml"


def pools(api: Api) -> PublishedPools | None:
    """Return the namespace's pools file; None: there is none, or the user may not read it.

    Raises :class:`BenchError`.
    """
    namespace = api.place.namespace
    try:
        found = api.get(kinds.path("ConfigMap", namespace, POOLS))
    except ApiFault as fault:
        if fault.status in {403, 404}:
            return None
        raise api.explained(fault, f"the node pools of namespace {namespace} be read") from fault
    text = (found.get("data") or {}).get(POOLS_KEY)
    return None if text is None else PublishedPools(text, f"ConfigMap {namespace}/{POOLS}")
