"""Why a job does not run yet: chooses among the causes of all its replicas.

A cause that cannot pass goes first. Then the stages in the order in which the user can do
something about them: pods that are refused, images, volumes, and last the wait for nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.diagnose.job import admission, endings, scheduling, starting
from k8sbench.diagnose.job.causes import finding_of
from k8sbench.diagnose.job.facts import Facts, names, quoted
from k8sbench.diagnose.job.reasons import Event
from k8sbench.model.counts import counted
from k8sbench.model.finding import Finding
from k8sbench.model.kube import QUEUE_LABEL, KubeObject, labels_of, moment
from k8sbench.model.phase import Phase

OPERATOR_SECONDS = 30.0
"""Without a sign of the operator for so long, it is not running; it takes 0.1 s when it is."""
QUEUE_SECONDS = 30.0
"""Kueue makes its Workload within a second."""
_GANG_MARKS = (
    ("annotations", "scheduling.k8s.io/group-name"),
    ("labels", "scheduling.x-k8s.io/pod-group"),
    ("labels", "pod-group.scheduling.sigs.k8s.io"),
)
_UNUSABLE = re.compile("doesn't exist|does not exist|inactive|not found|is stopped|HoldAndDrain")


def cause(facts: Facts) -> tuple[Finding | None, float | None]:
    """Return what a job waits for, if it is a trouble, and when to look again (seconds)."""
    if facts.suspended:
        return _queue(facts)
    failed = endings.unreported(facts)
    if failed is not None:
        return (None, failed) if isinstance(failed, float) else (failed, None)
    all_found = [*gang_ignored(facts), *admission.causes(facts), *starting.causes(facts)]
    all_found += [*scheduling.causes(facts), *_operator(facts)]
    later = [seconds for seconds in all_found if isinstance(seconds, float)]
    troubles = [finding for finding in all_found if isinstance(finding, Finding)]
    again = max(1.0, min(later)) if later else None
    if not troubles:
        return None, again
    worst = next((finding for finding in troubles if finding.severity == "fail"), troubles[0])
    return _half_placed(facts, worst), again


def gang_ignored(facts: Facts) -> Iterator[Finding]:
    """Say that the operator gave the pods to no gang scheduler, though that was asked for."""
    pods = [replica for replica in facts.replicas if replica.pod and not replica.gone]
    if facts.plan.gang and pods and not any(_in_a_gang(pod.meta, pod.spec) for pod in pods):
        yield finding_of("gang-ignored", facts.names(pods[0]))


def _in_a_gang(meta: KubeObject, spec: KubeObject) -> bool:
    if spec.get("schedulerName") not in (None, "", "default-scheduler"):
        return True
    return any(mark in (meta.get(where) or {}) for where, mark in _GANG_MARKS)


def _queue(facts: Facts) -> tuple[Finding, float | None]:
    queue = labels_of(facts.job).get(QUEUE_LABEL)
    where = facts.names() | {"queue": str(queue)}
    if queue is None:
        return finding_of("suspended", where), None
    why = _queue_message(facts)
    if not why and facts.age >= QUEUE_SECONDS:
        silence = f"in {facts.age:.0f} s Kueue has said nothing"
        return finding_of("queue-unusable", where, why=silence), None
    if not why:
        return finding_of(
            "queued", where, why="Kueue has said nothing yet"
        ), QUEUE_SECONDS - facts.age
    cause_id = "queue-unusable" if _UNUSABLE.search(why) else "queued"
    return finding_of(cause_id, where, why=quoted(why)), None


def _queue_message(facts: Facts) -> str:
    """Return Kueue's newest message on the job: from its Workload's conditions, else its events."""
    status = (facts.seen.workload or {}).get("status") or {}
    for wanted in ("QuotaReserved", "Admitted"):
        for condition in status.get("conditions") or []:
            if condition["type"] == wanted and condition.get("status") == "False":
                return str(condition.get("message", ""))
    for event in reversed(facts.seen.events):
        about = event.get("involvedObject") or {}
        by = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        if about.get("kind") == "Workload" or "kueue" in by.lower():
            return str(event.get("message", ""))
    return ""


def _operator(facts: Facts) -> Iterator[Finding | float]:
    """The operator itself: only where it has left pods uncreated and no refusal says why."""
    missing = [replica for replica in facts.replicas if replica.pod is None]
    if not missing or next(facts.events_of(Event.POD_REFUSED), None) is not None:
        return
    begun = _released_at(facts)
    if facts.now - begun < OPERATOR_SECONDS:
        yield OPERATOR_SECONDS - (facts.now - begun)
        return
    count = len(facts.replicas)
    elsewhere = (facts.seen.operator_seen_at or 0.0) > begun
    touched = facts.events or facts.job.get("status") or len(missing) < count
    cause_id = "operator-slow" if touched or elsewhere else "operator-down"
    pods = f"{count - len(missing)} of {counted(count, 'pod')}"
    yield finding_of(cause_id, facts.names(), seconds=f"{facts.now - begun:.0f}", pods=pods)


def _released_at(facts: Facts) -> float:
    """When the operator could begin: the job was created, or its queue released it."""
    held = facts.condition(Phase.QUEUED, only_true=False)
    if held is None:
        return facts.now - facts.age
    # Still true where the operator has not seen the release yet: its time is not known.
    resumed = moment(held.get("lastTransitionTime")) if held.get("status") == "False" else None
    return resumed or facts.now


def _half_placed(facts: Facts, worst: Finding) -> Finding:
    """Replace the wait for free nodes by what it means, where others of the job hold theirs."""
    placed = [
        replica
        for replica in facts.replicas
        if replica.node and not replica.ended and not replica.gone
    ]
    if worst.id != "no-node-fits" or not placed:
        return worst
    resource = facts.plan.pool.gpu_resource
    total = sum(scheduling.requests(replica.spec).get(resource, 0) for replica in placed)
    held = {"held": f"{total} {resource}" if total else "Nodes", "placed": names(placed)}
    return finding_of("half-placed", held, why=worst.sentence)
