"""Jobs that prepare or check data on a claim: created or joined, followed to their end, deleted."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs.resume import Mark, Resume
from k8sbench.adapters.kubernetes.logs.text import LogText
from k8sbench.diagnose.job import single_pod
from k8sbench.model.errors import JobFailed, TimedOut, Unreachable, UsageError
from k8sbench.model.kube import KubeObject, annotations_of, labels_of, name_of
from k8sbench.model.limits import SERVER_SECONDS
from k8sbench.render.data_job import CONTAINER, LABEL, WORDS_ANNOTATION

GOING_SECONDS = 60.0
"""How long a Job of the same name that has ended may take to go."""
SILENCE_SECONDS = 300.0
"""Without a line, after which a log is asked for anew."""
AWAY_SECONDS = 300.0
"""How long the API server may be away while a Job is followed."""

Tell = Callable[[str], None]
_CONFLICT, _NOT_FOUND = 409, 404


def check_claim(api: Api, name: str, *, writes: bool) -> None:
    """Raise an error unless the claim exists and can be mounted for what is wanted."""
    namespace = api.place.namespace
    try:
        claim = api.find(kinds.path("PersistentVolumeClaim", namespace, name))
        if claim is not None and "spec" not in claim:
            raise ApiFault(None, faults.NOT_KUBERNETES, "its answer is not an object of its API")
    except ApiFault as fault:
        raise api.explained(fault, f"claim {name} be read") from fault
    if claim is None:
        raise UsageError(
            f"There is no volume claim {name} in {namespace}.",
            f"'kubectl -n {namespace} get pvc' lists those there are.",
        )
    if writes and set(claim["spec"].get("accessModes", ())) == {"ReadOnlyMany"}:
        raise UsageError(
            f"The volume claim {name} is ReadOnlyMany: nothing can be written to it.",
            "Name a claim with ReadWriteOnce or ReadWriteMany.",
        )


def start(api: Api, manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Create a Job and its ConfigMap; False: one that does the same is at work already.

    Raises :class:`UsageError` where a Job of the name does something else.
    """
    sources, job = manifests
    name = job["metadata"]["name"]
    try:
        standing, is_new = _standing(api, job)
        _check_same(standing, job)
        try:
            _provide(api, sources, standing)
        except (ApiFault, UsageError):
            if is_new:
                remove(api, name)
            raise
    except ApiFault as fault:
        raise api.explained(fault, f"Job {name} be created") from fault
    return is_new


def _standing(api: Api, job: Mapping[str, Any]) -> tuple[KubeObject, bool]:
    """Return the Job of a name that goes on, and whether it was created.

    One that has ended is deleted, and waited for.
    """
    name, home = job["metadata"]["name"], kinds.path("Job", api.place.namespace)
    until = time.monotonic() + GOING_SECONDS
    while True:
        standing = api.find(f"{home}/{name}")
        if standing is None:
            try:
                return api.create(home, job), True
            except ApiFault as fault:
                if fault.status != _CONFLICT:  # of another process that was first
                    raise
        elif "deletionTimestamp" not in standing["metadata"]:
            if labels_of(standing).get(LABEL) != name or single_pod.ended(standing) is None:
                return standing, False
            api.delete(f"{home}/{name}", uid=standing["metadata"]["uid"])
        if time.monotonic() > until:
            raise Unreachable(
                f"The earlier Job {name} does not go.",
                f"'kubectl -n {api.place.namespace} get job {name} -o yaml' says what holds it.",
            )
        api.pause(0.3)


def _provide(api: Api, sources: Mapping[str, Any], job: KubeObject) -> None:
    """Create the ConfigMap, which goes with its Job; the Job's pod waits for it."""
    uid = job["metadata"]["uid"]
    home = kinds.path("ConfigMap", api.place.namespace)
    standing = api.find(path := f"{home}/{name_of(job)}")
    if standing is not None:
        owners = standing["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == uid for owner in owners):
            return
        _check_ours(standing, "ConfigMap")
        api.delete(path, uid=standing["metadata"]["uid"])  # of an earlier Job of the name
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(job), "uid": uid}
    try:
        api.create(
            home, {**sources, "metadata": {**sources["metadata"], "ownerReferences": [owner]}}
        )
    except ApiFault as fault:
        if fault.status != _CONFLICT:  # of another process that is at this, too
            raise


def _check_same(standing: KubeObject, job: Mapping[str, Any]) -> None:
    """Reject a Job of the name that is not ours, or does something else."""
    name, namespace = name_of(standing), standing["metadata"]["namespace"]
    _check_ours(standing, "Job")
    if annotations_of(standing).get(WORDS_ANNOTATION) != annotations_of(job)[WORDS_ANNOTATION]:
        raise UsageError(
            f"The Job {name} is at work on this folder with other options or another k8sbench.",
            "Give the same ones to follow it, or end it with"
            f" 'kubectl -n {namespace} delete job {name}': what it fetched is kept.",
        )


def _check_ours(standing: KubeObject, kind: str) -> None:
    """Reject an object that k8sbench did not create for this folder."""
    name, namespace = name_of(standing), standing["metadata"]["namespace"]
    if labels_of(standing).get(LABEL) != name:
        raise UsageError(
            f"There is a {kind} {name} in {namespace} that is not k8sbench's.",
            "Use another namespace or another folder.",
        )


def remove(api: Api, name: str) -> None:
    """Delete a Job whose end was seen, and with it its pods and its ConfigMap.

    One of the name that is not ours stays.
    """
    path = kinds.path("Job", api.place.namespace, name)
    with contextlib.suppress(ApiFault):  # else its time to live ends it
        standing = api.find(path)
        if standing is not None and labels_of(standing).get(LABEL) == name:
            api.delete(path, uid=standing["metadata"]["uid"])


def follow(api: Api, name: str, tell: Tell) -> int:
    """Tell what the program prints until the Job has ended; returns the program's exit code.

    Raises :class:`JobFailed` and :class:`TimedOut` where the program did not come to its end.
    """
    api.retry_s = AWAY_SECONDS
    told: str | None = None
    marks: dict[str, Mark | None] = {}
    path, pods_path = (kinds.path(kind, api.place.namespace) for kind in ("Job", "Pod"))
    while True:
        try:
            job = api.get(f"{path}/{name}", retry_s=AWAY_SECONDS)
            labels = f"{LABEL}={name}"
            pods, _ = api.list(pods_path, labels=labels, retry_s=AWAY_SECONDS)
            pod = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
            has_log = pod is not None and _has_log(pod)
            trouble = None if has_log else _trouble(api, job, pod)
        except ApiFault as fault:
            if fault.status == _NOT_FOUND:
                raise JobFailed(
                    f"The Job {name} was deleted before its end was seen.",
                    "The same command creates it again and continues with what is there.",
                ) from None
            raise api.explained(fault, f"Job {name} be followed") from fault
        if pod is not None and has_log:
            try:
                _tell_log(api, pod, marks, tell)
            except ApiFault as fault:
                # Its node may be lost: then another pod takes its place.
                if fault.status in {401, 403}:
                    raise api.explained(fault, f"Job {name} be followed") from fault
                trouble = f"The log of {name_of(pod)} cannot be read now: {fault.message}."
        condition = single_pod.ended(job)
        if condition is not None:
            return _exit_code(name, condition, pod)
        if trouble is not None and trouble != told:
            told = trouble
            tell(trouble)
        api.pause(SERVER_SECONDS)


def _has_log(pod: KubeObject) -> bool:
    """Whether its container runs or has ended."""
    return any("running" in state or "terminated" in state for state in _states(pod))


def _states(pod: KubeObject) -> Iterator[Mapping[str, Any]]:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == CONTAINER:
            yield status.get("state") or {}


def _tell_log(api: Api, pod: KubeObject, marks: dict[str, Mark | None], tell: Tell) -> None:
    """Tell the lines of a pod that are new, as they come, until its container ends."""
    uid = pod["metadata"]["uid"]
    text, resume = LogText(), Resume(marks.get(uid), now=int(time.time() * 1_000_000))
    path = kinds.path("Pod", api.place.namespace, name_of(pod), "log")
    query = {"container": CONTAINER, "timestamps": "true", "follow": "true"}
    served = api.stream(path, silence_s=SILENCE_SECONDS, **query)
    with contextlib.closing(served):
        for chunk in itertools.chain(served.chunks(), [None]):
            for line in resume.feed(text.end() if chunk is None else text.feed(chunk)):
                marks[uid] = resume.mark
                tell(line.text)


def _trouble(api: Api, job: KubeObject, pod: KubeObject | None) -> str | None:
    """Say what the pod waits for; raises what no waiting changes."""
    events: list[KubeObject] = []
    for involved in filter(None, (job, pod)):
        fields = f"involvedObject.uid={involved['metadata']['uid']}"
        events += api.list(kinds.path("Event", api.place.namespace), fields=fields)[0]
    diagnosis = single_pod.waits_for(job, pod, events, container=CONTAINER, now=api.time())
    if diagnosis is None:
        return None
    error = JobFailed(diagnosis.sentence, diagnosis.action or "")
    if diagnosis.severity == "fail":
        raise error
    return str(error)


def _exit_code(name: str, condition: KubeObject, pod: KubeObject | None) -> int:
    """Return the exit code of a Job's program; raises where something else ended it."""
    if condition["type"] == "Complete":
        return 0
    if condition.get("reason") == "DeadlineExceeded":
        raise TimedOut(
            f"The Job {name} took longer than it may.",
            "The same command continues with what is there; --timeout gives it more time.",
        )
    ends = [state["terminated"] for state in _states(pod or {}) if "terminated" in state]
    code = ends[0]["exitCode"] if ends else None
    if code in {2, 3}:
        return int(code)
    why = str(condition.get("message") or condition.get("reason")).rstrip(".")
    if ends:
        why = f"its program ended with exit code {code} ({ends[0].get('reason')})"
    raise JobFailed(
        f"The Job {name} failed: {why}.",
        "The lines above are its log; the same command continues with what is there.",
    )
