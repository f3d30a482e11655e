"""One case of a submit or of a Benchmark object, planned."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from k8sbench.catalog.planning import with_identity
from k8sbench.model.plan import RunPlan
from k8sbench.ports.cluster import Manifest


class PlannedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case to run: its plan and how to render it.

    Each run replaces the placeholders for its identity.
    """

    draft: RunPlan
    """Complete plan, with placeholders for run id, set and repeat."""
    repeats: int = 1
    """Number of runs of the case."""
    manifests: Callable[[RunPlan], tuple[Manifest, ...]]
    """Renders a plan, to be shown or checked."""
    benchmark_file: str = ""
    """Text of the user's benchmark file; empty for a built-in benchmark."""
    run_id: str | None = None
    """Id of its run, which is joined if it exists; None: the run is named after its object."""
    is_new: bool = False
    """True if the id was drawn, so that no run can have it yet."""

    def plan(self, run_id: str, set_name: str, repeat: int = 1) -> RunPlan:
        """Return the plan of one run of this case."""
        return with_identity(self.draft, run_id=run_id, set_name=set_name, repeat=repeat)

    def on_node(self, node: str) -> PlannedCase:
        """Return the same case, pinned to a node."""
        return msgspec.structs.replace(self, draft=msgspec.structs.replace(self.draft, node=node))

    def for_object(self, uid: str, name: str) -> PlannedCase:
        """Return the same case, as a Benchmark object's."""
        draft = msgspec.structs.replace(self.draft, requested_by=uid, object_name=name)
        return msgspec.structs.replace(self, draft=draft)

    def in_namespace(self, namespace: str | None) -> PlannedCase:
        """Return the same case, of a Benchmark in a namespace of the API server."""
        draft = msgspec.structs.replace(self.draft, namespace=namespace)
        return msgspec.structs.replace(self, draft=draft)

    def like(self, existing: RunPlan) -> RunPlan:
        """Return the plan of this case with the identity of an existing run."""
        case = self.in_namespace(existing.namespace)
        return case.plan(existing.run_id, existing.set_name, existing.repeat)
