"""The objects of a run's second and later attempts: those of the first, with their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import ATTEMPT_LABEL


def numbered(manifests: Sequence[Mapping[str, Any]], attempt: int) -> tuple[Mapping[str, Any], ...]:
    """Return a run's objects, and the pods of its job, with the number of the attempt."""
    mark = {ATTEMPT_LABEL: str(attempt)}
    marked = []
    for manifest in manifests:
        copy = _marked(manifest, mark)
        kind = KINDS.get(str(copy.get("kind")))
        if kind is not None and kind.replicas_key in copy.get("spec", {}):
            replicas = {
                role: {**spec, "template": _marked(spec["template"], mark)}
                for role, spec in copy["spec"][kind.replicas_key].items()
            }
            copy["spec"] = {**copy["spec"], kind.replicas_key: replicas}
        marked.append(copy)
    return tuple(marked)


def _marked(manifest: Mapping[str, Any], mark: Mapping[str, str]) -> dict[str, Any]:
    metadata = dict(manifest.get("metadata") or {})
    for key in ("labels", "annotations"):
        metadata[key] = {**(metadata.get(key) or {}), **mark}
    return {**manifest, "metadata": metadata}
