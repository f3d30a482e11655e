"""The scope of the watches: which objects of the namespace are watched for the jobs followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.reflector import Source
from k8sbench.diagnose.job.reasons import FREQUENT_SILENT_EVENTS
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import RUN_LABEL, KubeObject
from k8sbench.model.plan import RunPlan

MOST_SETS = 10
"""Sets that are named in one selector; beyond that all of k8sbench's jobs are watched."""
_EVENT_FIELDS = ",".join(f"reason!={reason}" for reason in FREQUENT_SILENT_EVENTS)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """One run, the runs of some sets, or all of k8sbench's."""

    run: str | None = None
    sets: frozenset[str] | None = None

    @classmethod
    def of(cls, plans: Sequence[RunPlan], taken_up: bool) -> Scope:
        """Choose for jobs to follow; one that is taken up comes alone, new ones come with more."""
        if len(plans) == 1 and taken_up:
            return cls(run=plans[0].run_id)
        return cls._of_sets(frozenset(plan.set_name for plan in plans))

    @classmethod
    def _of_sets(cls, sets: frozenset[str]) -> Scope:
        return cls(sets=sets) if len(sets) <= MOST_SETS else cls()

    def with_(self, plans: Sequence[RunPlan]) -> Scope:
        """Widen for more jobs, if need be; it never narrows, for each change costs a listing."""
        if self.run is not None:
            others = any(plan.run_id != self.run for plan in plans)
            return Scope.of(plans, taken_up=False) if others else self
        if self.sets is None:
            return self
        return self._of_sets(self.sets | {plan.set_name for plan in plans})

    @property
    def labels(self) -> str:
        """The label selector."""
        if self.run is not None:
            return f"{RUN_LABEL}={self.run}"
        if self.sets is not None:
            return f"{LABEL_DOMAIN}/set in ({','.join(sorted(self.sets))})"
        return "app.kubernetes.io/managed-by=k8sbench"

    def source(self, kind: str, namespace: str) -> Source:
        """Return where the objects of a kind are, and by what these are chosen among them."""
        path = kinds.path(kind, namespace)
        if kind == "Event":
            return Source(kind=kind, path=path, fields=_EVENT_FIELDS)
        return Source(kind=kind, path=path, labels=self.labels)


def keeper(kind: str, runs: set[str]) -> Callable[[KubeObject], KubeObject | None]:
    """Make the function that keeps what is needed of objects that belong to these runs."""
    trim = trimming.trimmer(kind)
    return lambda found: trim(found) if trimming.run_of(kind, found) in runs else None
