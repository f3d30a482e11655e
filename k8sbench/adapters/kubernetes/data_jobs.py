"""The Job of a data set on a claim: created or joined, followed to its end, deleted."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.client.sending import READ_SECONDS
from k8sbench.adapters.kubernetes.trainer_sources import Trainers
from k8sbench.diagnose.job import admission, scheduling, waiting
from k8sbench.diagnose.job.facts import Facts, JobSnapshot, Replica, message_of
from k8sbench.model.errors import JobFailed, TimedOut
from k8sbench.model.finding import Finding
from k8sbench.model.kube import KubeObject, conditions, is_true, name_of
from k8sbench.model.limits import SERVER_SECONDS
from k8sbench.render.data_job import CONTAINER, LABEL
from k8sbench.render.trainer_sources import mounted_by

Tell = Callable[[str], None]
_REFUSED = "Error creating: "
"""How the Job controller's event begins where a pod was refused."""


class _Facts(Facts, frozen=True, kw_only=True):
    """What was seen of a Job, which has no plan."""

    plan: Any = None

    def names(self, replica: Replica | None = None) -> dict[str, str]:
        names = {"namespace": self.namespace, "kind": "job", "job": name_of(self.job)}
        return names if replica is None else names | replica.names


def start(api: Api, job: Mapping[str, Any]) -> tuple[KubeObject, bool]:
    """Create a Job, or join the Job of its name; returns whether it is new.

    Raises :class:`UsageError` where an object of the name is not ours.
    """
    try:
        if (trainers := mounted_by(job)) is not None:
            Trainers(api).provide(trainers)
        return ownership.made(api, job, LABEL, "Use another namespace or another folder.")
    except ApiFault as fault:
        raise api.explained(fault, f"Job {name_of(job)} be created") from fault


def _delete(api: Api, path: str, created: KubeObject) -> None:
    """Delete an object of ours, and what it owns."""
    with contextlib.suppress(ApiFault):  # a Job's time to live ends it
        api.delete(path, uid=created["metadata"]["uid"])


def follow(api: Api, job: KubeObject, tell: Tell) -> int:
    """Tell the lines of a Job's program, delete the Job at its end, return the exit code.

    Raises :class:`JobFailed` and :class:`TimedOut` where the program did not come to its end.
    """
    path = kinds.path("Job", api.place.namespace, name_of(job))
    told = Counter[str]()
    said: str | None = None
    code: int | None = None
    try:
        while code is None:
            # The Job first: where it has ended, the log that is read after it is whole.
            job = api.get(path)
            pod = _pod(api, job)
            trouble = _tell_log(api, pod, told, tell) if pod.has_log else _trouble(api, job, pod)
            if trouble is not None and trouble != said:
                tell(said := trouble)
            code = _exit_code(job, pod)
            if code is None:
                api.pause(SERVER_SECONDS)
    except ApiFault as fault:
        if fault.status == 404:
            message = f"The Job {name_of(job)} was deleted before its end was seen."
            raise JobFailed(message, "The same command creates it again and continues.") from fault
        raise api.explained(fault, f"Job {name_of(job)} be followed") from fault
    except (JobFailed, TimedOut):
        _delete(api, path, job)
        raise
    _delete(api, path, job)
    return code


def _pod(api: Api, job: KubeObject) -> Replica:
    """Return the newest pod of a Job with its events; those of the Job where it has none."""
    namespace, selector = api.place.namespace, job["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{label}={value}" for label, value in selector.items())
    pods, _ = api.list(kinds.path("Pod", namespace), labels=labels)
    pod = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    about = (pod or job)["metadata"]
    fields = f"involvedObject.uid={about['uid']}"
    events, _ = api.list(kinds.path("Event", namespace), fields=fields)
    return Replica(
        name="the pod", pod_name=about["name"], container=CONTAINER, pod=pod, events=events
    )


def _tell_log(api: Api, pod: Replica, told: Counter[str], tell: Tell) -> str | None:
    """Tell the lines of a pod that are new; returns why its log cannot be read."""
    path = kinds.path("Pod", api.place.namespace, pod.pod_name, "log")
    try:
        lines = list(api.stream(path, {"container": CONTAINER}, silence_s=READ_SECONDS))
    except ApiFault as fault:
        if fault.denied:
            raise
        # Its node may be lost: then another pod takes its place.
        return f"The log of {pod.pod_name} cannot be read now: {fault.message}."
    for line in lines[told[pod.pod_name] :]:
        if line.endswith(b"\n") or pod.stopped:
            tell(line.decode(errors="replace").rstrip("\n"))
            told[pod.pod_name] += 1
    return None


def _trouble(api: Api, job: KubeObject, pod: Replica) -> str | None:
    """Say what the pod waits for; raises what no waiting changes."""
    facts = _Facts(seen=JobSnapshot(job=job), now=api.time(), job=job, replicas=(pod,), events=())
    head = f"The pod of {name_of(job)} is not created"
    refusals = [
        admission.cause(message_of(event).removeprefix(_REFUSED), head, facts.names())
        for event in pod.events
        if event.get("reason") == "FailedCreate"
    ]
    for cause in (*waiting.unstarted(facts), *scheduling.causes(facts), *refusals):
        if isinstance(cause, Finding):
            error = JobFailed(cause.sentence, cause.action or "")
            if cause.severity == "fail":
                raise error
            return str(error)
    return None


def _exit_code(job: KubeObject, pod: Replica) -> int | None:
    """Return the exit code of the program of a Job that has ended; None: it goes on."""
    ends, ending = conditions(job), pod.ending
    if is_true(ends.get("Complete")):
        return 0
    if not is_true(ends.get("Failed")):
        return None
    if ends["Failed"].get("reason") == "DeadlineExceeded":
        message = f"The Job {name_of(job)} took longer than it may."
        raise TimedOut(message, "The same command continues; --timeout gives it more time.")
    if ending is not None and ending.code in {2, 3}:
        return ending.code
    why = str(ends["Failed"].get("message")).rstrip(".")
    if ending is not None:
        why = f"its program ended with exit code {ending.code} ({ending.reason})"
    message = f"The Job {name_of(job)} failed: {why}."
    raise JobFailed(message, "The lines above are its log; the same command continues.")
