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
from k8sbench.model.errors import BenchError, JobFailed, TimedOut, Unreachable, UsageError
from k8sbench.model.kube import KubeObject, annotations_of, labels_of, name_of
from k8sbench.model.limits import SERVER_SECONDS
from k8sbench.render.data_job import CONTAINER, LABEL, WORDS_ANNOTATION
from k8sbench.render.job import DIGEST_ANNOTATION

GOING_SECONDS = 60.0
"""How long a Job of the same name that has ended may take to go."""
SILENCE_SECONDS = 300.0
"""Without a line, after which a log is asked for anew."""
AWAY_SECONDS = 300.0
"""How long the API server may be away while a Job is followed."""

_CONFLICT, _GONE = 409, 404


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
        found = _standing(api, name)
        is_new = found is None
        if found is None:
            _provide(api, sources)
            try:
                found = api.create(kinds.path("Job", api.place.namespace), job)
            except ApiFault as fault:
                found = _standing(api, name) if fault.status == _CONFLICT else None
                if found is None:
                    with contextlib.suppress(ApiFault, _Gone):
                        _delete(api, "ConfigMap", name)
                    raise
                is_new = False  # another process was first
        _check_same(found, job)
        _own_sources(api, found)
    except ApiFault as fault:
        raise api.explained(fault, f"Job {name} be created") from fault
    return is_new


def _provide(api: Api, sources: Mapping[str, Any]) -> None:
    """Create the ConfigMap; one that no Job owns yet may be of a process that is at this, too."""
    name = name_of(sources)
    found = api.find(kinds.path("ConfigMap", api.place.namespace, name))
    if found is not None and not found["metadata"].get("ownerReferences"):
        same = annotations_of(found).get(DIGEST_ANNOTATION)
        if same == annotations_of(sources)[DIGEST_ANNOTATION]:
            return
    with contextlib.suppress(_Gone):
        _delete(api, "ConfigMap", name)
    try:
        api.create(kinds.path("ConfigMap", api.place.namespace), sources)
    except ApiFault as fault:
        if fault.status != _CONFLICT:
            raise


def _check_same(found: KubeObject, job: Mapping[str, Any]) -> None:
    """Reject a Job of the name that is not ours, or does something else."""
    name, namespace = name_of(found), found["metadata"]["namespace"]
    if labels_of(found).get(LABEL) != name:
        raise UsageError(
            f"There is a Job {name} in {namespace} that is not k8sbench's.",
            "Use another namespace or another folder.",
        )
    if annotations_of(found).get(WORDS_ANNOTATION) != annotations_of(job)[WORDS_ANNOTATION]:
        raise UsageError(
            f"The Job {name} is at work on this folder with other options or another k8sbench.",
            "Give the same ones to follow it, or end it with"
            f" 'kubectl -n {namespace} delete job {name}': what it fetched is kept.",
        )


def _own_sources(api: Api, job: KubeObject) -> None:
    """Have the ConfigMap go with the Job, also where who made it was killed before that."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(job)}
    owner["uid"] = job["metadata"]["uid"]
    patch = {"metadata": {"ownerReferences": [owner]}}
    try:
        api.patch(kinds.path("ConfigMap", api.place.namespace, name_of(job)), patch)
    except ApiFault as fault:
        if fault.status != _GONE:  # whoever makes it anew says whose it is
            raise


def follow(api: Api, name: str, note: Callable[[str], None]) -> Iterator[str]:
    """Yield what the program prints until the Job has ended; raises where it did not succeed.

    Exit codes 2 and 3 are the program's own: it has printed why, and they are no error here.
    ``note`` is told what the Job waits for.
    """
    told: str | None = None
    marks: dict[str, Mark | None] = {}
    away_since: float | None = None

    def say(text: str) -> None:
        nonlocal told
        if text != told:
            told = text
            note(text)

    while True:
        try:
            job = api.find(kinds.path("Job", api.place.namespace, name))
            if job is None:
                raise JobFailed(
                    f"The Job {name} was deleted before its end was seen.",
                    "The same command creates it again and continues with what is there.",
                )
            path = kinds.path("Pod", api.place.namespace)
            pods, _ = api.list(path, labels=f"{LABEL}={name}")
            away_since = None
            pod = max(pods, key=lambda one: str(one["metadata"]["creationTimestamp"]), default=None)
            if pod is not None and _has_log(pod):
                try:
                    yield from _log(api, pod, marks)
                except ApiFault as fault:
                    # Its node may be lost: then another pod takes its place.
                    if fault.status in {None, 401, 403}:
                        raise
                    say(f"The log of {name_of(pod)} cannot be read now: {fault.message}.")
            condition = single_pod.ended(job)
            if condition is not None:
                _check_end(name, condition, pod)
                return
            if pod is None or not _has_log(pod):
                why = _trouble(api, job, pod)
                if why is not None:
                    say(str(why))
        except ApiFault as fault:
            away_since = away_since or time.monotonic()
            is_over = time.monotonic() - away_since > AWAY_SECONDS
            if is_over or not (fault.passes or fault.status == 410):
                raise api.explained(fault, f"Job {name} be followed") from fault
            if fault.status != 410:
                say(f"The API server does not answer ({fault.message}); retrying.")
        api.pause(SERVER_SECONDS)


def remove(api: Api, name: str) -> None:
    """Delete a Job whose end was seen, and with it its pods and its ConfigMap."""
    with contextlib.suppress(_Gone, ApiFault):  # else its time to live ends it
        _delete(api, "Job", name)


class _Gone(Exception):
    """There is nothing of ours to delete."""


def _delete(api: Api, kind: str, name: str) -> None:
    path = kinds.path(kind, api.place.namespace, name)
    found = api.find(path)
    if found is None or labels_of(found).get(LABEL) != name:
        raise _Gone
    api.delete(path, uid=found["metadata"]["uid"])


def _standing(api: Api, name: str) -> KubeObject | None:
    """Return the Job of a name that goes on; one that has ended is deleted, and waited for."""
    path = kinds.path("Job", api.place.namespace, name)
    until = time.monotonic() + GOING_SECONDS
    while (found := api.find(path)) is not None:
        is_ours = labels_of(found).get(LABEL) == name
        if "deletionTimestamp" not in found["metadata"]:
            if not is_ours or single_pod.ended(found) is None:
                return found
            api.delete(path, uid=found["metadata"]["uid"])
        if time.monotonic() > until:
            raise Unreachable(
                f"The earlier Job {name} does not go.",
                f"'kubectl -n {api.place.namespace} get job {name} -o yaml' says what holds it.",
            )
        api.pause(0.3)
    return None


def _has_log(pod: KubeObject) -> bool:
    """Whether its container runs or has ended."""
    return any("running" in state or "terminated" in state for state in _states(pod))


def _states(pod: KubeObject) -> Iterator[Mapping[str, Any]]:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if one["name"] == CONTAINER:
            yield one.get("state") or {}


def _log(api: Api, pod: KubeObject, marks: dict[str, Mark | None]) -> Iterator[str]:
    """Yield the lines of a pod that are new, as they come, until its container ends."""
    uid = pod["metadata"]["uid"]
    text, resume = LogText(), Resume(marks.get(uid), now=int(time.time() * 1_000_000))
    path = kinds.path("Pod", api.place.namespace, name_of(pod), "log")
    query = {"container": CONTAINER, "timestamps": "true", "follow": "true"}
    served = api.stream(path, silence_s=SILENCE_SECONDS, **query)
    with contextlib.closing(served):
        for chunk in itertools.chain(served.chunks(), [None]):
            for line in resume.feed(text.end() if chunk is None else text.feed(chunk)):
                marks[uid] = resume.mark
                yield line.text


def _trouble(api: Api, job: KubeObject, pod: KubeObject | None) -> BenchError | None:
    """Say what the pod waits for; raises what no waiting changes."""
    events: list[KubeObject] = []
    for one in filter(None, (job, pod)):
        fields = f"involvedObject.uid={one['metadata']['uid']}"
        events += api.list(kinds.path("Event", api.place.namespace), fields=fields)[0]
    why = single_pod.waits_for(job, pod, events, container=CONTAINER, now=api.time())
    if why is None:
        return None
    error = JobFailed(why.sentence, why.action)
    if why.unrecoverable:
        raise error
    return error


def _check_end(name: str, condition: KubeObject, pod: KubeObject | None) -> None:
    if condition["type"] == "Complete":
        return
    if condition.get("reason") == "DeadlineExceeded":
        raise TimedOut(
            f"The Job {name} took longer than it may.",
            "The same command continues with what is there; --timeout gives it more time.",
        )
    ends = [state["terminated"] for state in _states(pod or {}) if "terminated" in state]
    if ends and ends[0]["exitCode"] in {2, 3}:
        return
    why = str(condition.get("message") or condition.get("reason")).rstrip(".")
    if ends:
        why = f"its program ended with exit code {ends[0]['exitCode']} ({ends[0].get('reason')})"
    raise JobFailed(
        f"The Job {name} failed: {why}.",
        "The lines above are its log; the same command continues with what is there.",
    )
