"""What the states and reasons of Kubernetes mean here: one table for each kind of them.

The tables hold what Kubernetes 1.33, the training operator 1.9 and the usual autoscalers write. A
test holds them complete for these versions, and lists the reasons of events that change no verdict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from k8sbench.model.phase import Phase

T = TypeVar("T")


def _by_reason(*rows: tuple[T, str]) -> dict[str, T]:
    """Turn rows of a meaning and the reasons that have it, as words, into a table by reason."""
    return {reason: meaning for meaning, reasons in rows for reason in reasons.split()}


POD_PHASES: Mapping[str, Phase] = {
    "Pending": Phase.PENDING,
    "Running": Phase.RUNNING,
    "Succeeded": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    # Its node does not answer: Kubernetes has not written it since 1.5.
    "Unknown": Phase.LOST,
}


class Waiting(enum.Enum):
    """Why a container has not started."""

    ROUTINE = enum.auto()
    """It is being prepared; what goes wrong meanwhile is reported by events."""
    IMAGE = enum.auto()
    CONFIG = enum.auto()
    """A ConfigMap, a Secret, or a setting of the container."""
    START = enum.auto()
    CRASHED = enum.auto()


WAITING = _by_reason(
    (Waiting.ROUTINE, "ContainerCreating PodInitializing ResizePodInPlaceError"),
    # The kubelet tries again at once, and writes an event each time.
    (Waiting.ROUTINE, "CreatePodSandboxError ConfigPodSandboxError"),
    (Waiting.ROUTINE, "KillPodSandboxError KillContainerError"),
    (Waiting.IMAGE, "ErrImagePull ImagePullBackOff RegistryUnavailable ImageInspectError"),
    # The last: the node's policy wants a signature that the image lacks.
    (Waiting.IMAGE, "ErrImageNeverPull InvalidImageName SignatureValidationFailed"),
    (Waiting.CONFIG, "CreateContainerConfigError"),
    (Waiting.START, "CreateContainerError RunContainerError"),
    (Waiting.START, "PreCreateHookError PreStartHookError PostStartHookError"),
    # Of volumes that k8sbench does not use, and a webhook may add.
    (Waiting.START, "ImageVolumeMountFailed RROUnsupported"),
    (Waiting.CRASHED, "CrashLoopBackOff"),
)


def waiting(reason: str) -> Waiting:
    """Return what a waiting container waits for; an unknown error is one of starting it."""
    return WAITING.get(reason, Waiting.START if reason.endswith("Error") else Waiting.ROUTINE)


class Terminated(enum.Enum):
    """How a container ended, as far as its exit code does not say."""

    EXITED = enum.auto()
    OUT_OF_MEMORY = enum.auto()
    NEVER_STARTED = enum.auto()


TERMINATED = _by_reason(
    # Of ContainerStatusUnknown the kubelet found no trace, and writes 137 with a message.
    (Terminated.EXITED, "Completed Error ContainerStatusUnknown Unknown"),
    (Terminated.OUT_OF_MEMORY, "OOMKilled"),
    # containerd's; CRI-O and Docker wrote the next three.
    (Terminated.NEVER_STARTED, "StartError"),
    (Terminated.NEVER_STARTED, "ContainerCannotRun CreateContainerError RunContainerError"),
)


class Outside(enum.Enum):
    """Who ended a pod that its program did not end."""

    EVICTED = enum.auto()
    """Its node's kubelet, for want of a resource or for a more important pod; or the eviction API,
    called by whoever drains the node."""
    PREEMPTED = enum.auto()
    NODE_LOST = enum.auto()
    SHUTDOWN = enum.auto()
    """Its node was shut down in order."""
    REFUSED = enum.auto()
    """Its node did not admit it, because it knows more than the scheduler."""
    DEADLINE = enum.auto()
    """The pod's own activeDeadlineSeconds."""


DISRUPTIONS = _by_reason(
    (Outside.EVICTED, "TerminationByKubelet EvictionByEvictionAPI"),
    (Outside.PREEMPTED, "PreemptionByScheduler"),
    # The first also of a taint on a node that goes on: see Replica.tainted.
    (Outside.NODE_LOST, "DeletionByTaintManager DeletionByPodGC"),
)
"""Reason of a pod's condition DisruptionTarget."""

POD_REASONS = _by_reason(
    (Outside.EVICTED, "Evicted Preempting"),
    (Outside.NODE_LOST, "NodeLost"),
    (Outside.SHUTDOWN, "Terminated NodeShutdown Shutdown"),
    (Outside.DEADLINE, "DeadlineExceeded"),
    (Outside.REFUSED, "UnexpectedAdmissionError UnexpectedPredicateFailureType UnknownReason"),
    (Outside.REFUSED, "InvalidNodeInfo NodeAffinity NodeName NodePorts TaintToleration"),
    (Outside.REFUSED, "TopologyAffinityError SMTAlignmentError SysctlForbidden AppArmor"),
    (Outside.REFUSED, "PodOSSelectorNodeLabelDoesNotMatch PodOSNotSupported"),
    (Outside.REFUSED, "InitContainerRestartPolicyForbidden SupplementalGroupsPolicyNotSupported"),
)
"""Reason in a pod's status."""


def ended_by(reason: str) -> Outside | None:
    """Return who ended a pod with this reason in its status; None: its program."""
    # OutOfcpu, OutOfnvidia.com/gpu: one reason for each resource.
    return POD_REASONS.get(reason, Outside.REFUSED if reason.startswith("OutOf") else None)


class Event(enum.Enum):
    """What an event reports that the objects themselves do not."""

    POD_CREATED = enum.auto()
    POD_REFUSED = enum.auto()
    """The operator could not create a pod; the message is the API server's."""
    PULL_BEGAN = enum.auto()
    PULL_ENDED = enum.auto()
    NODE_FAILED = enum.auto()
    """A node cannot set up the pod: its network, its container runtime, its devices."""
    MOUNT_FAILED = enum.auto()
    NODE_COMES = enum.auto()
    """An autoscaler adds a node for the pod."""


EVENTS: Mapping[str, Event | Outside] = {
    # The training operator's, about jobs.
    **_by_reason(
        (Event.POD_CREATED, "SuccessfulCreatePod"),
        (Event.POD_REFUSED, "FailedCreatePod"),
    ),
    # Kubelets', about pods.
    **_by_reason(
        (Event.PULL_BEGAN, "Pulling"),
        (Event.PULL_ENDED, "Pulled"),
        (Event.MOUNT_FAILED, "FailedMount FailedAttachVolume FailedMapVolume"),
        (Event.MOUNT_FAILED, "FailedMountOnFilesystemMismatch"),
        (Event.NODE_FAILED, "FailedCreatePodSandBox FailedPodSandBoxStatus NetworkNotReady"),
        (Event.NODE_FAILED, "FailedCreatePodContainer FailedPrepareDynamicResources"),
    ),
    # These count where a pod is gone before its last status was seen. The last two are the
    # scheduler's and kube-controller-manager's.
    **_by_reason(
        (Outside.EVICTED, "Evicted Preempting"),
        (Outside.PREEMPTED, "Preempted"),
        (Outside.NODE_LOST, "TaintManagerEviction"),
    ),
    # Cluster Autoscaler's and Karpenter's.
    **_by_reason((Event.NODE_COMES, "TriggeredScaleUp Nominated")),
}
"""Reason of an event. What the control plane says of claims is quoted, whatever the reason."""

FREQUENT_SILENT_EVENTS = (
    *("Scheduled", "Created", "Started", "Killing"),
    *("SuccessfulCreateService", "SuccessfulDeleteService", "SuccessfulDeletePod"),
)
"""Reasons of events that say nothing which the objects do not, and that every pod has."""
