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

TERMINATED: Mapping[str, tuple[str, ...]] = {
    "github.com/containerd/containerd internal/cri/server": (
        *("Completed", "Error", "OOMKilled", "StartError", "Unknown"),
    ),
    "pkg/kubelet/kuberuntime/kuberuntime_container.go": ("ContainerCannotRun",),
    "pkg/kubelet/container/runtime.go": ("ContainerStatusUnknown",),
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

EVENTS: Mapping[str, tuple[str, ...]] = {
    "pkg/kubelet/events/event.go": (
        *("Created", "Started", "Failed", "Killing", "Preempting", "BackOff"),
        *("ExceededGracePeriod", "FailedKillPod", "FailedCreatePodContainer", "NetworkNotReady"),
        *("ResizeDeferred", "ResizeInfeasible", "Pulling", "Pulled", "InspectFailed"),
        *("ErrImageNeverPull", "NodeReady", "NodeNotReady", "NodeSchedulable"),
        *("NodeNotSchedulable", "Starting", "KubeletSetupFailed", "FailedAttachVolume"),
        *("FailedMount", "VolumeResizeFailed", "VolumeResizeSuccessful", "FileSystemResizeFailed"),
        *("VolumePermissionChangeInProgress", "FileSystemResizeSuccessful", "FailedMapVolume"),
        *("AlreadyMountedVolume", "SuccessfulAttachVolume", "SuccessfulMountVolume", "Rebooted"),
        *("Shutdown", "ContainerGCFailed", "ImageGCFailed", "FailedNodeAllocatableEnforcement"),
        *("NodeAllocatableEnforced", "SandboxChanged", "FailedCreatePodSandBox"),
        *("FailedPodSandBoxStatus", "FailedMountOnFilesystemMismatch"),
        *("FailedPrepareDynamicResources", "PossibleMemoryBackedVolumesOnDisk", "CgroupV1"),
        *("InvalidDiskCapacity", "FreeDiskSpaceFailed", "Unhealthy", "ProbeWarning", "FailedSync"),
        *("FailedValidation", "FailedPostStartHook", "FailedPreStopHook"),
    ),
    "pkg/kubelet": (
        *("Evicted", "EvictionThresholdMet", "DeadlineExceeded", "SystemOOM"),
        *("DNSConfigForming", "MissingClusterDNS", "CheckLimitsForResolvConf"),
        *("FailedToRetrieveImagePullSecret", "HostIPsIPFamilyMismatch", "LifecycleHTTPFallback"),
        "VolumeConditionAbnormal",
    ),
    "pkg/scheduler": ("FailedScheduling", "Scheduled", "Preempted"),
    "pkg/controller/tainteviction/taint_eviction.go": ("TaintManagerEviction",),
    "pkg/controller/nodelifecycle and pkg/controller/util/node": (
        *("RegisteredNode", "RemovingNode", "DeletingAllPods", "NodeControllerEviction"),
        "NodeNotReady",
    ),
    "pkg/controller/volume/events/event.go": (
        *("FailedBinding", "VolumeMismatch", "VolumeFailedRecycle", "VolumeRecycled"),
        *("RecyclerPod", "VolumeDelete", "VolumeFailedDelete", "ExternalProvisioning"),
        *("ProvisioningFailed", "ProvisioningCleanupFailed", "ProvisioningSucceeded"),
        *("WaitForFirstConsumer", "WaitForPodScheduled", "ExternalExpanding"),
    ),
    "pkg/controller/volume/persistentvolume/pv_controller.go": (
        *("ClaimLost", "ClaimMisbound", "VolumeUnknownReclaimPolicy"),
    ),
    # A kind and one of pkg/util/status.go: PyTorchJobCreated.
    "github.com/kubeflow/training-operator pkg/util/status.go": (
        *("JobCreated", "JobSucceeded", "JobRunning", "JobFailed", "JobRestarting"),
        *("JobFailedValidation", "JobSuspended", "JobResumed"),
    ),
    "github.com/kubeflow/training-operator pkg/controller.v1": (
        *("SetPodTemplateRestartPolicy", "ExitedWithCode", "SetPodTemplateSchedulerName"),
        *("FailedCreateService", "SuccessfulCreateService", "FailedDeleteService"),
        *("SuccessfulDeleteService", "FailedCreatePod", "SuccessfulCreatePod"),
        *("FailedDeletePod", "SuccessfulDeletePod", "JobTerminated", "FailedDeletePodGroup"),
        "SuccessfulDeletePodGroup",
    ),
    "k8s.io/autoscaler cluster-autoscaler": ("TriggeredScaleUp", "NotTriggerScaleUp", "ScaleDown"),
    "sigs.k8s.io/karpenter pkg/events": ("Nominated",),
}
