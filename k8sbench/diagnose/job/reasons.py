"""Meanings of Kubernetes' states and reasons, one table per kind.

The tables hold the words of Kubernetes 1.33, the training operator 1.9 and the usual autoscalers. A
test holds them complete for these versions.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import TypeVar

from k8sbench.model.kinds import KINDS
from k8sbench.model.phase import Phase

T = TypeVar("T")


def _by_reason(*rows: tuple[T, str]) -> dict[str, T]:
    """Turn rows of a meaning and its reasons into a table by reason."""
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
    """Reason why a container has not started."""

    ROUTINE = enum.auto()
    """Normal preparation; events report its errors."""
    IMAGE = enum.auto()
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
    (Waiting.START, "CreateContainerConfigError CreateContainerError RunContainerError"),
    (Waiting.START, "PreCreateHookError PreStartHookError PostStartHookError"),
    # Of volumes that k8sbench does not use, and a webhook may add.
    (Waiting.START, "ImageVolumeMountFailed RROUnsupported"),
    (Waiting.CRASHED, "CrashLoopBackOff"),
)


def waiting(reason: str) -> Waiting:
    """Return a container's reason to wait; unknown reasons are start errors."""
    return WAITING.get(reason, Waiting.START if reason.endswith("Error") else Waiting.ROUTINE)


OUT_OF_MEMORY = "OOMKilled"
# containerd's; CRI-O and Docker wrote the next three.
NEVER_STARTED = {"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"}
"""Reasons of containers that ended without a telling exit code."""

DRIVER = re.compile("(?:nvidia-container-cli|unresolvable CDI devices).*", re.DOTALL)
"""Message of NVIDIA's container toolkit, at the end of a container runtime's."""

ENDED_BY = _by_reason(
    # Its node's kubelet, for want of a resource or for a more important pod; or the eviction API,
    # called by whoever drains the node.
    ("evicted", "TerminationByKubelet EvictionByEvictionAPI Evicted Preempting"),
    ("preempted", "PreemptionByScheduler Preempted"),
    # The first also of a taint on a node that goes on: see Replica.tainted.
    ("node-lost", "DeletionByTaintManager DeletionByPodGC NodeLost TaintManagerEviction"),
    # Its node was shut down in order.
    ("node-lost", "Terminated NodeShutdown Shutdown"),
    # The pod's own activeDeadlineSeconds.
    ("job-limit", "DeadlineExceeded"),
    # Its node did not admit it, because it knows more than the scheduler.
    ("node-cannot-start", "UnexpectedAdmissionError UnexpectedPredicateFailureType UnknownReason"),
    ("node-cannot-start", "InvalidNodeInfo NodeAffinity NodeName NodePorts TaintToleration"),
    ("node-cannot-start", "TopologyAffinityError SMTAlignmentError SysctlForbidden AppArmor"),
    ("node-cannot-start", "PodOSSelectorNodeLabelDoesNotMatch PodOSNotSupported"),
    ("node-cannot-start", "InitContainerRestartPolicyForbidden"),
    ("node-cannot-start", "SupplementalGroupsPolicyNotSupported"),
)
"""Reason of a pod's external end → cause.

The reason stands in its condition DisruptionTarget, its status, or an event about it.
"""


def ended_by(reason: str) -> str | None:
    """Return the external cause of a pod's end; None if the reason has none."""
    # OutOfcpu, OutOfnvidia.com/gpu: one reason for each resource.
    return ENDED_BY.get(reason, "node-cannot-start" if reason.startswith("OutOf") else None)


class Event(enum.Enum):
    """Meaning of an event that the objects themselves do not show."""

    POD_CREATED = enum.auto()
    POD_REFUSED = enum.auto()
    """The operator could not create a pod; the message is the API server's."""
    PULL_BEGAN = enum.auto()
    PULL_ENDED = enum.auto()
    NODE_FAILED = enum.auto()
    """A node cannot set up the pod: network, container runtime or devices."""
    MOUNT_FAILED = enum.auto()
    NODE_COMES = enum.auto()
    """An autoscaler adds a node for the pod."""


EVENTS = _by_reason(
    # The training operator's, about jobs.
    (Event.POD_CREATED, "SuccessfulCreatePod"),
    (Event.POD_REFUSED, "FailedCreatePod"),
    # The Job controller's, and those of operators whose jobs make others.
    (Event.POD_CREATED, "SuccessfulCreate"),
    *((Event.POD_REFUSED, " ".join(kind.refusals)) for kind in KINDS.values()),
    # Kubelets', about pods.
    (Event.PULL_BEGAN, "Pulling"),
    (Event.PULL_ENDED, "Pulled"),
    (Event.MOUNT_FAILED, "FailedMount FailedAttachVolume FailedMapVolume"),
    (Event.MOUNT_FAILED, "FailedMountOnFilesystemMismatch"),
    (Event.NODE_FAILED, "FailedCreatePodSandBox FailedPodSandBoxStatus NetworkNotReady"),
    (Event.NODE_FAILED, "FailedCreatePodContainer FailedPrepareDynamicResources"),
    # Cluster Autoscaler's and Karpenter's.
    (Event.NODE_COMES, "TriggeredScaleUp Nominated"),
)
"""Reason of an event → meaning.

The control plane's messages about claims are quoted, whatever the reason.
"""

FREQUENT_SILENT_EVENTS = (
    *("Scheduled", "Created", "Started", "Killing", "ExitedWithCode"),
    *("SuccessfulCreateService", "SuccessfulDeleteService", "SuccessfulDeletePod"),
)
"""Frequent reasons of events that add nothing to the objects."""
