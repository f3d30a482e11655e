"""Each cause from small objects; the texts are those of Kubernetes 1.33 and the operator 1.9."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from k8sbench.diagnose.job import state
from k8sbench.diagnose.job.causes import ACTIONS, HOPELESS
from k8sbench.model.phase import Phase
from tests.tiers import ROOT
from tests.unit.kubernetes.objects import (
    FAILED,
    JOB,
    PLAN,
    condition,
    ended,
    event,
    init,
    job,
    node,
    pod,
    read,
    refused,
    seen,
    stamp,
    unplaced,
    waits,
)
from tests.unit.render.plans import plan

UNHELPFUL = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
NO_VICTIMS = "preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
FULL = f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. {NO_VICTIMS}"
WORKER = f"{JOB}-worker-0"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen, and how it must read."""

    seen: state.JobSnapshot
    words: str
    """Part of the sentence."""
    unrecoverable: bool = False
    after: float = 10
    plan: Any = PLAN
    phase: Phase | None = None


DONE = condition("Succeeded", at=61)


def alone(*pods: dict[str, Any], **more: Any) -> state.JobSnapshot:
    """What was seen of a job without the master that otherwise runs."""
    found = seen(**more)
    found.pods = {one["metadata"]["name"]: one for one in pods}
    return found


def both_unplaced(message: str, **more: Any) -> state.JobSnapshot:
    return alone(unplaced(message, "master-0"), unplaced(message, "worker-0"), **more)


TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute")


def disrupted(reason: str, message: str, *others: dict[str, Any], **more: Any) -> dict[str, Any]:
    reported = {**condition("DisruptionTarget", message), "reason": reason}
    return pod(conditions=(reported, *others), metadata={"deletionTimestamp": stamp(59)}, **more)


def asked_to_end(at: float, grace: int = 30) -> dict[str, Any]:
    """Metadata of a pod whose deletion was asked for then."""
    return {"deletionTimestamp": stamp(at + grace), "deletionGracePeriodSeconds": grace}


def pulling(message: str, reason: str = "ImagePullBackOff") -> state.JobSnapshot:
    return seen(pod(state=waits(reason, message)))


QUEUED = job(suspend=True, labels={"kueue.x-k8s.io/queue-name": "gpus"})
POD_SECURITY = (
    'pods "job-worker-0" is forbidden: violates PodSecurity "restricted:latest": '
    'allowPrivilegeEscalation != false (container "{0}" must set '
    "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "
    '"{0}" must set securityContext.capabilities.drop=["ALL"])'
)
CLAIM = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}

EXAMPLES: dict[str, list[Example]] = {
    "suspended": [
        Example(seen=alone(of=job(suspend=True)), words="someone holds it", phase=Phase.QUEUED)
    ],
    "queued": [
        Example(
            seen=alone(
                of=QUEUED,
                workload={
                    "status": {
                        "conditions": [
                            condition(
                                "QuotaReserved",
                                "couldn't assign flavors to pod set master: insufficient unused "
                                "quota for nvidia.com/gpu in flavor v100, 8 more needed",
                                status="False",
                            )
                        ]
                    }
                },
            ),
            words="waits in queue gpus: 'couldn't assign flavors",
            after=500,
            phase=Phase.QUEUED,
        ),
        Example(
            seen=alone(
                of=QUEUED,
                events=[
                    event(
                        "Pending",
                        "insufficient unused quota for nvidia.com/gpu",
                        "pytorchjob-job-1a2b3",
                        involved={"kind": "Workload"},
                    )
                ],
            ),
            words="queue gpus: 'insufficient unused quota",
            after=500,
        ),
    ],
    "queue-unusable": [
        Example(seen=alone(of=QUEUED), words="Nobody serves queue gpus", after=31),
        Example(
            seen=alone(
                of=QUEUED,
                workload={
                    "status": {
                        "conditions": [
                            condition(
                                "QuotaReserved", "LocalQueue gpus doesn't exist", status="False"
                            )
                        ]
                    }
                },
            ),
            words="'LocalQueue gpus doesn't exist'",
        ),
    ],
    "operator-down": [Example(seen=alone(of=job()), words="done nothing", after=31)],
    "operator-slow": [
        Example(seen=alone(pod("master-0")), words="has created 1 of 2 pods", after=31),
        Example(
            seen=alone(of=job(), operator_seen_at=1_700_000_025.0),
            words="has created 0 of 2 pods",
            after=31,
        ),
    ],
    "quota-exceeded": [
        Example(
            seen=seen(
                events=[
                    refused(
                        'pods "job-worker-0" is forbidden: exceeded quota: gpus, requested: '
                        "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=16, limited: "
                        "requests.nvidia.com/gpu=16"
                    )
                ]
            ),
            words="quota gpus allows requests.nvidia.com/gpu 16, of which 16 used, and 8 more asked"
            " for.",
        ),
        Example(
            seen=seen(
                events=[
                    refused(
                        'pods "job-worker-0" is forbidden: exceeded quota: q, requested: '
                        "pods=1,requests.nvidia.com/gpu=8, used: pods=1,requests.nvidia.com/gpu=8, "
                        "limited: pods=5,requests.nvidia.com/gpu=8"
                    )
                ]
            ),
            words="; the job needs 2 times 8 of requests.nvidia.com/gpu.",
            unrecoverable=True,
        ),
        Example(
            seen=seen(
                events=[
                    refused(
                        'pods "job-worker-0" is forbidden: exceeded quota: q, requested: '
                        "limits.memory=256Gi,pods=1, used: limits.memory=0,pods=1, limited: "
                        "limits.memory=200Gi,pods=5"
                    )
                ]
            ),
            words="limits.memory 200Gi",
            unrecoverable=True,
        ),
        Example(
            seen=seen(
                events=[
                    refused(
                        'pods "job-worker-0" is forbidden: failed quota: q: must specify '
                        "limits.ephemeral-storage for: pytorch"
                    )
                ]
            ),
            words="quota q wants limits.ephemeral-storage for: pytorch to be set",
            unrecoverable=True,
        ),
    ],
    "pod-security": [
        Example(
            seen=seen(events=[refused(POD_SECURITY.format("pytorch"))]),
            words="'allowPrivilegeEscalation != false, unrestricted capabilities' (pytorch)",
            unrecoverable=True,
        )
    ],
    "operator-init-not-restricted": [
        Example(
            seen=seen(events=[refused(POD_SECURITY.format("init-pytorch"))]),
            words="the operator's init container has no security context",
            unrecoverable=True,
            phase=Phase.PENDING,
        )
    ],
    "pod-invalid": [
        Example(
            seen=seen(
                events=[
                    refused(
                        'Pod "job-worker-0" is invalid: spec.restartPolicy: Unsupported value: '
                        '"Foo": supported values: "Always"'
                    )
                ]
            ),
            words='restartPolicy: Unsupported value: "Foo"',
            unrecoverable=True,
        )
    ],
    "admission-denied": [
        Example(
            seen=seen(
                events=[
                    refused(
                        'admission webhook "rules.example.com" denied the request: no team label'
                    )
                ]
            ),
            words="the webhook rules.example.com refuses: 'no team label'",
        ),
        Example(
            seen=seen(
                events=[
                    refused(
                        'Internal error occurred: failed calling webhook "rules.example.com": '
                        "failed to call webhook: connect: connection refused"
                    )
                ]
            ),
            words="the webhook rules.example.com does not answer",
        ),
        Example(
            seen=seen(
                events=[
                    refused(
                        'pods "job-worker-0" is forbidden: maximum memory usage per Container is '
                        "1Gi, but limit is 256Gi"
                    )
                ]
            ),
            words="maximum memory usage per Container is 1Gi",
        ),
    ],
    "name-in-use": [
        Example(
            seen=seen(
                events=[refused('object is being deleted: pods "job-worker-0" already exists')]
            ),
            words="an earlier job of this name",
        )
    ],
    "no-node-fits": [
        Example(
            seen=both_unplaced(FULL, nodes=[node()]),
            words="for master-0 and worker-0: each asks for 8 nvidia.com/gpu (16 in all)"
            ", and all 4 nodes have too little nvidia.com/gpu free",
        ),
        Example(
            seen=both_unplaced(
                "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint "
                "{team: other}, 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node "
                "affinity/selector. preemption: 0/4 nodes are available: 1 No preemption victims "
                "found for incoming pod, 3 Preemption is not helpful for scheduling."
            ),
            words="256 GiB memory (512 GiB in all), and 1 of 4 nodes has too little memory"
            " free; 1 of 4 nodes has the taint team: other, which the pool does not tolerate; 1 of"
            " 4 nodes is closed to pods; 1 of 4 nodes has other labels",
        ),
        # Of a pod that is pinned to a node.
        Example(
            seen=both_unplaced(
                "0/7 nodes are available: 1 Insufficient nvidia.com/gpu, 6 node(s) didn't satisfy"
                " plugin(s) [NodeAffinity]. preemption: 0/7 nodes are available: 1 No preemption"
                " victims found for incoming pod, 6 Preemption is not helpful for scheduling."
            ),
            words="1 of 7 nodes has too little nvidia.com/gpu free; 6 of 7 nodes have other labels",
        ),
        Example(seen=both_unplaced("no nodes available to schedule pods"), words="no nodes at all"),
    ],
    "request-too-large": [
        Example(
            seen=both_unplaced(FULL, nodes=[node(gpus="4")]),
            words="8 nvidia.com/gpu is more than any of the 4 nodes has; the largest has 4",
            unrecoverable=True,
        ),
        # A scheduler from 1.34 on says so itself.
        Example(
            seen=both_unplaced(
                f"0/4 nodes are available: 2 Insufficient nvidia.com/gpu, 2 node(s) didn't match "
                f"Pod's node affinity/selector. {UNHELPFUL}"
            ),
            words="8 nvidia.com/gpu is more than any",
            unrecoverable=True,
        ),
    ],
    "no-matching-node": [
        Example(
            seen=both_unplaced(
                f"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. "
                f"{UNHELPFUL}",
                nodes=[node(gpu="v100"), node(gpu="a100")],
            ),
            words="none of the 4 nodes has the labels of its node affinity",
            unrecoverable=True,
        ),
        # Its taint hides a node's labels from the scheduler's sentence.
        Example(
            seen=alone(
                unplaced(
                    f"0/4 nodes are available: 1 node(s) had untolerated taint {{team: other}}, "
                    f"3 node(s) didn't match Pod's node affinity/selector. {UNHELPFUL}",
                    "master-0",
                    spec={"nodeSelector": {"gpu": "h100"}},
                ),
                nodes=[node(gpu="v100"), node(gpu="a100")],
            ),
            words="the label gpu=h100; theirs is a100, v100",
            unrecoverable=True,
        ),
        Example(
            seen=both_unplaced(
                f"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. "
                f"{UNHELPFUL}",
                events=[event("TriggeredScaleUp", "pod triggered scale-up", f"{JOB}-master-0")],
            ),
            words="none of the 4 nodes",
            unrecoverable=False,
        ),
    ],
    "taint-not-tolerated": [
        Example(
            seen=both_unplaced(
                f"0/4 nodes are available: 4 node(s) had untolerated taint {{nvidia.com/gpu: "
                f"present}}. {UNHELPFUL}"
            ),
            words="all 4 nodes have the taint nvidia.com/gpu: present",
        )
    ],
    "nodes-not-ready": [
        Example(
            seen=both_unplaced(
                f"0/4 nodes are available: 1 node(s) were unschedulable, 3 node(s) had untolerated "
                f"taint {{node.kubernetes.io/not-ready: }}. {UNHELPFUL}"
            ),
            words="3 of 4 nodes have the taint node.kubernetes.io/not-ready, which the pool does"
            " not tolerate; 1 of 4 nodes is closed to pods",
        )
    ],
    "half-placed": [
        Example(
            seen=seen(unplaced(FULL)),
            words="master-0 holds 8 nvidia.com/gpu and waits for worker-0",
            phase=Phase.PENDING,
        )
    ],
    "blocked-by-other-job": [
        Example(seen=seen(unplaced(FULL), rivals=["other"]), words="and job other does the same")
    ],
    "gang-incomplete": [
        Example(
            seen=both_unplaced(
                "3/4 tasks in gang unschedulable: pod group is not ready, 4 minAvailable, 1 Pending"
            ),
            words="the gang scheduler waits",
        )
    ],
    "gang-ignored": [
        Example(
            seen=seen(pod()),
            words="ignores --gang: the pod of master-0 belongs to no gang",
            unrecoverable=True,
            plan=msgspec.structs.replace(PLAN, gang=True),
            phase=Phase.RUNNING,
        )
    ],
    "volume-not-bound": [
        Example(
            seen=alone(
                unplaced(
                    f"0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. "
                    f"{UNHELPFUL}",
                    "master-0",
                    spec=CLAIM,
                ),
                pod(),
                events=[
                    event(
                        "FailedBinding",
                        "no persistent volumes available for this claim and no storage class is"
                        " set",
                        "data",
                        involved={"kind": "PersistentVolumeClaim"},
                    )
                ],
            ),
            words="the claim data has no volume: 'no persistent volumes available",
            after=32,
        ),
    ],
    "volume-missing": [
        Example(
            seen=both_unplaced(
                f'0/4 nodes are available: persistentvolumeclaim "data" not found. {UNHELPFUL}'
            ),
            words="there is no claim data in namespace team",
        ),
        Example(
            seen=both_unplaced(
                f'0/4 nodes are available: persistentvolumeclaim "data" not found. {UNHELPFUL}'
            ),
            words="there is no claim data in namespace team",
            after=32,
            unrecoverable=True,
        ),
    ],
    "unscheduled": [
        Example(
            seen=both_unplaced(
                "0/4 nodes are available: 4 node(s) didn't have free ports for the requested pod "
                f"ports. {NO_VICTIMS}"
            ),
            words="didn't have free ports",
        )
    ],
    "image-name-invalid": [
        Example(
            seen=pulling("couldn't parse image name: must be lowercase", "InvalidImageName"),
            words="'registry.example.com/a:1' is not an image name",
            unrecoverable=True,
            phase=Phase.PULLING,
        )
    ],
    "image-not-found": [
        Example(
            seen=pulling(
                'Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound desc = '
                'failed to pull and unpack image "x": failed to resolve reference "x": '
                "registry.example.com/a:1: not found"
            ),
            words="'resolve reference \"x\": registry.example.com/a:1: not found'",
            phase=Phase.PULLING,
        ),
        # Kubelets before 1.31 tell why in an event only.
        Example(
            seen=seen(
                pod(state=waits("ImagePullBackOff", 'Back-off pulling image "x"')),
                events=[
                    event("Failed", 'Failed to pull image "x": manifest unknown', WORKER),
                    event("Failed", "Error: ImagePullBackOff", WORKER),
                ],
            ),
            words="manifest unknown",
        ),
        Example(
            seen=pulling(
                'Container image "x" is not present with pull policy of Never',
                "ErrImageNeverPull",
            ),
            words="it is not on node gpu-0",
        ),
    ],
    "image-pull-denied": [
        Example(
            seen=pulling(
                'failed to authorize: failed to fetch oauth token: unexpected status: "401 '
                'Unauthorized"',
                "ErrImagePull",
            ),
            words="worker-0 cannot pull the image registry.example.com/a:1: ",
        ),
        Example(
            seen=pulling(
                "failed to pull: pull access denied, repository does not exist or may require "
                "authorization: server message: insufficient_scope: authorization failed"
            ),
            words="pull access denied",
        ),
    ],
    "registry-unreachable": [
        Example(
            seen=pulling(
                'failed to do request: Head "https://registry.example.com/v2/": dial tcp: lookup '
                "registry.example.com: no such host"
            ),
            words="no such host",
        ),
        Example(
            seen=pulling("failed to pull: toomanyrequests: You have reached your pull rate limit"),
            words="rate limit",
        ),
    ],
    "image-pull-failed": [
        Example(seen=pulling("failed to extract layer: no space left on device"), words="no space")
    ],
    "init-image-not-pullable": [
        Example(
            seen=seen(
                pod(
                    state=waits("PodInitializing"),
                    inits=(init(waits("ImagePullBackOff", "failed to pull: no such host")),),
                )
            ),
            words="worker-0 waits for the image of the init container that the operator adds, "
            "alpine:3.10: 'pull: no such host'",
        )
    ],
    "init-failed": [
        Example(
            seen=seen(
                pod(state=waits("PodInitializing"), phase="Failed", inits=(init(ended(1)),)),
                of=job(FAILED),
            ),
            words="The init container of worker-0 ended with exit code 1",
            phase=Phase.FAILED,
        )
    ],
    "config-missing": [
        Example(
            seen=seen(pod(state=waits("CreateContainerConfigError", 'configmap "x" not found'))),
            words="worker-0 cannot start: 'configmap \"x\" not found'",
        ),
        Example(
            seen=seen(
                pod(state=waits("ContainerCreating")),
                events=[
                    event(
                        "FailedMount",
                        'MountVolume.SetUp failed for volume "trainers" : configmap "job" not '
                        "found",
                        WORKER,
                    )
                ],
            ),
            words="'configmap \"job\" not found'",
            after=31,
            unrecoverable=True,
        ),
    ],
    "mount-failed": [
        Example(
            seen=seen(
                pod(state=waits("ContainerCreating")),
                events=[
                    event(
                        "FailedMount",
                        'MountVolume.SetUp failed for volume "d" : hostPath type check failed: '
                        "/no/such/dir is not a directory",
                        WORKER,
                    )
                ],
            ),
            words="worker-0 cannot mount a volume on node gpu-0: 'MountVolume.SetUp failed",
            after=13,
        )
    ],
    "node-cannot-start": [
        Example(
            seen=seen(
                pod(state=waits("ContainerCreating")),
                events=[
                    event(
                        "FailedCreatePodSandBox",
                        "Failed to create pod sandbox: plugin type=bridge failed",
                        WORKER,
                    )
                ],
            ),
            words="Node gpu-0 cannot set up the pod of worker-0",
            after=13,
        ),
        Example(
            seen=seen(
                pod(
                    phase="Failed",
                    state=waits(""),
                    status={
                        "reason": "OutOfnvidia.com/gpu",
                        "message": "Node didn't have enough resource: nvidia.com/gpu",
                    },
                ),
                of=job(FAILED),
            ),
            words="Node gpu-0 refused worker-0 (OutOfnvidia.com/gpu)",
        ),
    ],
    "start-error": [
        Example(
            seen=seen(
                pod(
                    state=ended(
                        128, "StartError", message='exec: "/x": stat /x: no such file or directory'
                    )
                ),
                of=job(FAILED),
            ),
            words='worker-0 could not be started: \'exec: "/x"',
            phase=Phase.FAILED,
        ),
        Example(
            seen=seen(
                pod(
                    state=waits(
                        "CreateContainerConfigError",
                        "container has runAsNonRoot and image will run as root",
                    )
                )
            ),
            words="runAsNonRoot",
            phase=Phase.STARTING,
        ),
    ],
    "replica-failed": [
        Example(
            seen=seen(pod(state=ended(3)), of=job(FAILED)),
            words="worker-0 exited with code 3.",
            phase=Phase.FAILED,
        ),
        Example(
            seen=seen(
                pod(state=waits("CrashLoopBackOff", "back-off"), last=ended(1), restarts=2),
                of=job(condition("Running"), restart_policy="OnFailure"),
            ),
            words="worker-0 exited with code 1, after 2 restarts.",
        ),
        # Deleted after it had failed, by someone or as the job's cleanPodPolicy has it.
        Example(
            seen=seen(pod(state=ended(3, at=40), metadata=asked_to_end(41)), of=job(FAILED)),
            words="worker-0 exited with code 3.",
        ),
        Example(
            seen=seen(
                pod("master-0", ended(143, at=42), metadata=asked_to_end(40)),
                pod(state=ended(3, at=40)),
                of=job(FAILED, cleanPodPolicy="Running"),
            ),
            words="worker-0 exited with code 3.",
        ),
        # Its pod was never seen to fail, but the operator saw it.
        Example(
            seen=seen(
                of=job(FAILED),
                events=[event("ExitedWithCode", "Pod: team.job-worker-0 exited with code 5")],
            ),
            words="worker-0 exited with code 5.",
        ),
        Example(
            seen=seen(pod(state=ended(137)), of=job(FAILED)),
            words="worker-0 was killed by signal 9 (SIGKILL), exit code 137.",
        ),
    ],
    "oom": [
        Example(
            seen=seen(pod(state=ended(137, "OOMKilled")), of=job(FAILED)),
            words="worker-0 ran out of its memory (256Gi) and was killed on node gpu-0.",
        ),
        Example(
            seen=seen(pod(state=ended(3, "OOMKilled")), of=job(FAILED)),
            words="A process of worker-0 ran out of its memory (256Gi) and was killed, and it"
            " exited with code 3",
        ),
    ],
    "usage-error": [
        Example(
            seen=seen(pod(state=ended(2)), of=job(FAILED)),
            words="worker-0 exited with code 2.",
        ),
    ],
    "evicted": [
        Example(
            seen=seen(
                pod(
                    state=ended(137),
                    status={
                        "reason": "Evicted",
                        "message": "The node was low on resource: ephemeral-storage. ",
                    },
                ),
                of=job(FAILED),
            ),
            words="worker-0 was evicted on node gpu-0: 'The node was low on resource",
        ),
        Example(
            seen=seen(disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), of=job(FAILED)),
            words="'Eviction API: evicting' (kubectl drain asks so)",
        ),
        Example(
            seen=seen(disrupted(*TAINTED, condition("Ready")), of=job(FAILED)),
            words="worker-0 was evicted on node gpu-0: a taint (NoExecute) was put on its node.",
        ),
        Example(
            seen=seen(disrupted(*TAINTED, state=ended(143)), of=job(FAILED)),
            words="worker-0 was evicted on node gpu-0: a taint (NoExecute) was put on its node.",
        ),
    ],
    "preempted": [
        Example(
            seen=seen(
                disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate"),
                of=job(FAILED),
            ),
            words="worker-0 was preempted on node gpu-0",
        )
    ],
    "node-lost": [
        Example(
            seen=seen(
                disrupted(*TAINTED),
                of=job(FAILED),
            ),
            words="The node gpu-0 of worker-0 was lost",
        ),
        Example(
            seen=seen(
                pod(
                    state=ended(143),
                    status={
                        "reason": "Terminated",
                        "message": "Pod was terminated in response to imminent node shutdown.",
                    },
                ),
                of=job(FAILED),
            ),
            words="worker-0 ended with its node gpu-0: 'Pod was terminated",
        ),
        # Gone before its last state was seen.
        Example(
            seen=seen(
                pod() | {"_deleted": True},
                of=job(FAILED),
                events=[
                    event("TaintManagerEviction", "Marking for deletion Pod team/x", WORKER),
                ],
            ),
            words="The node gpu-0 of worker-0 was lost",
        ),
    ],
    "pod-deleted": [
        Example(
            seen=seen(pod() | {"_deleted": True}, of=job(FAILED)),
            words="The pod of worker-0 was deleted while it ran.",
        ),
        # Its program heard of it and ended in its own way, and its master lost it by that.
        Example(
            seen=seen(
                pod("master-0", ended(1, at=42)),
                pod(state=ended(7, at=42), metadata=asked_to_end(40)),
                of=job(FAILED),
            ),
            words="The pod of worker-0 was deleted while it ran.",
        ),
        # The operator has made it anew, and failed the job all the same.
        Example(
            seen=seen(
                pod(state=waits("ContainerCreating")),
                of=job(FAILED),
                earlier=[pod() | {"_deleted": True}],
            ),
            words="The pod of worker-0 was deleted while it ran.",
        ),
    ],
    "replica-replaced": [
        Example(
            seen=seen(
                pod(),
                of=job(condition("Running")),
                events=[event("SuccessfulCreatePod", f"Created pod: {WORKER}", count=2)],
            ),
            words="The pod of worker-0 vanished, and the operator made a new one.",
            phase=Phase.RUNNING,
        )
    ],
    "job-changed": [
        Example(
            seen=seen(pod(), of=job(condition("Running"), workers=3)),
            words="The job was changed: 3 Worker replicas, 1 planned.",
            phase=Phase.RUNNING,
        ),
        Example(
            seen=seen(pod("master-0", ended(0)), pod(state=ended(0)), of=job(DONE, workers=3)),
            words="All 2 replicas succeeded. The job was changed: 3 Worker replicas, 1 planned.",
            phase=Phase.SUCCEEDED,
        ),
    ],
    "restart-loop": [
        Example(
            seen=seen(
                pod(),
                of=job(condition("Running"), restart_policy="ExitCode"),
                events=[
                    event("SuccessfulCreatePod", f"Created pod: {WORKER}", count=5),
                    event("ExitedWithCode", f"Pod: team.{WORKER} exited with code 137", count=4),
                ],
            ),
            words="worker-0 was started again 4 times after it was killed by signal 9",
            phase=Phase.RUNNING,
        )
    ],
    "backoff-limit": [
        Example(
            seen=seen(
                pod(),
                of=job(
                    condition(
                        "Failed",
                        "Job job has failed because it has reached the specified backoff limit",
                    )
                ),
                earlier=[pod(state=ended(3))],
            ),
            words="the operator deleted its pods. worker-0 exited with code 3.",
        )
    ],
    "deadline": [
        Example(
            seen=alone(
                of=job(
                    condition(
                        "Failed",
                        "Job job has failed because it was active longer than specified deadline",
                    )
                )
            ),
            words="activeDeadlineSeconds, and the operator deleted its pods.",
        )
    ],
    "job-failed": [
        Example(
            seen=alone(of=job(FAILED)), words="The job failed: 'PyTorchJob job is failed because"
        )
    ],
    "job-deleted": [
        Example(seen=seen(pod(), deleted=True), words="deleted by someone", phase=Phase.LOST)
    ],
    "cancelled": [
        Example(
            seen=seen(
                pod(),
                of=job(annotations={"k8sbench.io/cancelled": json.dumps({"cause": "Enough."})}),
            ),
            words="Enough.",
            phase=Phase.CANCELLED,
        )
    ],
}


def test_every_cause_of_the_table_has_an_example() -> None:
    assert set(EXAMPLES) == set(ACTIONS)
    assert set(ACTIONS) > HOPELESS


@pytest.mark.parametrize(
    ("cause_id", "example"),
    [
        pytest.param(cause_id, example, id=f"{cause_id}-{number}")
        for cause_id, examples in EXAMPLES.items()
        for number, example in enumerate(examples)
    ],
)
def test_a_cause_is_found_with_its_sentence_and_action(cause_id: str, example: Example) -> None:
    reading = read(example.seen, example.plan, after=example.after)
    assert reading.cause_id == cause_id
    assert example.words in reading.cause
    assert reading.unrecoverable == example.unrecoverable
    assert reading.action
    assert "{" not in re.sub(r"=\{.*\}'", "", reading.action)
    assert example.phase in (None, reading.phase)


@pytest.mark.parametrize("cause_id", EXAMPLES)
def test_a_sentence_is_one_and_ends_as_one(cause_id: str) -> None:
    for example in EXAMPLES[cause_id]:
        cause = read(example.seen, example.plan, after=example.after).cause
        assert cause.endswith(".")
        assert "\n" not in cause
        assert not re.search(r"None|\{\}|\.\.$|:\s*\.$|  ", cause)


def test_what_cannot_come_goes_before_what_may() -> None:
    missing = pod("master-0", waits("ErrImagePull", "failed to pull: not found"))
    large = unplaced(FULL)
    reading = read(seen(missing, large, nodes=[node(gpus="4")]))
    assert (reading.cause_id, reading.unrecoverable) == ("request-too-large", True)
    assert read(seen(missing, large, nodes=[node()])).cause_id == "image-not-found"


def test_a_refusal_counts_no_more_when_the_pod_was_created_since() -> None:
    reading = read(seen(pod(), events=[refused(POD_SECURITY.format("pytorch"))]))
    assert (reading.phase, reading.cause_id) == (Phase.RUNNING, None)


def test_each_pod_has_the_refusal_that_names_it() -> None:
    master = POD_SECURITY.format("pytorch").replace("worker-0", "master-0")
    events = [refused(master), refused(POD_SECURITY.format("init-pytorch"))]
    reading = read(alone(events=events))
    assert reading.cause_id == "pod-security"
    assert reading.cause.startswith("The pod of master-0 is not created")


def test_events_of_an_earlier_job_of_the_name_do_not_count() -> None:
    old = refused(POD_SECURITY.format("pytorch"), involved={"uid": "job-0"})
    assert read(seen(events=[old])).cause_id is None
    own = refused(POD_SECURITY.format("pytorch"), involved={"uid": "job-1"})
    assert read(seen(events=[own])).cause_id == "pod-security"


@pytest.mark.parametrize(
    ("found_now", "after", "again"),
    [
        (alone(of=job()), 10.0, 20.0),
        (
            both_unplaced("0/4 nodes are available: pod has unbound immediate "
                          "PersistentVolumeClaims."),
            11.0,
            20.0,
        ),
        (
            seen(
                pod(state=waits("ContainerCreating")),
                events=[event("FailedMount", "timed out", WORKER, at=2)],
            ),
            5.0,
            7.0,
        ),
    ],
    ids=["operator", "claim", "mount"],
)  # fmt: skip
def test_what_often_passes_is_no_trouble_at_first(
    found_now: state.JobSnapshot, after: float, again: float
) -> None:
    reading = read(found_now, after=after)
    assert reading.cause_id is None
    assert reading.look_again_s == again
    assert read(found_now, after=after + again).cause_id is not None


def test_a_resumed_job_s_time_without_pods_begins_when_it_was_let_go() -> None:
    resumed = condition("Suspended", status="False", at=500)
    found_now = alone(of=job(condition("Created"), resumed))
    assert read(found_now, after=510).cause_id is None
    assert read(found_now, after=531).cause_id == "operator-slow"


def test_pods_of_a_job_that_its_queue_stopped_are_not_replaced() -> None:
    made = [event("SuccessfulCreatePod", f"Created pod: {WORKER}", count=2)]
    resumed = job(condition("Running"), condition("Suspended", status="False"))
    assert read(seen(pod(), of=resumed, events=made)).cause_id is None


def test_of_many_pods_the_event_that_stands_for_all_tells_of_no_restart() -> None:
    made = [event("SuccessfulCreatePod", f"Created pod: {JOB}-worker-{n}") for n in range(9)]
    combined = f"(combined from similar events): Created pod: {JOB}-worker-22"
    made.append(event("SuccessfulCreatePod", combined, count=15))
    reading = read(nothing_but(32, made), plan("32x1", run_id=JOB))
    assert (reading.phase, reading.cause_id) == (Phase.RUNNING, None)
    assert not any(one.restarts for one in reading.replicas)


def nothing_but(count: int, events: list[dict[str, Any]]) -> state.JobSnapshot:
    """What was seen of a job of so many pods that all run."""
    names = ["master-0", *(f"worker-{number}" for number in range(count - 1))]
    of = job(condition("Running"), workers=count - 1)
    return seen(*map(pod, names), of=of, events=events)


def test_a_pod_that_was_seen_to_be_replaced_counts_though_no_event_says_so() -> None:
    of = job(condition("Running"))
    reading = read(seen(pod(), of=of, earlier=[pod() | {"_deleted": True}]))
    assert reading.cause_id == "replica-replaced"
    assert [one.restarts for one in reading.replicas] == [0, 1]


def test_a_refusal_that_stands_for_many_is_read_as_they_are() -> None:
    words = (
        'Error creating: pods "job-worker-0" is forbidden: no PriorityClass with name x was found'
    )
    one = event("FailedCreatePod", f"(combined from similar events): {words}", count=7)
    assert read(seen(events=[one])).cause == (
        "The pod of worker-0 is not created: 'no PriorityClass with name x was found'."
    )


# --- who failed first ----------------------------------------------------------------------------


def failed(**codes: tuple[int, float]) -> state.JobSnapshot:
    pods = [pod(name.replace("_", "-"), ended(code, at=at)) for name, (code, at) in codes.items()]
    return seen(*pods, of=job(FAILED))


def test_the_first_to_fail_is_named() -> None:
    reading = read(failed(master_0=(1, 61), worker_0=(1, 60)))
    assert reading.cause == "worker-0 exited with code 1."


def test_of_the_same_second_the_one_that_was_killed_is_named() -> None:
    reading = read(failed(master_0=(1, 60), worker_0=(139, 60)))
    assert reading.cause == "worker-0 was killed by signal 11 (SIGSEGV), exit code 139."


@pytest.mark.parametrize("code", [1, 126, 127, 128, 255])
def test_an_exit_code_that_is_no_signal_s_is_reported_as_one(code: int) -> None:
    reading = read(failed(worker_0=(code, 60)))
    assert reading.cause == f"worker-0 exited with code {code}."


def test_memory_goes_before_peers_even_when_they_fell_a_second_earlier() -> None:
    killed = pod(state=ended(137, "OOMKilled", at=61))
    reading = read(seen(pod("master-0", ended(1, at=60)), killed, of=job(FAILED)))
    assert reading.cause_id == "oom"


def test_a_peer_that_lost_its_connection_is_not_the_cause() -> None:
    lines = {
        "master-0": ["RuntimeError: [gloo] Connection closed by peer [10.0.0.2]:1234"],
        "worker-0": ["ValueError: loss is nan"],
    }
    found_now = failed(master_0=(1, 60), worker_0=(1, 60))
    assert read(found_now).cause == "master-0 exited with code 1."
    reading = read(found_now, lines=lines)
    assert reading.cause == "worker-0 exited with code 1: ValueError: loss is nan"
    assert reading.action == "Read its log: 'k8sbench logs job --replica worker-0'."


@pytest.mark.parametrize(
    ("trainer", "cause_id"), [("resnet50", "usage-error"), (None, "replica-failed")]
)
def test_what_one_of_our_trainers_has_refused_is_known_by_its_line(
    trainer: str | None, cause_id: str
) -> None:
    of_whom = msgspec.structs.replace(PLAN, trainer=trainer)
    lines = {"worker-0": ["k8sbench: error: no such data"], "master-0": ["step 1"]}
    reading = read(failed(master_0=(1, 61), worker_0=(1, 60)), of_whom, lines=lines)
    assert reading.cause_id == cause_id
    assert reading.cause == "worker-0 exited with code 1: k8sbench: error: no such data"


@pytest.mark.parametrize(
    ("code", "reported", "cause_id", "words"),
    [
        (137, "Signal 9 (SIGKILL) received by PID 7", "oom", "was killed by signal 9 (SIGKILL)"),
        (139, "Signal 11 (SIGSEGV) received by PID 7", "replica-failed", "was killed by signal 11"),
        (143, "Signal 15 (SIGTERM) received by PID 7", "replica-failed", "was ended by signal 15"),
    ],
)
def test_of_a_replicas_ranks_the_one_that_ended_first_is_named(
    code: int, reported: str, cause_id: str, words: str
) -> None:
    lost = "RuntimeError: [gloo] Connection reset by peer"
    lines = {
        "master-0": [lost, f"paddle_launch.py: rank 0: exit code 1: {lost}"],
        "worker-0": [lost, f"paddle_launch.py: rank 3: {reported}"],
    }
    reading = read(failed(master_0=(1, 60), worker_0=(code, 61)), lines=lines)
    assert reading.cause.startswith(f"rank 3 of worker-0 {words}")
    assert reading.cause_id == cause_id


def test_a_crash_loop_by_memory_is_reported_as_memory() -> None:
    looping = pod(state=waits("CrashLoopBackOff"), last=ended(137, "OOMKilled"), restarts=2)
    reading = read(seen(looping, of=job(condition("Running"), restart_policy="OnFailure")))
    assert (reading.cause_id, reading.phase) == ("oom", Phase.STARTING)


# --- the page ------------------------------------------------------------------------------------


def test_the_page_holds_the_table() -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {name.strip("`"): action for name, _, _, action in rows} == {
        cause_id: _shown(action) for cause_id, action in ACTIONS.items()
    }
    unrecoverable = {name.strip("`") for name, verdict, _, _ in rows if verdict == "yes"}
    assert unrecoverable == HOPELESS
    found = {name.strip("`") for name, verdict, _, _ in rows if verdict not in ("yes", "no")}
    sometimes = {key for key, each in EXAMPLES.items() if any(one.unrecoverable for one in each)}
    assert found <= sometimes
    assert sometimes == HOPELESS | found


def _shown(action: str) -> str:
    names = re.findall(r"(?<!\{)\{(\w+)\}", action)
    return action.format_map({name: name.upper() for name in names})
