"""CRD of ``Benchmark`` in a cluster: whether it is there, and in which version."""

from __future__ import annotations

import re

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import Tolerated
from k8sbench.model.benchmark_object import API_VERSION, SCHEMA
from k8sbench.model.errors import Unreachable

APPLY = "k8sbench operator crd | kubectl apply --server-side -f -"
"""Command that installs or upgrades the CRD."""
_NUMBER = re.compile(r"\(schema ([0-9]{1,9})\)")


def schema(api: Api) -> int | None:
    """Return the schema number of the cluster's CRD; None without the CRD.

    Everybody may read it. A CRD without a number is 0. Raises :class:`ApiFault`.
    """
    with Tolerated(404):
        found = api.get(f"/openapi/v3/apis/{API_VERSION}")
        types = (found.get("components") or {}).get("schemas") or {}
        return max((number(str(one.get("description") or "")) for one in types.values()), default=0)
    return None


def number(description: str) -> int:
    """Return the schema number that a description states; 0 if it states none."""
    found = _NUMBER.search(description)
    return 0 if found is None else int(found[1])


def check(api: Api) -> None:
    """Raise :class:`Unreachable` without a CRD that this version can serve."""
    with api.explaining("the CRD of Benchmark be read"):
        found = schema(api)
    if found is None:
        raise Unreachable("The cluster has no CRD of Benchmark objects.", f"Run: {APPLY}")
    if found < SCHEMA:
        raise Unreachable(
            f"The cluster's CRD of Benchmark objects has schema {found}; schema {SCHEMA} is"
            " needed.",
            f"Run: {APPLY}",
        )
