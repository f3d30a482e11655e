"""What the states and reasons of Kubernetes mean here: one table for each kind of them.

The tables hold what Kubernetes 1.33, the training operator 1.9 and the usual autoscalers write. A
test holds them complete for these versions, and lists the reasons of events that change no verdict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from k8sbench.model.phase import Phase

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
    """It is being prepared; what goes wrong meanwhile is told by events."""
    IMAGE = enum.auto()
    CONFIG = enum.auto()
    """A ConfigMap, a Secret, or a setting of the container."""
    START = enum.auto()
    CRASHED = enum.auto()


WAITING: Mapping[str, Waiting] = {
    "ContainerCreating": Waiting.ROUTINE,
    "PodInitializing": Waiting.ROUTINE,
    "ErrImagePull": Waiting.IMAGE,
    "ImagePullBackOff": Waiting.IMAGE,
    "RegistryUnavailable": Waiting.IMAGE,
    "ImageInspectError": Waiting.IMAGE,
    "ErrImageNeverPull": Waiting.IMAGE,
    "InvalidImageName": Waiting.IMAGE,
    # The node's policy wants a signature that the image lacks: it is not there for this pod.
    "SignatureValidationFailed": Waiting.IMAGE,
    "CreateContainerConfigError": Waiting.CONFIG,
    "CreateContainerError": Waiting.START,
    "RunContainerError": Waiting.START,
    "PreCreateHookError": Waiting.START,
    "PreStartHookError": Waiting.START,
    "PostStartHookError": Waiting.START,
    # Of volumes that k8sbench does not use, and a webhook may add.
    "ImageVolumeMountFailed": Waiting.START,
    "RROUnsupported": Waiting.START,
    "CrashLoopBackOff": Waiting.CRASHED,
    # The kubelet tries again at once, and writes an event each time.
    **dict.fromkeys(("CreatePodSandboxError", "ConfigPodSandboxError"), Waiting.ROUTINE),
    **dict.fromkeys(("KillPodSandboxError", "KillContainerError"), Waiting.ROUTINE),
    "ResizePodInPlaceError": Waiting.ROUTINE,
}


def waiting(reason: str) -> Waiting:
    """Return what a waiting container waits for; an unknown error is one of starting it."""
    return WAITING.get(reason, Waiting.START if reason.endswith("Error") else Waiting.ROUTINE)


class Terminated(enum.Enum):
    """How a container ended, as far as its exit code does not say."""

    EXITED = enum.auto()
    OUT_OF_MEMORY = enum.auto()
    NEVER_STARTED = enum.auto()


TERMINATED: Mapping[str, Terminated] = {
    "Completed": Terminated.EXITED,
    "Error": Terminated.EXITED,
    "OOMKilled": Terminated.OUT_OF_MEMORY,
    # containerd's; CRI-O and Docker wrote the next three.
    "StartError": Terminated.NEVER_STARTED,
    "ContainerCannotRun": Terminated.NEVER_STARTED,
    "CreateContainerError": Terminated.NEVER_STARTED,
    "RunContainerError": Terminated.NEVER_STARTED,
    # The kubelet found no trace of it and writes 137: its message is quoted with that.
    "ContainerStatusUnknown": Terminated.EXITED,
    "Unknown": Terminated.EXITED,
}


class Outside(enum.Enum):
    """Who ended a pod that its program did not end."""

    EVICTED = enum.auto()
    """Its node's kubelet, for want of a resource or for a more important pod."""
    DRAINED = enum.auto()
    """The eviction API, on behalf of somebody who drains the node."""
    PREEMPTED = enum.auto()
    NODE_LOST = enum.auto()
    SHUTDOWN = enum.auto()
    """Its node was shut down in order."""
    REFUSED = enum.auto()
    """Its node did not admit it, because it knows more than the scheduler."""
    DEADLINE = enum.auto()
    """The pod's own activeDeadlineSeconds."""


DISRUPTIONS: Mapping[str, Outside] = {
    "TerminationByKubelet": Outside.EVICTED,
    "EvictionByEvictionAPI": Outside.DRAINED,
    "PreemptionByScheduler": Outside.PREEMPTED,
    # Also of a taint that somebody puts on a node that goes on: see Replica.tainted.
    "DeletionByTaintManager": Outside.NODE_LOST,
    "DeletionByPodGC": Outside.NODE_LOST,
}
"""Reason of a pod's condition DisruptionTarget."""

POD_REASONS: Mapping[str, Outside] = {
    "Evicted": Outside.EVICTED,
    "Preempting": Outside.EVICTED,
    "NodeLost": Outside.NODE_LOST,
    "Terminated": Outside.SHUTDOWN,
    "NodeShutdown": Outside.SHUTDOWN,
    "Shutdown": Outside.SHUTDOWN,
    "DeadlineExceeded": Outside.DEADLINE,
    **dict.fromkeys(
        (
            *("UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason"),
            *("InvalidNodeInfo", "NodeAffinity", "NodeName", "NodePorts", "TaintToleration"),
            *("TopologyAffinityError", "SMTAlignmentError", "SysctlForbidden", "AppArmor"),
            *("PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported"),
            *("InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported"),
        ),
        Outside.REFUSED,
    ),
}
"""Reason in a pod's status."""


def ended_by(reason: str) -> Outside | None:
    """Return who ended a pod with this reason in its status; None: its program."""
    # OutOfcpu, OutOfnvidia.com/gpu: one reason for each resource.
    return POD_REASONS.get(reason, Outside.REFUSED if reason.startswith("OutOf") else None)


class Event(enum.Enum):
    """What an event tells that the objects themselves do not."""

    POD_CREATED = enum.auto()
    POD_REFUSED = enum.auto()
    """The operator could not create a pod; the message is the API server's."""
    EXITED = enum.auto()
    """The operator saw a replica end; the message holds its exit code."""
    PULL_BEGAN = enum.auto()
    PULL_ENDED = enum.auto()
    NODE_FAILED = enum.auto()
    """A node cannot set up the pod: its network, its container runtime, its devices."""
    MOUNT_FAILED = enum.auto()
    NODE_COMES = enum.auto()
    """An autoscaler adds a node for the pod."""


EVENTS: Mapping[str, Event | Outside] = {
    # The training operator's, about jobs.
    "SuccessfulCreatePod": Event.POD_CREATED,
    "FailedCreatePod": Event.POD_REFUSED,
    "ExitedWithCode": Event.EXITED,
    # Kubelets', about pods.
    "Pulling": Event.PULL_BEGAN,
    "Pulled": Event.PULL_ENDED,
    "FailedMount": Event.MOUNT_FAILED,
    "FailedAttachVolume": Event.MOUNT_FAILED,
    "FailedMapVolume": Event.MOUNT_FAILED,
    "FailedMountOnFilesystemMismatch": Event.MOUNT_FAILED,
    "FailedCreatePodSandBox": Event.NODE_FAILED,
    "FailedPodSandBoxStatus": Event.NODE_FAILED,
    "NetworkNotReady": Event.NODE_FAILED,
    "FailedCreatePodContainer": Event.NODE_FAILED,
    "FailedPrepareDynamicResources": Event.NODE_FAILED,
    # The next four count where a pod is gone before its last status was seen.
    "Evicted": Outside.EVICTED,
    "Preempting": Outside.EVICTED,
    "Preempted": Outside.PREEMPTED,  # the scheduler's
    "TaintManagerEviction": Outside.NODE_LOST,  # kube-controller-manager's
    # Cluster Autoscaler's and Karpenter's.
    "TriggeredScaleUp": Event.NODE_COMES,
    "Nominated": Event.NODE_COMES,
}
"""Reason of an event. What the control plane says of claims is quoted, whatever the reason."""

FREQUENT_SILENT_EVENTS = (
    *("Scheduled", "Created", "Started", "Killing"),
    *("SuccessfulCreateService", "SuccessfulDeleteService", "SuccessfulDeletePod"),
)
"""Reasons of events that say nothing which the objects do not, and that every pod has."""
