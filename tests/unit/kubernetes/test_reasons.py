"""Every known Kubernetes state and reason is classified or ignored.

As in the sources of Kubernetes 1.33 and the training operator 1.9. Paths are those of
``k8s.io/kubernetes`` unless another module is named.
"""

from k8sbench.diagnose.job import causes

# k8s.io/api core/v1/types.go
POD_PHASES = "Pending Running Succeeded Failed Unknown"
WAITING = {
    "pkg/kubelet/kubelet_pods.go": "PodInitializing ContainerCreating",
    "pkg/kubelet/images/types.go": """ImagePullBackOff ImageInspectError ErrImagePull
        ErrImageNeverPull InvalidImageName""",
    "k8s.io/cri-api pkg/errors/errors.go": """RegistryUnavailable SignatureValidationFailed
        RROUnsupported ImageVolumeMountFailed""",
    "pkg/kubelet/kuberuntime/kuberuntime_container.go": """CreateContainerConfigError
        PreCreateHookError CreateContainerError PreStartHookError PostStartHookError""",
    "pkg/kubelet/container/sync_result.go": """CrashLoopBackOff RunContainerError
        KillContainerError CreatePodSandboxError ConfigPodSandboxError KillPodSandboxError
        ResizePodInPlaceError""",
}
DISRUPTIONS = {
    "k8s.io/api core/v1/types.go": "TerminationByKubelet PreemptionByScheduler",
    "pkg/controller/tainteviction/taint_eviction.go": "DeletionByTaintManager",
    "pkg/controller/podgc/gc_controller.go": "DeletionByPodGC",
    "pkg/registry/core/pod/storage/eviction.go": "EvictionByEvictionAPI",
}
POD_REASONS = {
    "pkg/kubelet/eviction/helpers.go": "Evicted",
    "pkg/kubelet/preemption/preemption.go": "Preempting",
    "pkg/kubelet/nodeshutdown/nodeshutdown_manager.go": "NodeShutdown Terminated",
    "pkg/kubelet/active_deadline.go": "DeadlineExceeded",
    "pkg/util/node/node.go": "NodeLost",
    "pkg/kubelet/lifecycle": """PodOSSelectorNodeLabelDoesNotMatch PodOSNotSupported
        InvalidNodeInfo InitContainerRestartPolicyForbidden SupplementalGroupsPolicyNotSupported
        UnexpectedAdmissionError UnknownReason UnexpectedPredicateFailureType OutOfcpu
        OutOfmemory OutOfephemeral-storage OutOfpods AppArmor""",
    "pkg/kubelet/sysctl/allowlist.go": "SysctlForbidden",
    "pkg/kubelet/cm": "TopologyAffinityError SMTAlignmentError",
    "pkg/scheduler/framework/plugins/names/names.go": """NodeName NodePorts NodeAffinity
        TaintToleration""",
}
EVENTS = """Pulling Pulled FailedMount FailedAttachVolume FailedMapVolume
    FailedMountOnFilesystemMismatch FailedCreatePodSandBox FailedPodSandBoxStatus NetworkNotReady
    FailedCreatePodContainer FailedPrepareDynamicResources SuccessfulCreatePod FailedCreatePod
    TriggeredScaleUp Nominated SuccessfulCreate FailedCreate JobCreationFailed
    TrainJobResourcesCreationFailed"""
"""Reasons that objects' states do not show.

Of pkg/kubelet/events/event.go, the operators (with JobSet and batch/v1 Jobs), Cluster Autoscaler
and Karpenter.
"""


def every(lists: dict[str, str]) -> set[str]:
    return set(" ".join(lists.values()).split())


def test_every_reason_is_mapped() -> None:
    assert set(causes.POD_PHASES) == set(POD_PHASES.split())
    assert every(WAITING) <= set(causes.WAITING)
    assert every(DISRUPTIONS) <= set(causes.ENDED_BY)
    assert [one for one in every(POD_REASONS) if causes.ended_by(one) is None] == []


def test_an_event_that_has_a_meaning_is_one_that_is_written() -> None:
    assert set(causes.EVENTS) == set(EVENTS.split())


def test_a_reason_that_nobody_knows_is_an_error_of_the_start_if_it_says_so() -> None:
    assert causes.waiting("SomethingNewError") is causes.Waiting.START
    assert causes.waiting("SomethingNew") is causes.Waiting.ROUTINE
