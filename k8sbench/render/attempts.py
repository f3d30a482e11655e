"""The objects of a run's second and later attempts: those of the first, with their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import ATTEMPT_LABEL


def numbered(manifests: Sequence[Mapping[str, Any]], attempt: int) -> tuple[Mapping[str, Any], ...]:
    """Return a run's objects, and the pods of its job, with the number of the attempt."""
    mark = {ATTEMPT_LABEL: str(attempt)}
    found = []
    for manifest in manifests:
        one = _marked(manifest, mark)
        kind = KINDS.get(str(one.get("kind")))
        if kind is not None and kind.replicas_key in one.get("spec", {}):
            replicas = {
                role: {**spec, "template": _marked(spec["template"], mark)}
                for role, spec in one["spec"][kind.replicas_key].items()
            }
            one["spec"] = {**one["spec"], kind.replicas_key: replicas}
        found.append(one)
    return tuple(found)


def _marked(found: Mapping[str, Any], mark: Mapping[str, str]) -> dict[str, Any]:
    metadata = dict(found.get("metadata") or {})
    for key in ("labels", "annotations"):
        metadata[key] = {**(metadata.get(key) or {}), **mark}
    return {**found, "metadata": metadata}
