"""The states and reasons that Kubernetes 1.33 and the training operator 1.9 write, by their source.

Paths are those of ``k8s.io/kubernetes`` unless another module is named.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8sbench.diagnose.job.reasons import FREQUENT_SILENT_EVENTS

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

SILENT_EVENTS = frozenset(
    {
        # What every pod has, and the watch leaves out.
        *FREQUENT_SILENT_EVENTS,
        # Exit codes stand in the pods' status as well.
        "ExitedWithCode",
        # The scheduler's sentence is in the pod's condition PodScheduled as well.
        "FailedScheduling",
        # Kubelets: what they try again is in the container's state (waiting, terminated).
        *("Failed", "BackOff", "InspectFailed", "ErrImageNeverPull", "FailedSync"),
        *("FailedPostStartHook", "FailedPreStopHook", "LifecycleHTTPFallback", "SandboxChanged"),
        *("FailedToRetrieveImagePullSecret", "FailedValidation", "DeadlineExceeded"),
        # Kubelets: the pod goes on, or ends all the same.
        *("ExceededGracePeriod", "FailedKillPod", "ResizeDeferred", "ResizeInfeasible"),
        *("Unhealthy", "ProbeWarning", "DNSConfigForming", "MissingClusterDNS"),
        *("VolumeResizeFailed", "VolumeResizeSuccessful", "FileSystemResizeFailed"),
        *("FileSystemResizeSuccessful", "VolumePermissionChangeInProgress"),
        *("AlreadyMountedVolume", "SuccessfulAttachVolume", "SuccessfulMountVolume"),
        *("VolumeConditionAbnormal", "HostIPsIPFamilyMismatch"),
        # About nodes, whose objects are read where they matter; k8sbench sees none of these.
        *("NodeReady", "NodeNotReady", "NodeSchedulable", "NodeNotSchedulable", "Starting"),
        *("KubeletSetupFailed", "Rebooted", "Shutdown", "ContainerGCFailed", "ImageGCFailed"),
        *("FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced", "CgroupV1"),
        *("PossibleMemoryBackedVolumesOnDisk", "InvalidDiskCapacity", "FreeDiskSpaceFailed"),
        *("EvictionThresholdMet", "SystemOOM", "CheckLimitsForResolvConf", "RegisteredNode"),
        *("RemovingNode", "DeletingAllPods", "NodeControllerEviction"),
        # About claims and volumes: quoted as they are where a claim is not bound.
        *("FailedBinding", "VolumeMismatch", "VolumeFailedRecycle", "VolumeRecycled"),
        *("RecyclerPod", "VolumeDelete", "VolumeFailedDelete", "ExternalProvisioning"),
        *("ProvisioningFailed", "ProvisioningCleanupFailed", "ProvisioningSucceeded"),
        *("WaitForFirstConsumer", "WaitForPodScheduled", "ExternalExpanding", "ClaimLost"),
        *("ClaimMisbound", "VolumeUnknownReclaimPolicy"),
        # The training operator: the job's conditions say the same. The kind stands before these.
        *("JobCreated", "JobSucceeded", "JobRunning", "JobFailed", "JobRestarting"),
        *("JobFailedValidation", "JobSuspended", "JobResumed", "JobTerminated"),
        *("SetPodTemplateRestartPolicy", "SetPodTemplateSchedulerName"),
        # The training operator: it tries again, and the pods and services show what became of it.
        *("FailedDeletePod", "FailedCreateService", "FailedDeleteService"),
        *("FailedDeletePodGroup", "SuccessfulDeletePodGroup"),
        # Cluster Autoscaler: that it adds no node is what the scheduler's sentence means.
        *("NotTriggerScaleUp", "ScaleDown"),
    }
)
"""Reasons of events that change no verdict, and why."""
