"""Why the pod of a batch/v1 Job does not run, by the rules for the pods of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k8sbench.diagnose.job import admission, scheduling, starting
from k8sbench.diagnose.job.facts import Facts, JobSnapshot, Replica
from k8sbench.model.finding import Finding
from k8sbench.model.kube import KubeObject, conditions, is_true, name_of

REFUSED = "FailedCreate"
"""Reason of the event with which the Job controller says that a pod was refused."""


class _Facts(Facts, frozen=True, kw_only=True):
    plan: Any = None

    def names(self, replica: Replica | None = None) -> dict[str, str]:
        names = {"namespace": self.namespace, "kind": "job", "job": name_of(self.job)}
        return names if replica is None else names | replica.names


def waits_for(
    job: KubeObject,
    pod: KubeObject | None,
    events: Sequence[KubeObject],
    *,
    container: str,
    now: float,
) -> Finding | None:
    """Return what the pod waits for, if it is a trouble; ``pod`` None: it was not created.

    ``events`` are those about the Job and the pod, oldest first.
    """
    snapshot = JobSnapshot(job=job, events=events)
    if pod is None:
        refused = [event for event in events if event.get("reason") == REFUSED]
        if not refused:
            return None
        message = str(refused[-1].get("message") or "").removeprefix("Error creating: ")
        head = f"The pod of {name_of(job)} is not created"
        where = {"namespace": job["metadata"]["namespace"]}
        return admission.cause(message, head, where)
    about = [event for event in events if event["involvedObject"]["name"] == name_of(pod)]
    replica = Replica(
        name="the pod", pod_name=name_of(pod), container=container, pod=pod, events=about
    )
    facts = _Facts(seen=snapshot, now=now, job=job, replicas=(replica,), events=())
    causes = (*starting.causes(facts), *scheduling.causes(facts))
    return next((cause for cause in causes if isinstance(cause, Finding)), None)


def ended(job: KubeObject) -> KubeObject | None:
    """Return the condition with which a Job has ended; None: it goes on."""
    by_type = conditions(job)
    ends = (by_type.get(name) for name in ("Complete", "Failed"))
    return next((condition for condition in ends if is_true(condition)), None)
