"""Paths of API objects by kind."""

from __future__ import annotations

from k8sbench.model.benchmark_object import API_VERSION as BENCHMARK_VERSION
from k8sbench.model.kinds import KINDS

_API_PATHS = {
    "Benchmark": f"/apis/{BENCHMARK_VERSION}",
    "Deployment": "/apis/apps/v1",
    "Job": "/apis/batch/v1",
    "Lease": "/apis/coordination.k8s.io/v1",
    "SelfSubjectAccessReview": "/apis/authorization.k8s.io/v1",
}
"""Kind → path of its API group and version; others: the core API."""
_RUNTIMES = {kind.runtime.name: kind for kind in KINDS.values() if kind.runtime is not None}


def path(kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """Return the path of a kind's objects, or of one object."""
    if kind in KINDS:
        root, plural = f"/apis/{KINDS[kind].api_version}", KINDS[kind].plural
    elif kind in _RUNTIMES:
        of = _RUNTIMES[kind]
        assert of.runtime is not None
        root, plural = f"/apis/{of.api_version}", of.runtime.plural
    else:
        root = _API_PATHS.get(kind, "/api/v1")
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    where = f"{root}/namespaces/{namespace}" if namespace else root
    return "/".join(filter(None, (where, plural, name, subresource)))
