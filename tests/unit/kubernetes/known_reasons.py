"""The states and reasons that Kubernetes 1.33 and the training operator 1.9 write, by their source.

Paths are those of ``k8s.io/kubernetes`` unless another module is named.
"""

from __future__ import annotations

from collections.abc import Mapping

POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")  # k8s.io/api core/v1/types.go

WAITING: Mapping[str, tuple[str, ...]] = {
    "pkg/kubelet/kubelet_pods.go": ("PodInitializing", "ContainerCreating"),
    "pkg/kubelet/images/types.go": (
        *("ImagePullBackOff", "ImageInspectError", "ErrImagePull", "ErrImageNeverPull"),
        "InvalidImageName",
    ),
    "k8s.io/cri-api pkg/errors/errors.go": (
        *("RegistryUnavailable", "SignatureValidationFailed", "RROUnsupported"),
        "ImageVolumeMountFailed",
    ),
    "pkg/kubelet/kuberuntime/kuberuntime_container.go": (
        *("CreateContainerConfigError", "PreCreateHookError", "CreateContainerError"),
        *("PreStartHookError", "PostStartHookError"),
    ),
    "pkg/kubelet/container/sync_result.go": (
        *("CrashLoopBackOff", "RunContainerError", "KillContainerError", "CreatePodSandboxError"),
        *("ConfigPodSandboxError", "KillPodSandboxError", "ResizePodInPlaceError"),
    ),
}

DISRUPTIONS: Mapping[str, tuple[str, ...]] = {
    "k8s.io/api core/v1/types.go": ("TerminationByKubelet", "PreemptionByScheduler"),
    "pkg/controller/tainteviction/taint_eviction.go": ("DeletionByTaintManager",),
    "pkg/controller/podgc/gc_controller.go": ("DeletionByPodGC",),
    "pkg/registry/core/pod/storage/eviction.go": ("EvictionByEvictionAPI",),
}

POD_REASONS: Mapping[str, tuple[str, ...]] = {
    "pkg/kubelet/eviction/helpers.go": ("Evicted",),
    "pkg/kubelet/preemption/preemption.go": ("Preempting",),
    "pkg/kubelet/nodeshutdown/nodeshutdown_manager.go": ("NodeShutdown", "Terminated"),
    "pkg/kubelet/active_deadline.go": ("DeadlineExceeded",),
    "pkg/util/node/node.go": ("NodeLost",),
    "pkg/kubelet/lifecycle": (
        *("PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo"),
        *("InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported"),
        *("UnexpectedAdmissionError", "UnknownReason", "UnexpectedPredicateFailureType"),
        *("OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "AppArmor"),
    ),
    "pkg/kubelet/sysctl/allowlist.go": ("SysctlForbidden",),
    "pkg/kubelet/cm": ("TopologyAffinityError", "SMTAlignmentError"),
    "pkg/scheduler/framework/plugins/names/names.go": (
        *("NodeName", "NodePorts", "NodeAffinity", "TaintToleration"),
    ),
}

EVENTS = {
    *("Pulling", "Pulled", "FailedMount", "FailedAttachVolume", "FailedMapVolume"),
    *("FailedMountOnFilesystemMismatch", "FailedCreatePodSandBox", "FailedPodSandBoxStatus"),
    *("NetworkNotReady", "FailedCreatePodContainer", "FailedPrepareDynamicResources"),
    *("SuccessfulCreatePod", "FailedCreatePod", "TriggeredScaleUp", "Nominated"),
    *("SuccessfulCreate", "FailedCreate", "JobCreationFailed", "TrainJobResourcesCreationFailed"),
}
"""Of pkg/kubelet/events/event.go, the operators (with JobSet and batch/v1 Jobs), Cluster Autoscaler
and Karpenter, those that say what the objects do not."""
