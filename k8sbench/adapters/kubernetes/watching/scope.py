"""Label and field selectors of the watches for the jobs that are followed."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.reflector import Source
from k8sbench.diagnose.job.reasons import FREQUENT_SILENT_EVENTS
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import RUN_LABEL, KubeObject
from k8sbench.model.plan import RunPlan

MOST_SETS = 10
"""Most sets in one selector; beyond that all of k8sbench's jobs are watched."""
_EVENT_FIELDS = ",".join(f"reason!={reason}" for reason in FREQUENT_SILENT_EVENTS)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one run, of some sets, or all of k8sbench's."""

    run: str | None = None
    sets: frozenset[str] | None = None

    @classmethod
    def of(cls, plans: Sequence[RunPlan], is_resumed: bool) -> Scope:
        """Choose the scope of jobs; a new one is watched with its set, as more jobs may follow."""
        if len(plans) == 1 and is_resumed:
            return cls(run=plans[0].run_id)
        sets = frozenset(plan.set_name for plan in plans)
        return cls(sets=sets) if len(sets) <= MOST_SETS else cls()

    def with_(self, plans: Sequence[RunPlan]) -> Scope:
        """Widen the scope for these jobs; it never narrows: each change costs a list."""
        if self.run is not None:
            others = any(plan.run_id != self.run for plan in plans)
            return Scope.of(plans, is_resumed=False) if others else self
        if self.sets is None:
            return self
        sets = self.sets | {plan.set_name for plan in plans}
        return Scope(sets=sets) if len(sets) <= MOST_SETS else Scope()

    @property
    def labels(self) -> str:
        """The label selector."""
        if self.run is not None:
            return f"{RUN_LABEL}={self.run}"
        if self.sets is not None:
            return f"{LABEL_DOMAIN}/set in ({','.join(sorted(self.sets))})"
        return "app.kubernetes.io/managed-by=k8sbench"

    def source(self, kind: str, namespace: str) -> Source:
        """Return the path and the selectors of the objects of a kind."""
        path = kinds.path(kind, namespace)
        if kind == "Event":
            return Source(kind=kind, path=path, fields=_EVENT_FIELDS)
        return Source(kind=kind, path=path, labels=self.labels)


def keeper(
    kind: str, runs: Container[str], ended: Container[str] = ()
) -> Callable[[KubeObject], KubeObject | None]:
    """Make the function that trims objects of these runs and drops all others.

    Of those that have ended it keeps the jobs.
    """
    trim = {"Pod": trimming.pod, "Event": trimming.event}.get(kind, trimming.job)
    if trim is not trimming.job:
        ended = ()

    def keep(found: KubeObject) -> KubeObject | None:
        run_id = trimming.run_of(kind, found)
        return trim(found) if run_id in runs or run_id in ended else None

    return keep
