"""Each cause from small objects, with texts of Kubernetes 1.33 and operator 1.9.

``causes.txt`` holds each state's sentences: ``K8SBENCH_UPDATE_GOLDEN=1`` renews it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.diagnose.job import refusals, state
from k8sbench.diagnose.job.advice import ADVICE
from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.model import observed_job
from k8sbench.model.kinds import OBSERVED
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from tests.unit import goldens
from tests.unit.kubernetes.objects import (
    FAILED,
    GPU,
    JOB,
    PLAN,
    RUNS,
    condition,
    ended,
    event,
    init,
    job,
    pod,
    read,
    refused,
    seen,
    stamp,
    unplaced,
    waits,
)
from tests.unit.presence import present
from tests.unit.render.plans import plan

GOLDEN = Path(__file__).with_name("causes.txt")
UNHELPFUL = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."


def lacking(why: str, hint: str = UNHELPFUL) -> str:
    """Return the scheduler's message about four nodes."""
    return f"0/4 nodes are available: {why}. {hint}"


FULL = lacking("4 Insufficient nvidia.com/gpu", NO_VICTIMS)
OTHER_LABEL = "node(s) didn't match Pod's node affinity/selector"
NO_LABEL = lacking(f"4 {OTHER_LABEL}")
TAINT = "node(s) had untolerated taint"
CLOSED = f"1 {TAINT} {{team: other}}, 1 node(s) were unschedulable"
CONTROL_PLANE = f"{TAINT} {{node-role.kubernetes.io/control-plane: }}"
NOT_IT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
WORKER = f"{JOB}-worker-0"
GONE = pod() | {"_deleted": True}
RUNNING = job(condition("Running"))
CREATING = pod(state=waits("ContainerCreating"))
QUEUED = job(suspend=True, labels={"kueue.x-k8s.io/queue-name": "gpus"})
NOT_PULLED = waits("ImagePullBackOff", "failed to pull: no such host")
CLAIM = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
FORBIDDEN = 'pods "job-worker-0" is forbidden:'
POD_SECURITY = (
    f'{FORBIDDEN} violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
    '(container "{0}" must set securityContext.allowPrivilegeEscalation=false), unrestricted '
    'capabilities (container "{0}" must set securityContext.capabilities.drop=["ALL"])'
)
TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute")


def alone(*pods: dict[str, Any], **more: Any) -> state.JobSnapshot:
    """Return a snapshot without the default running master."""
    snapshot = seen(**more)
    snapshot.pods = {one["metadata"]["name"]: one for one in pods}
    return snapshot


def both_unplaced(message: str, *, spec: Any = None, **more: Any) -> state.JobSnapshot:
    names = ("master-0", "worker-0")
    return alone(*(unplaced(message, name, spec=spec or {}) for name in names), **more)


def failed(*pods: dict[str, Any], **more: Any) -> state.JobSnapshot:
    return seen(*pods, of=job(FAILED), **more)


def exits(**codes: tuple[int, float]) -> state.JobSnapshot:
    """Replicas that ended with a code at a time."""
    return failed(
        *(pod(name.replace("_", "-"), ended(code, at=at)) for name, (code, at) in codes.items())
    )


def disrupted(reason: str, message: str, *others: dict[str, Any], **more: Any) -> state.JobSnapshot:
    reported = {**condition("DisruptionTarget", message), "reason": reason}
    metadata = {"deletionTimestamp": stamp(59)}
    return failed(pod(conditions=(reported, *others), metadata=metadata, **more))


def with_status(container: dict[str, Any], reason: str, message: str) -> state.JobSnapshot:
    return failed(
        pod(state=container, phase="Failed", status={"reason": reason, "message": message})
    )


def asked_to_end(at: float) -> dict[str, Any]:
    """Metadata of a pod whose deletion was asked for then."""
    return {"deletionTimestamp": stamp(at + 30), "deletionGracePeriodSeconds": 30}


def pulling(message: str, reason: str = "ImagePullBackOff") -> state.JobSnapshot:
    return seen(pod(state=waits(reason, message)))


def refusal(message: str) -> state.JobSnapshot:
    return seen(events=[refused(message)])


def quota(requested: str, used: str, limited: str) -> state.JobSnapshot:
    return refusal(
        f"{FORBIDDEN} exceeded quota: q, requested: {requested}, used: {used}, limited: {limited}"
    )


def unmounted(message: str, *events: dict[str, Any]) -> tuple[state.JobSnapshot, float]:
    """A pod whose volume cannot be mounted."""
    return at(60, creating(event("FailedMount", message, WORKER), *events))


def mount_failed(says: str) -> tuple[state.JobSnapshot, float]:
    """The same, by what the mount program says after what it was asked for."""
    asked = f"Mounting arguments: -t nfs -o vers=4.1 10.0.0.1:/data {'/var/lib/kubelet' * 20}"
    message = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32\n'
    return unmounted(f"{message}Mounting command: mount\n{asked}\nOutput: {says}\n")


def creating(*events: dict[str, Any]) -> state.JobSnapshot:
    return seen(CREATING, events=list(events))


def queued(message: str) -> state.JobSnapshot:
    """A job whose Workload Kueue does not admit."""
    waits = condition("QuotaReserved", message, status="False")
    workload = {"status": {"conditions": [waits]}, "place": ", number 2 there"}
    return alone(of=QUEUED, workload=workload)


ADMITTED = {"status": {"conditions": [condition("Admitted", at=5)]}}
"""Workload of a job that Kueue admitted."""


def told(reason: str, *words: str, **more: Any) -> state.JobSnapshot:
    """A job in a queue of which an event tells."""
    return alone(of=QUEUED, events=[event(reason, *words, **more)])


def created(count: int) -> dict[str, Any]:
    return event("SuccessfulCreatePod", f"Created pod: {WORKER}", count=count)


def at(after: float, snapshot: state.JobSnapshot) -> tuple[state.JobSnapshot, float]:
    """Return a state ``after`` seconds from the job's creation, instead of 10."""
    return snapshot, after


NO_TOPOLOGY = 'topology "a" doesn\'t allow to fit any of 2 pod(s). Total nodes: 8; excluded: '
SHARED_OR_FULL = (
    "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match pod"
    " anti-affinity rules."
)
OTHERS_ANTI = "1 node(s) didn't satisfy existing pods anti-affinity rules."
ELSEWHERE = "node(s) had volume node affinity conflict"
PARTLY_ELSEWHERE = (
    f"0/8 nodes are available: 2 Insufficient {GPU}, 6 {ELSEWHERE}. preemption: 0/8 nodes are"
    " available: 2 No preemption victims found for incoming pod, 6 Preemption is not helpful for"
    " scheduling."
)
GATED = "Scheduling is blocked due to non-empty scheduling gates"
GATES = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
ARM = 'no image found in image index for architecture "arm64", variant "v8", OS "linux"'
ATTACHED = (
    'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node'
    " and can't be attached to another"
)
NOT_ALL = (
    "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[]: timed out"
    " waiting for the condition"
)
NFS_TYPE = (
    "mount: /data: bad option; for several filesystems (e.g. nfs, cifs) you might need a"
    " /sbin/mount.<type> helper program."
)
NO_CLAIM = both_unplaced(lacking('persistentvolumeclaim "data" not found'))
UNBOUND = "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims."
NO_VOLUME = "no persistent volumes available for this claim"
PVC = {"kind": "PersistentVolumeClaim"}
NOT_BOUND = event("FailedBinding", NO_VOLUME, "data", involved=PVC)
NO_CONFIG = 'MountVolume.SetUp failed for volume "trainers" : configmap "job" not found'
NO_DRIVER = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
    " create failed: unable to start container process: error during container init: error running"
    " hook #0: exit status 1, stderr: nvidia-container-cli: initialization error: nvml error:"
    " driver/library version mismatch: unknown"
)
NO_QUOTA = condition("QuotaReserved", "insufficient unused quota", status="False")
EVICTED = condition("Evicted", "Preempted to accommodate a workload")
PREEMPTED = {"status": {"conditions": [NO_QUOTA, EVICTED]}}
COMES = [event("TriggeredScaleUp", "", f"{JOB}-master-0")]
LOOPS = {"of": job(condition("Running"), restart_policy="OnFailure")}

Seen = state.JobSnapshot | tuple[state.JobSnapshot, float]
BY_CAUSE: dict[str, list[Seen]] = {
    "suspended": [alone(of=job(suspend=True))],
    "queue-silent": [alone(of=QUEUED), told("CreatedWorkload", "x", reportingComponent="kueue")],
    "queued": [
        at(500, queued("couldn't assign flavors to pod set master")),
        at(500, told("Pending", "no quota", "w", involved={"kind": "Workload"})),
        at(500, told("Pending", "no quota", reportingComponent="kueue")),
        queued("insufficient unused quota in a, maximum capacity (16) in b"),
        queued('topology "default" allows to fit only 2 out of 4 pod(s)'),
        queued(f'{NO_TOPOLOGY}resource "{GPU}": 8'),
        queued(f"{NO_TOPOLOGY}nodeSelector: 7"),
    ],
    "queue-unusable": [
        at(31, told("Any", "of another's")),
        at(31, alone(of=QUEUED)),
        queued("LocalQueue gpus doesn't exist"),
        queued("cpu unavailable in ClusterQueue"),
        queued("The workload is deactivated"),
        queued("doesn't match ClusterQueue selector"),
        queued("LocalQueue gpus is terminating or missing"),
        queued("resources didn't satisfy LimitRange constraints"),
        queued("current podset request (24) > maximum capacity (16)"),
        queued("flavor a doesn't match node affinity"),
        queued("untolerated taint t in flavor a"),
        queued("couldn't assign flavors to pod set a: no topology domains at level: example.com/b"),
        # beyond what is quoted
        queued(f"{'couldn' * 60}; pod set b: no topology domains at level: kubernetes.io/hostname"),
        queued("no requested topology level: example.com/rack"),
        queued(f"{NO_TOPOLOGY}nodeSelector: 8"),
        queued(
            "couldn't assign flavors to pod set a: insufficient unused quota; couldn't assign"
            " flavors to pod set b: request > maximum capacity (16 > 8)"
        ),
        queued(f'{NO_TOPOLOGY}taint "x=y:NoSchedule": 8'),
        queued('Flavor "a" does not support TopologyAwareScheduling'),
    ],
    "queue-evicted": [alone(of=QUEUED, workload=PREEMPTED)],
    "queue-admitted": [
        at(34, alone(of=QUEUED, workload=ADMITTED)),
        told("Admitted", "Admitted by ClusterQueue gpus", involved={"kind": "Workload"}),
    ],
    "not-resumed": [at(35, alone(of=QUEUED, workload=ADMITTED))],
    "operator-down": [at(31, alone(of=job()))],
    "operator-slow": [at(31, alone(pod("master-0")))],
    "quota-exceeded": [quota("requests.nvidia.com/gpu=8", *["requests.nvidia.com/gpu=16"] * 2)],
    "quota-exceeded!": [
        quota("pods=1,requests.nvidia.com/gpu=8", "pods=1", "pods=5,requests.nvidia.com/gpu=8"),
        quota("limits.memory=256Gi,pods=1", "limits.memory=0,pods=1", "limits.memory=200Gi,pods=5"),
        refusal(f"{FORBIDDEN} failed quota: q: must specify limits.ephemeral-storage for: pytorch"),
    ],
    "pod-security!": [refusal(POD_SECURITY.format("pytorch"))],
    "operator-init-not-restricted!": [refusal(POD_SECURITY.format("init-pytorch"))],
    "admission-denied!": [
        refusal(f'Pod "{WORKER}" is invalid: spec.restartPolicy: Unsupported value')
    ],
    "admission-denied": [
        refusal('admission webhook "rules.example.com" denied the request: no team label'),
        refusal(f"{FORBIDDEN} maximum memory usage per Container is 1Gi, but limit is 256Gi"),
        refusal("etcdserver: request timed out"),
        refusal("Timeout: request did not complete within requested timeout"),
        refusal("the server is currently unable to handle the request (post pods)"),
    ],
    "webhook-down": [
        refusal('Internal error occurred: failed calling webhook "rules.example.com": refused')
    ],
    "name-in-use": [refusal(f'object is being deleted: pods "{WORKER}" already exists')],
    "no-node-fits": [
        both_unplaced(FULL),
        both_unplaced(lacking(f"1 Insufficient memory, {CLOSED}, 1 {OTHER_LABEL}", NO_VICTIMS)),
        # of a pod that is pinned to a node
        both_unplaced(lacking(f"1 Insufficient nvidia.com/gpu, 3 {NOT_IT}", NO_VICTIMS)),
        both_unplaced(
            lacking("4 node(s) didn't have free ports for the requested pod ports", NO_VICTIMS)
        ),
        both_unplaced(PARTLY_ELSEWHERE),
        # of Volcano, and of Kubernetes 1.34 where claims of devices are on
        both_unplaced(PARTLY_ELSEWHERE.replace("are available", "are unavailable")),
        both_unplaced(
            PARTLY_ELSEWHERE.replace("preemption:", "still not schedulable, preemption:")
        ),
        both_unplaced(lacking(f"1 node(s) were unschedulable, 3 {ELSEWHERE}")),
        both_unplaced(lacking(f"4 {ELSEWHERE}"), events=COMES),
        both_unplaced(lacking(f"3 node(s) exceed max volume count, 1 Insufficient {GPU}")),
        both_unplaced(
            lacking(
                "4 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access"
                " mode already in-use by another pod"
            )
        ),
        both_unplaced(
            lacking("4 cannot allocate all claims", "no new claims to deallocate, " + NO_VICTIMS)
        ),
        both_unplaced("waiting for the pod's ResourceClaim: not created yet"),
        both_unplaced(GATED, spec=GATES),
        both_unplaced(
            lacking(
                "4 node(s) didn't match pod topology spread constraints (missing required label)"
            )
        ),
        both_unplaced(lacking(f"1 Insufficient {GPU}, 3 node(s) are of no quorum")),
        both_unplaced("0/4 nodes are available: the pod group has no quorum."),
        both_unplaced("no nodes available to schedule pods"),
        both_unplaced("3/4 tasks in gang unschedulable: pod group is not ready"),
        both_unplaced(FULL.replace(NO_VICTIMS, UNHELPFUL), events=COMES),
        # other nodes may become free, or more than one resource may be too large
        *(
            both_unplaced(lacking(why))
            for why in (
                f"1 Insufficient {GPU}, 3 {TAINT} {{{GPU}: present}}",
                f"1 Insufficient {GPU}, 3 {TAINT} {{node.kubernetes.io/not-ready: }}",
                f"1 Insufficient {GPU}, 3 node(s) were unschedulable",
                f"4 Insufficient memory, 4 Insufficient {GPU}",
                f"1 Insufficient {GPU}, 1 {TAINT} {{team: other}}, 2 {ELSEWHERE}",
            )
        ),
        # of Volcano
        both_unplaced(
            f"0/4 nodes are unavailable: 2 Insufficient {GPU}, 2 {TAINT} {{team: other}}."
        ),
        both_unplaced(lacking(f"3 Insufficient {GPU}, 1 {CONTROL_PLANE}", NO_VICTIMS)),
    ],
    "no-node-fits!": [
        both_unplaced(lacking(f"4 {ELSEWHERE}")),
        both_unplaced(lacking("4 node(s) had no available volume zone")),
        both_unplaced(lacking(f"1 {TAINT} {{team: other}}, 3 {ELSEWHERE}")),
        both_unplaced(lacking(f"1 Insufficient {GPU}, 3 {ELSEWHERE}")),
    ],
    "too-few-nodes": [seen(unplaced(f"0/1 nodes are available: {OTHERS_ANTI}"))],
    "half-placed": [
        seen(unplaced(SHARED_OR_FULL)),
        seen(unplaced(FULL)),
        seen(unplaced(lacking(f"2 Insufficient {GPU}, 2 {TAINT} {{team: other}}", NO_VICTIMS))),
        seen(unplaced(PARTLY_ELSEWHERE)),
        seen(unplaced(lacking("4 cannot allocate all claims", NO_VICTIMS))),
    ],
    "request-too-large!": [
        both_unplaced(lacking(f"2 Insufficient nvidia.com/gpu, 2 {OTHER_LABEL}")),
        both_unplaced(lacking(f"3 Insufficient nvidia.com/gpu, 1 {CONTROL_PLANE}")),
    ],
    "no-matching-node!": [both_unplaced(NO_LABEL)],
    "no-matching-node": [both_unplaced(NO_LABEL, events=COMES)],
    "taint-not-tolerated": [
        both_unplaced(lacking(f"4 {TAINT} {{nvidia.com/gpu: present}}")),
        both_unplaced(lacking(f"4 {TAINT}(s)")),  # Kubernetes 1.35
    ],
    "nodes-not-ready": [
        both_unplaced(lacking(f"4 {TAINT} {{node.kubernetes.io/not-ready: }}")),
        both_unplaced(lacking(f"4 {TAINT} {{ToBeDeletedByClusterAutoscaler: 1764547200}}")),
        both_unplaced(lacking(f"4 {TAINT} {{sagemaker.amazonaws.com/node-health-status: Bad}}")),
    ],
    "volume-not-bound": [
        at(32, alone(unplaced(UNBOUND, "master-0", spec=CLAIM), pod(), events=[NOT_BOUND])),
        NO_CLAIM,
    ],
    "volume-not-bound!": [at(31, NO_CLAIM)],
    "pod-not-started": [
        pulling("failed to extract layer: no space left on device"),
        at(13, creating(event("FailedMount", "is not a directory", WORKER))),
        pulling("failed to copy: write /var/lib/x: disk quota exceeded: not found"),
        pulling("failed to reserve: open /x: no such file or directory"),
        unmounted(ATTACHED),
        # the kubelet's later words of all volumes do not say why
        unmounted(ATTACHED, event("FailedMount", NOT_ALL, WORKER, at=9)),
        unmounted(NOT_ALL),
        unmounted("driver name nfs.csi.k8s.io not found in the list of registered CSI drivers"),
        mount_failed("mount.nfs: Connection timed out"),
        mount_failed("mount.nfs: Failed to resolve server nas: Name or service not known"),
        mount_failed("mount.nfs: access denied by server while mounting 10.0.0.1:/data"),
        mount_failed(
            "mount.nfs: mounting failed, reason given by server: No such file or directory"
        ),
        mount_failed("mount.nfs: Protocol not supported"),
        mount_failed(NFS_TYPE),
        mount_failed("mount.nfs: something else"),
        mount_failed("mount.lustre: something else"),
    ],
    "image-not-found!": [pulling("couldn't parse image name", "InvalidImageName")],
    "image-not-found": [
        pulling(
            'Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound desc = failed to'
            ' pull and unpack image "x": failed to resolve reference "x": a:1: not found'
        ),
        pulling('Container image "x" is not present', "ErrImageNeverPull"),
        pulling(
            'failed to pull and unpack image "x": no match for platform in manifest: not found'
        ),
        pulling("failed to pull: no matching manifest for linux/arm64/v8 in the manifest list"),
        pulling(f"choosing an image from manifest list docker://a: {ARM}"),
    ],
    "image-pull-denied": [
        pulling("failed to authorize: failed to fetch oauth token: 401 Unauthorized"),
        pulling("failed to pull: pull access denied: insufficient_scope"),
    ],
    "registry-unreachable": [
        pulling("failed to do request: Head: dial tcp: lookup registry.example.com: no such host")
    ],
    "pull-limited": [
        pulling(
            "failed to pull: toomanyrequests: You have reached your unauthenticated pull limit"
        ),
        pulling("unexpected status from HEAD request to https://r/v2/a: 429 Too Many Requests"),
    ],
    "init-image-not-pullable": [
        seen(pod(state=waits("PodInitializing"), inits=(init(NOT_PULLED),)))
    ],
    "init-failed": [
        failed(pod(state=waits("PodInitializing"), phase="Failed", inits=(init(ended(1)),))),
        seen(pod(state=waits("PodInitializing"), inits=(init(waits("CrashLoopBackOff")),))),
    ],
    "config-missing": [
        seen(pod(state=waits("CreateContainerConfigError", 'configmap "x" not found')))
    ],
    "config-missing!": [at(31, creating(event("FailedMount", NO_CONFIG, WORKER)))],
    "node-cannot-start": [
        at(13, creating(event("FailedCreatePodSandBox", "plugin type=bridge failed", WORKER))),
        at(13, creating(event("FailedCreatePodSandBox", "no space left on device", WORKER))),
        with_status(waits(""), "OutOfnvidia.com/gpu", "Node didn't have enough resource"),
    ],
    "gpu-driver": [
        failed(pod(state=ended(128, "StartError", message=NO_DRIVER))),
        seen(pod(state=waits("RunContainerError", NO_DRIVER))),
    ],
    "start-error": [
        failed(pod(state=ended(128, "StartError", message='exec: "/x": no such file'))),
        seen(pod(state=waits("CreateContainerConfigError", "runAsNonRoot"))),
        *(
            failed(pod(state=ended(128, "StartError", message=f"{'OCI ' * 60}: {why}")))
            for why in (
                "container init was OOM-killed (memory limit too low?)",
                "failed to write 1: no space left on device",
                'error mounting "/x" to rootfs',
                "context deadline exceeded",
            )
        ),
        failed(pod(state=ended(128, "StartError", message='exec "/x": exec format error'))),
    ],
    "replica-failed": [
        failed(pod(state=ended(3))),
        seen(pod(state=waits("CrashLoopBackOff"), last=ended(1), restarts=2), **LOOPS),
        # Deleted after it had failed, by someone or as the job's cleanPodPolicy has it.
        failed(pod(state=ended(3, at=40), metadata=asked_to_end(41))),
        # the operator deletes its peers within the second
        failed(
            pod("master-0", metadata=asked_to_end(40)),
            pod(state=ended(3, at=40)),
            events=[event("SuccessfulDelete", f"Deleted pod: {JOB}-master-0")],
        ),
        seen(
            pod("master-0", ended(143, at=42), metadata=asked_to_end(40)),
            pod(state=ended(3, at=40)),
            of=job(FAILED, cleanPodPolicy="Running"),
        ),
        failed(pod(state=ended(137))),
        failed(pod(state=ended(135))),
        *(
            failed(pod(state=ended(1, message=message)))
            for message in (
                "exec /usr/bin/python: exec format error",
                "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.",
                "the collective ALLREDUCE timed out on rank 0 after 600 s",
                "RuntimeError: CUDA error: uncorrectable ECC error encountered",
                "NCCL: Call to ibv_modify_qp failed with error Network is unreachable",
            )
        ),
    ],
    "usage-error": [failed(pod(state=ended(2)))],
    "oom": [
        failed(pod(state=ended(137, "OOMKilled"))),
        failed(
            pod(state=ended(1, message="DataLoader worker (pid 9) is killed by signal: Killed"))
        ),
    ],
    "gpu-out-of-memory": [failed(pod(state=ended(1, message="Error: CUDA out of memory. Tried")))],
    "evicted": [
        with_status(ended(137), "Evicted", "The node was low on resource: memory. "),
        disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
        disrupted(*TAINTED, condition("Ready")),
        disrupted(*TAINTED, state=ended(143)),
    ],
    "preempted": [disrupted("PreemptionByScheduler", "preempting to accommodate a higher one")],
    "node-lost": [
        disrupted(*TAINTED),
        with_status(ended(143), "Terminated", "imminent node shutdown"),
    ],
    "pod-deleted": [
        failed(GONE),
        # its program heard of it and ended in its own way, and its master lost it by that
        failed(
            pod("master-0", ended(1, at=42)), pod(state=ended(7, at=42), metadata=asked_to_end(40))
        ),
        # The operator has made it anew, and failed the job all the same.
        failed(CREATING, earlier=[GONE]),
    ],
    "replica-replaced": [
        seen(pod(), of=RUNNING, events=[created(2)]),
        seen(pod(), of=job(condition("Running"), restart_policy="ExitCode"), events=[created(4)]),
    ],
    "job-limit": [
        seen(
            pod(),
            of=job(condition("Failed", "it has reached the specified backoff limit")),
            earlier=[pod(state=ended(3))],
        ),
        alone(of=job(condition("Failed", "it was active longer than specified deadline"))),
        with_status(ended(137), "DeadlineExceeded", "Pod was active too long"),
    ],
    "job-failed": [alone(of=job(FAILED))],
    "job-deleted": [seen(pod(), deleted=True)],
    "cancelled": [
        seen(pod(), of=job(annotations={"k8sbench.io/cancelled": json.dumps({"cause": "Enough."})}))
    ],
}
"""Cause id, with ``!`` if unrecoverable → states that show it."""
STATES = [(cause_id, found) for cause_id, states in BY_CAUSE.items() for found in states]


def conditions_of(found: Seen) -> Iterator[dict[str, Any]]:
    """Yield the scheduler's conditions of a state's pods."""
    snapshot = found[0] if isinstance(found, tuple) else found
    for one in snapshot.pods.values():
        for said in one["status"]["conditions"]:
            if said["type"] == "PodScheduled":
                yield said


def reading(number: int, of: RunPlan = PLAN) -> Any:
    snapshot = STATES[number][1]
    snapshot, after = snapshot if isinstance(snapshot, tuple) else (snapshot, 10)
    return read(snapshot, of, after=after)


def test_every_cause_of_the_table_has_a_state_that_shows_it() -> None:
    assert {cause_id.rstrip("!") for cause_id, _ in STATES} == set(CAUSES)


@pytest.mark.parametrize("number", range(len(STATES)), ids=[name for name, _ in STATES])
def test_a_state_has_its_cause(number: int) -> None:
    result = reading(number)
    assert f"{result.cause_id}{'!' * result.unrecoverable}" == STATES[number][0]
    assert not re.search(r"None|[{}]|\.\.$|:\s*\.$|  |\n|[^.]$", result.cause)
    assert "{" not in re.sub(r"=\{.*\}'", "", result.action)


@pytest.mark.parametrize(
    "suspended",
    [condition("Suspended", at=50), condition("Suspended", at=6, status="False")],
    ids=["since", "only in its spec so far"],
)
def test_a_job_that_is_suspended_again_is_not_one_that_is_not_resumed(
    suspended: dict[str, Any],
) -> None:
    """The known Workload may be from before its eviction."""
    again = job(suspended, suspend=True, labels={"kueue.x-k8s.io/queue-name": "gpus"})
    stopped = event("Stopped", "Preempted to accommodate a workload", reportingComponent="kueue")
    result = read(alone(of=again, workload=ADMITTED, events=[stopped]), PLAN, after=60)
    assert result.cause_id == "queue-evicted"


def test_no_option_of_a_submit_is_advised_for_a_job_of_others() -> None:
    trainer = {"template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}}}
    facts = observed_job.read_facts(OBSERVED["job"], {**job(), "spec": trainer})
    of_others = msgspec.structs.replace(PLAN, observed=facts.job)
    for number in range(len(STATES)):
        result = reading(number, of_others)
        assert result.action is None or re.match(r"'kubectl -n \S+ describe ", result.action)


def test_every_advice_has_a_state_that_shows_it() -> None:
    shown = {reading(number).action for number in range(len(STATES))}
    for pattern, advice in (row for rows in ADVICE.values() for row in rows):
        form = "(?s)" + ".*".join(map(re.escape, re.split(r"\{\w+\}", advice)))
        assert any(re.fullmatch(form, action) for action in shown if action), pattern


@pytest.mark.parametrize(
    "message",
    [said["message"] for _, found in STATES for said in conditions_of(found) if said["message"]],
)
def test_no_part_of_the_schedulers_message_is_dropped(message: str) -> None:
    head = re.match(r"0/(\d+) nodes", message)
    result = read(both_unplaced(message), after=40)
    for count in re.findall(r"[:,] (\d+) (?!Preempt|No preempt)", message.partition("preempt")[0]):
        if result.cause_id not in ("volume-not-bound", "no-matching-node", "request-too-large"):
            assert f"on {count} of {present(head)[1]} node" in result.cause


def test_what_is_said_of_each_state_golden() -> None:
    lines = []
    for number, (cause_id, _) in enumerate(STATES):
        result = reading(number)
        lines += [f"{cause_id} ({result.phase})", f"  {result.cause}", f"  {result.action}", ""]
    text = "\n".join(lines)
    goldens.check(GOLDEN, text)


def test_the_table_says_which_causes_are_unrecoverable() -> None:
    shown = Counter(cause_id for cause_id, _ in STATES)
    for cause_id, cause in CAUSES.items():
        always = cause_id not in shown
        assert (cause.unrecoverable == "yes") == always, cause_id
        assert (cause.unrecoverable != "no") == (f"{cause_id}!" in shown), cause_id


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "says",
    [
        "exceeded quota: q, requested: cpu=8, used: cpu=0, limited: cpu=4",
        "failed quota: q: must specify limits.memory for: pytorch",
    ],
)
def test_no_wait_is_advised_where_a_quota_never_has_room(says: str, replicas: int) -> None:
    found = refusals.refusal(f"{FORBIDDEN} {says}", "It", {"namespace": "team"}, replicas=replicas)
    assert found.severity == "fail"
    assert "Wait for" not in present(found.action)
    assert "aiting does not help" in present(found.action)


# --- readings beside the table of causes ---------------------------------------------------------

SUCCEEDED = job(condition("Running", status="False"), condition("Succeeded", at=60))
RESUMED = job(condition("Created"), condition("Suspended", status="False", at=500))
LET_GO = job(condition("Running"), condition("Suspended", status="False"))
LOST_PEER = "RuntimeError: [gloo] Connection closed by peer [10.0.0.2]:1234"
NO_PULL = pod("master-0", waits("ErrImagePull", "failed to pull: not found"))
OF_WORKER = refused(POD_SECURITY.format("init-pytorch"))
OF_MASTER = refused(POD_SECURITY.format("pytorch").replace("worker-0", "master-0"))
ALL_PODS = f"(combined from similar events): Error creating: {FORBIDDEN} no PriorityClass x"
PULLS = event("Pulling", "Pulling image", WORKER)
CHANGED = job(condition("Created"), workers=3)


def made(*names: str, count: int = 1) -> list[dict[str, Any]]:
    """The operator's events of pods that it has created."""
    return [
        event("SuccessfulCreatePod", f"Created pod: {JOB}-{name}", count=count) for name in names
    ]


def of_job(uid: str) -> dict[str, Any]:
    """An event about the job with that uid."""
    return refused(POD_SECURITY.format("init-pytorch"), involved={"uid": uid})


def beside(state: dict[str, Any], replica: str = "worker-0") -> dict[str, Any]:
    """A pod whose training container is in this state; another runs on in it."""
    found = pod(replica, state, phase="Running")
    sidecar = {"name": "istio-proxy", "image": "b", "state": {"running": {"startedAt": stamp(1)}}}
    found["status"]["containerStatuses"].insert(0, sidecar)
    return found


def both(master: dict[str, Any], worker: dict[str, Any], of: Any = RUNNING) -> state.JobSnapshot:
    return seen(pod("master-0", master), pod(state=worker), of=of)


def cancelled(of: dict[str, Any] = RUNNING, **reported: Any) -> dict[str, Any]:
    """A job whose end was asked for."""
    words = {state.CANCEL_ANNOTATION: json.dumps(reported)}
    return {**of, "metadata": job(annotations=words)["metadata"]}


ENDED_ALONE = both(ended(0, at=50), ended(0, at=60))
SIDECARS = seen(beside(ended(0, at=50), "master-0"), beside(ended(0, at=60)), of=RUNNING)
ONE_FAILED = seen(beside(RUNS, "master-0"), beside(ended(3, at=60)), of=RUNNING)
READINGS: list[tuple[Seen, str]] = [
    # A calm job has a sentence.
    (alone(of=job()), "Created -: The job is created."),
    (seen(), "Pending -: 1 of 2 replicas have a node."),
    (seen(CREATING), "Starting -: 1 of 2 replicas have started."),
    (seen(pod()), "Running -: All 2 replicas run."),
    # A job that its queue let go again is pending until its pods come.
    (seen(GONE, of=LET_GO), "Pending"),
    (seen(GONE, of=RUNNING), "Running"),
    (seen(pod(), of=LET_GO, events=made("worker-0", count=2)), "Running -"),
    # A resumed job's time without pods begins when it was let go.
    (at(510, alone(of=RESUMED)), "Pending -"),
    (at(531, alone(of=RESUMED)), "Pending operator-slow"),
    # An image that is being pulled is seen by its events.
    (seen(CREATING, events=[PULLS]), "Pulling -: Image being pulled for worker-0."),
    (seen(CREATING, events=[PULLS, event("Pulled", "x", WORKER)]), "Starting"),
    # The watch of pods may be silent while that of events works.
    # The operator is not blamed for pods that it says it has created.
    (at(31, alone(events=made("master-0", "worker-0"))), "Pending -"),
    (at(31, alone(events=made("master-0"))), "Pending operator-slow"),
    # What cannot come goes before what may.
    (seen(unplaced(FULL.replace(NO_VICTIMS, UNHELPFUL)), NO_PULL), "Pending request-too-large!"),
    (seen(unplaced(FULL), NO_PULL), "Pending image-not-found"),
    (seen(unplaced(FULL), of=CHANGED), "Pending half-placed"),
    # A refusal counts while the pod was not created since.
    (seen(pod(), events=[OF_WORKER]), "Running -"),
    (alone(events=[OF_MASTER, OF_WORKER]), "Pending pod-security!: The pod of master-0 is not"),
    # Events of an earlier job of the name do not count.
    (seen(events=[of_job("job-0")]), "Pending -"),
    (seen(events=[of_job("job-1")]), "Pending operator-init-not-restricted!"),
    # A refusal that stands for many is read as they are.
    (seen(events=[event("FailedCreatePod", ALL_PODS, count=7)]), "Pending admission-denied: "),
    # Of the same second the one that was killed is named.
    (
        exits(master_0=(1, 60), worker_0=(139, 60)),
        "Failed replica-failed over: worker-0 was killed",
    ),
    # Memory goes before peers even when they fell a second earlier.
    (both(ended(1, at=60), ended(137, "OOMKilled", at=61), job(FAILED)), "Failed oom"),
    # A worker that never came to an end is not said to have succeeded.
    (
        seen(pod("master-0", ended(0)), unplaced(FULL), of=SUCCEEDED),
        "Succeeded - over: master-0 succeeded; of worker-0 ",
    ),
    # An end that no operator tells is read from the pods after half a minute.
    (at(85, ENDED_ALONE), "Running"),
    (at(90, ENDED_ALONE), "Succeeded"),
    (at(90, both(ended(0, at=50), ended(3, at=60))), "Failed replica-failed"),
    # The operator waits for the pods' end, and so for ever.
    # A sidecar that runs on does not keep the run from its end.
    (at(61, SIDECARS), "Running"),
    (at(90, SIDECARS), "Succeeded - over: All 2 replicas succeeded."),
    (at(61, ONE_FAILED), "Running -"),
    (
        at(101, seen(beside(ended(1, at=71), "master-0"), beside(ended(3)), of=RUNNING)),
        "Failed replica-failed over: worker-0 exited with code 3.",
    ),
    (
        seen(pod("master-0", ended(0)), beside(ended(0)), of=SUCCEEDED),
        "Succeeded - over: All 2 replicas succeeded.",
    ),
    (
        seen(pod("master-0", ended(0)), beside(ended(4)), of=SUCCEEDED),
        "Failed replica-failed over: worker-0 ",
    ),
    # A replica that the operator restarts is no end.
    (at(500, both(ended(1, at=50), ended(1, at=60), LOOPS["of"])), "Running"),
    # A container that could not be started has not run.
    (at(61, seen(pod(state=ended(128, "StartError", at=60)), of=RUNNING)), "Starting"),
    # A cancelled job tells the cause that was given.
    (
        seen(pod(), of=cancelled(cause="It outlived --timeout.", cause_id="timeout", at=1.0)),
        "Cancelled timeout: It outlived --timeout.",
    ),
    (  # what cancelling makes of the replicas is not the cause
        seen(pod(state=ended(143)), of=cancelled(job(FAILED), cause="Enough."), deleted=True),
        "Cancelled cancelled: Enough.",
    ),
    (alone(of=job(annotations={state.CANCEL_ANNOTATION: "{"})), "Cancelled cancelled"),
    # A wait that was unrecoverable ends as failed.
    (
        alone(
            of=cancelled(cause="No node.", cause_id="no-matching-node", phase="Failed"),
            deleted=True,
        ),
        "Failed no-matching-node over",
    ),
    # A job that had succeeded stays so.
    (seen(pod(state=ended(0)), of=cancelled(SUCCEEDED), deleted=False), "Succeeded"),
    (seen(pod(state=ended(0)), of=cancelled(SUCCEEDED), deleted=True), "Succeeded"),
]


@pytest.mark.parametrize(("found", "expected"), READINGS, ids=[said for _, said in READINGS])
def test_it_is_read_that(found: Seen, expected: str) -> None:
    snapshot, after = found if isinstance(found, tuple) else (found, 10)
    result = read(snapshot, after=after)
    cause_id = f"{result.cause_id or '-'}{'!' * result.unrecoverable}{' over' * result.over}"
    assert f"{result.phase} {cause_id}: {result.cause}".startswith(expected)
    assert result.cause_id or result.action is None


def test_a_log_is_not_waited_for_on_a_node_that_does_not_answer() -> None:
    for conditions, is_over in (((), True), ((condition("Ready"),), False)):
        found = disrupted(*TAINTED, *conditions)
        found.pods = {name: found.pods[name] for name in [f"{JOB}-worker-0"]}
        assert read(found).over == is_over


def test_a_volume_may_fail_to_mount_for_ten_seconds() -> None:
    failing = creating(event("FailedMount", "is not a directory", WORKER, at=2))
    assert [read(failing, after=2 + waited).cause_id for waited in (9, 11)] == [
        None,
        "pod-not-started",
    ]


def test_events_of_what_the_operator_made_for_an_earlier_attempt_do_not_count() -> None:
    for when, cause_id in ((-60, None), (2, "webhook-down")):
        about = {"kind": "Job", "name": f"{JOB}-node-0"}
        said = refused('failed calling webhook "a.example.com": b', at=when, involved=about)
        result = read(alone(events=[said]), plan(run_id=JOB, kind="TrainJob"))
        assert result.cause_id == cause_id


def test_of_many_pods_the_event_that_stands_for_all_tells_of_no_restart() -> None:
    names = [f"worker-{number}" for number in range(31)]
    events = made(*names[:9])
    combined = f"(combined from similar events): Created pod: {JOB}-worker-22"
    events.append(event("SuccessfulCreatePod", combined, count=15))
    found = seen(*map(pod, names), of=job(condition("Running"), workers=31), events=events)
    result = read(found, plan("32x1", run_id=JOB))
    assert (result.phase, result.cause_id) == (Phase.RUNNING, None)
    assert not any(one.restarts for one in result.replicas)


def test_a_pod_that_was_seen_to_be_replaced_counts_though_no_event_says_so() -> None:
    result = read(seen(pod(), of=RUNNING, earlier=[GONE]))
    assert result.cause_id == "replica-replaced"
    assert [one.restarts for one in result.replicas] == [0, 1]


def test_a_deletion_that_was_asked_for_waits_for_finalizers() -> None:
    asked = {"deletionTimestamp": stamp(5)}
    assert state.kept_by({"metadata": {"finalizers": ["a/b"]}}) is None
    assert state.kept_by({"metadata": asked}) is None
    told = state.kept_by({"metadata": {**asked, "finalizers": ["a/b", "c/d"]}})
    assert "a/b, c/d" in present(told)


def test_a_peer_that_lost_its_connection_is_not_the_cause() -> None:
    lines = {
        "master-0": [LOST_PEER],
        "worker-0": ["ValueError: loss is nan"],
    }
    found_now = exits(master_0=(1, 60), worker_0=(1, 60))
    assert read(found_now).cause == "master-0 exited with code 1."
    reading = read(found_now, lines=lines)
    assert reading.cause == "worker-0 exited with code 1: ValueError: loss is nan"
    assert reading.action == "Read its log: 'k8sbench logs job --replica worker-0'."


@pytest.mark.parametrize(
    ("end", "error", "told"),
    [
        (ended(137, "OOMKilled", at=600), "ValueError: bad", "master-0"),
        (ended(137, "OOMKilled", at=69), "ValueError: bad", "worker-0"),
        (ended(137, "OOMKilled", at=600), LOST_PEER, "worker-0"),
    ],
)
def test_an_end_from_outside_long_after_the_first_failure_is_not_its_cause(
    end: dict[str, Any], error: str, told: str
) -> None:
    reports: tuple[dict[str, str], ...] = (
        {},
        {"reason": "Evicted", "message": "The node was low on resource: memory."},
    )
    for status in reports:
        found = failed(pod("master-0", ended(1, at=60)), pod(state=end, status=status))
        result = read(found, lines={"master-0": [error], "worker-0": ["x"]})
        assert told in result.cause
        assert error in result.cause or told == "worker-0"


def test_a_peer_that_a_signal_killed_seconds_later_is_the_cause() -> None:
    lines = {"master-0": [LOST_PEER], "worker-0": ["step 7"]}
    for later, told in ((62, "worker-0"), (90, "master-0")):
        result = read(exits(master_0=(1, 60), worker_0=(139, later)), lines=lines)
        assert result.cause.startswith(told)


def test_a_job_with_quota_waits_for_its_admission_check() -> None:
    check = {"name": "prov", "state": "Pending", "message": "out of stock"}
    workload = {"status": {"conditions": [condition("QuotaReserved")], "admissionChecks": [check]}}
    result = read(alone(of=QUEUED, workload=workload), after=300)
    assert result.cause_id == "queued"
    assert "prov" in result.cause
    assert "out of stock" in result.cause


@pytest.mark.parametrize(
    "image", ["r.example.com/team/bench:429", "r.example.com/team-forbidden/denied:1", "bench:503"]
)
def test_the_name_of_an_image_is_no_cause(image: str) -> None:
    missing = pulling(f'failed to resolve reference "{image}": {image}: not found')
    missing.pods[WORKER]["status"]["containerStatuses"][0]["image"] = image
    assert read(missing).cause_id == "image-not-found"
