"""The nodes of a cluster that have some labels, and the pools of nodes that its chart publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from k8sbench.adapters.files.pools import PublishedPools
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.model.errors import UsageError
from k8sbench.model.kube import KubeObject

POOLS, POOLS_KEY = "dlperf-pools", "pools.yaml"


def labelled(api: Api, labels: Mapping[str, str], selector: str = "") -> Sequence[KubeObject]:
    """List the nodes that have all labels, and that a selector as kubectl's ``-l`` takes.

    Raises :class:`BenchError`, also where the user may not list nodes, which is a right of its own.
    """
    wanted = [*(f"{key}={value}" for key, value in labels.items()), *filter(None, [selector])]
    try:
        return api.list(kinds.path("Node"), labels=",".join(wanted))[0]
    except ApiFault as fault:
        if fault.status == 400 and selector:
            raise UsageError(
                f"-l {selector!r} is not a label selector.",
                "Write it as for kubectl: rack=7,zone!=b.",
            ) from fault
        raise api.explained(fault, "the nodes be listed") from fault


def published_pools(api: Api) -> PublishedPools | None:
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
