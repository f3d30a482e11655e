"""Lease of the operator in each namespace that it serves.

The Lease alone says whether an operator serves a namespace. Annotations hold the operator's place
and version. The Lease has no ownerReference: after the operator's end it shows the last renewal.
"""

from __future__ import annotations

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import annotations_of, moment

LEASE = "k8sbench-operator"
"""Name of the Lease, one in each served namespace."""
PLACE_ANNOTATION = f"{LABEL_DOMAIN}/operator"
"""Namespace and name of the operator's Service, ``NAMESPACE/NAME``."""
VERSION_ANNOTATION = f"{LABEL_DOMAIN}/operator-version"
ALIVE_SECONDS = 30.0
"""Age of a renewal up to which the operator counts as alive."""
SEEN_SECONDS = 10.0
"""Limit of retries of :func:`seen`, seconds."""


class OperatorSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The operator of a namespace, as its Lease shows it."""

    namespace: str
    """Namespace in which the operator runs."""
    name: str
    """Name of its Service; with the namespace its identity."""
    version: str
    """Its version of k8sbench."""
    age_s: float
    """Seconds since its last renewal, by the API server's clock."""

    @property
    def is_alive(self) -> bool:
        """True if it renewed its Lease lately."""
        return self.age_s <= ALIVE_SECONDS


def seen(api: Api) -> OperatorSeen | None:
    """Return the operator that serves the namespace; None without one.

    Retries for a few seconds, then raises :class:`BenchError`. A Lease without a place belongs to
    no operator.
    """
    here = api.place.namespace
    with api.explaining(f"Lease {LEASE} be read"):
        found = api.find(kinds.path("Lease", here, LEASE), retry_s=SEEN_SECONDS)
    annotations = {} if found is None else annotations_of(found)
    namespace, _, name = annotations.get(PLACE_ANNOTATION, "").partition("/")
    if found is None or not name:
        return None
    renewed_at = moment((found.get("spec") or {}).get("renewTime"))
    return OperatorSeen(
        namespace=namespace,
        name=name,
        version=annotations.get(VERSION_ANNOTATION, ""),
        age_s=max(0.0, api.time() - (renewed_at or 0.0)),
    )
