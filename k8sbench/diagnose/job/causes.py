"""Tables of a job's diagnosis: causes, and Kubernetes' states and reasons.

A cause has a sentence, an action and whether it can pass; some texts in the sentence have an action
of their own (:data:`.ADVICE`). The module of its stage checks its condition and fills in the names.
``k8sbench explain ID`` prints a row.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from k8sbench.diagnose.job.advice import ADVICE
from k8sbench.model.errors import Finding
from k8sbench.model.kinds import KINDS
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import GPU_OUT_OF_MEMORY


class Cause(NamedTuple):
    """One cause."""

    sentence: str
    """The cause; ``{name}`` stands for a name or number of the job."""
    action: str
    """The action; ``{name}`` as in the sentence."""
    unrecoverable: str = "no"
    """``yes``: it never passes by itself; other text: the condition for that."""
    again: str | None = None
    """Reason why another attempt may succeed; None: it would not."""


CAUSES: Mapping[str, Cause] = {
    # The job has no pods.
    "suspended": Cause(
        "The job is suspended, and in no queue: someone holds it.",
        "Resume it with 'kubectl -n {namespace} patch {kind} {job} --type=merge"
        " --patch={resume}', or cancel it.",
    ),
    "queued": Cause(
        "The job waits in queue {queue}{place}: {why}.",
        "Wait for its turn; 'kubectl -n {namespace} describe workloads' shows the queue's reason.",
    ),
    "queue-unusable": Cause(
        "Queue {queue} does not take the job: {why}.",
        "Ask for less, or for other nodes, or name another --queue ('kubectl -n {namespace} get"
        " localqueues').",
    ),
    "queue-silent": Cause(
        "The job waits in queue {queue}: Kueue has not answered yet.",
        "Wait: Kueue answers within seconds where it runs.",
    ),
    "queue-evicted": Cause(
        "Kueue has stopped the job, which waits again in queue {queue}{place}: {why}.",
        "Wait: Kueue starts the job again, and the training from the beginning.",
    ),
    "queue-admitted": Cause(
        "Kueue has admitted the job to queue {queue}, and resumes it.",
        "Wait: Kueue resumes an admitted job within seconds.",
    ),
    "not-resumed": Cause(
        "Kueue admitted the job to queue {queue} at {at}, and it is still suspended.",
        "Look at Kueue's log, and at 'kubectl -n {namespace} describe {kind} {job}'. If the job's"
        " runtime was deleted, cancel the run and submit it again.",
    ),
    "operator-down": Cause(
        "In {seconds} s {operator} has done nothing for the job: it does not run, or is behind.",
        "Ask the cluster's administrator to start it; 'k8sbench doctor' checks the operator.",
    ),
    "operator-slow": Cause(
        "In {seconds} s {operator} has created {pods}.",
        "Wait: by default the operator creates the pods of about one job a second.",
    ),
    "quota-exceeded": Cause(
        "{head}: quota {quota} {why}.",
        "Wait for other jobs of the namespace to end, ask for fewer GPUs, or ask for a larger"
        " quota: 'kubectl -n {namespace} describe quota'.",
        unrecoverable="when a replica alone asks for more than the whole quota",
    ),
    "pod-security": Cause(
        "{head}: the namespace {namespace} enforces Pod Security {level}: {why}.",
        "Use a --node-pool without host network, RDMA or IPC_LOCK, or another namespace.",
        unrecoverable="yes",
    ),
    "operator-init-not-restricted": Cause(
        "{head}: the namespace {namespace} enforces Pod Security {level}, and the operator's init"
        " container has no security context: {why}.",
        "Have the template that 'k8sbench doctor --init-template' prints given to the operator"
        " (docs/first-hour.md#the-init-container), or use a namespace that enforces no Pod Security"
        " Standard.",
        unrecoverable="yes",
    ),
    "admission-denied": Cause(
        "{head}: the API server answered {why}.",
        "Correct what the sentence names in the pool or the manifest, or ask the cluster's"
        " administrator about that rule.",
        unrecoverable="when the API server finds the pod invalid",
    ),
    "webhook-down": Cause(
        "{head}: the webhook of {server} does not answer: {why}.",
        "Ask the cluster's administrator to start what serves it; 'k8sbench doctor' checks the"
        " operators.",
    ),
    "name-in-use": Cause(
        "{head}: pods of an earlier job of this name still end.",
        "Wait: they are gone within half a minute; a new run id avoids this.",
    ),
    # Pods have no node.
    "no-node-fits": Cause(
        "No node fits {replicas}: {why}.",
        "Wait for other jobs to end, or ask for less with --replicas or --gpus.",
        unrecoverable="when all nodes are excluded for good, as by a volume of another zone, unless"
        " an autoscaler says that it adds a node",
    ),
    "request-too-large": Cause(
        "No node for {replicas}: {asked} is more than any {node} has.",
        "Ask for less with --gpus, or choose a pool of larger nodes with --node-pool.",
        unrecoverable="yes",
    ),
    "no-matching-node": Cause(
        "No node for {replicas}: none has {labels}.",
        "Choose another --node-pool, or correct its selector: 'kubectl get nodes --show-labels'.",
        unrecoverable="unless an autoscaler says that it adds a node",
    ),
    "too-few-nodes": Cause(
        "No node is left for {replicas}: {why}.",
        "Add nodes, or submit it with fewer --replicas, or with --pack: replicas then share nodes.",
    ),
    "taint-not-tolerated": Cause(
        "No node takes {replicas}: {why}.",
        "Add the taint to the pool's tolerations, or choose another pool with --node-pool.",
    ),
    "nodes-not-ready": Cause(
        "No node for {replicas} is ready: {why}.",
        "Wait, or ask the cluster's administrator: 'kubectl get nodes'.",
    ),
    "half-placed": Cause(
        "{held}, held by {placed}, cannot be used yet. {why}",
        "Wait for other jobs to end, or cancel it, as it keeps GPUs from others. Submit jobs"
        " that would block each other to a --queue, or one after the other (--parallel 1).",
    ),
    "volume-not-bound": Cause(
        "No node for {replicas}: after {seconds} s the claim {claim} has no volume: {why}.",
        "'kubectl -n {namespace} describe pvc {claim}' says why; --data pvc:NAME names another.",
        unrecoverable="without such a claim, after half a minute",
    ),
    "pod-not-started": Cause(
        "{what}: {why}.",
        "'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    ),
    # Pods have a node and do not start.
    "image-not-found": Cause(
        "The image {image} of {replica} is not there: {why}.",
        "Check the name (in lower case) and the tag of --image; 'k8sbench benchmarks' lists the"
        " usual ones.",
        unrecoverable="when it cannot name an image",
    ),
    "image-pull-denied": Cause(
        "The registry refuses {replica} the image {image}: {why}.",
        "Check the name, and give the pool an imagePullSecret of namespace {namespace}: 'kubectl"
        " -n {namespace} create secret docker-registry NAME ...'.",
    ),
    "pull-limited": Cause(
        "The registry limits the pulls of {replica}'s image {image}: {why}.",
        "Wait, give the pool an imagePullSecret of an account (image_pull_secrets), or name a"
        " mirror with --image or --image-registry.",
    ),
    "registry-unreachable": Cause(
        "The registry of {replica}'s image {image} does not serve it: {why}.",
        "Name a registry that the nodes can use with --image or --image-registry.",
    ),
    "init-image-not-pullable": Cause(
        "{replica} waits for {image}, the image of the operator's init container: {why}.",
        "Have the operator started with --pytorch-init-container-image=IMAGE, an image with sh"
        " and nslookup that the nodes can pull.",
    ),
    "init-failed": Cause(
        "The init container of {replica} failed{code}: it did not find the master.",
        "Look at the master first: workers wait 200 s for it, its image's pull included, unless the"
        " operator has a larger --pytorch-init-container-max-tries. Then look at the cluster's DNS:"
        " 'kubectl -n {namespace} logs {pod} -c init-pytorch'.",
        again="the master's name was not known in time",
    ),
    "config-missing": Cause(
        "{replica} cannot start without a ConfigMap or Secret: {why}.",
        "Create it in namespace {namespace}, or submit again if it was deleted.",
        unrecoverable="after half a minute",
    ),
    "node-cannot-start": Cause(
        "Node {node} cannot start the pod of {replica}: {why}.",
        "Ask the cluster's administrator to look at node {node}.",
        again="the next pod may have another node",
    ),
    "gpu-driver": Cause(
        "Node {node} cannot give {replica} its GPUs: {why}.",
        "Ask the cluster's administrator to check the driver of node {node} (nvidia-smi). If it is"
        " too old for the image's CUDA, choose an image of an older one with --image.",
        again="the next pod may have another node",
    ),
    # No other attempt: the image lacks the command.
    "start-error": Cause(
        "{replica} cannot be started: {why}.",
        "Check that the image holds the command, and is of the right framework.",
    ),
    # Replicas that ran.
    "replica-failed": Cause(
        "{end}",
        "Read its log: 'k8sbench logs {job} --replica {replica}'.",
        again="a signal, NCCL and exit code 1 are often a node's or the network's",
    ),
    # No other attempt: the program would refuse the same words again.
    "usage-error": Cause(
        "{end}",
        "Correct what its log names ('k8sbench logs {job} --replica {replica}'), and submit again.",
    ),
    "oom": Cause(
        "{end}",
        "Give the pool more memory_per_gpu, or use a smaller --batch-size or fewer loader workers.",
        again="a loader's memory grows with time, and that of others on the node does not stay",
    ),
    # No other attempt: the same batch would need the same memory again.
    GPU_OUT_OF_MEMORY: Cause(
        "{end}",
        "Use a smaller --batch-size, or see that no other program uses the GPUs' memory.",
    ),
    "evicted": Cause(
        "{replica} was evicted{where}: {why}.",
        "Correct what the sentence names, or use other nodes; then submit again.",
        again="the next pod may have another node",
    ),
    "preempted": Cause(
        "{replica} was preempted{where}: {why}.",
        "Give the pool a priority_class, or submit again when the cluster is quieter.",
        again="it waits for its turn",
    ),
    "node-lost": Cause(
        "The node {node} of {replica} was lost: {why}.",
        "Submit again; 'kubectl describe node {node}' shows what happened to it.",
        again="the next pod has another node",
    ),
    "pod-deleted": Cause(
        "The pod of {replica} was deleted {when} it ran.",
        "Submit again; the cluster's audit log shows who did it.",
        again="whoever deletes a pod and not its job makes room, or moves it",
    ),
    "replica-replaced": Cause(
        "{replica} has had {restarts}.",
        "Cancel it ('k8sbench cancel {job}') and submit again: its figures would not be one run's.",
        again="the same as of a pod that was deleted, seen later",
    ),
    # No other attempt: someone has set how often it may fail, or how long it may take.
    "job-limit": Cause(
        "{limit} struck, and its pods were deleted: {why}.",
        "Leave both out of the manifest, and use --timeout: k8sbench then reads the logs first.",
    ),
    "job-failed": Cause(
        "The job failed: {why}.",
        "'kubectl -n {namespace} describe {kind} {job}' shows what is left.",
        again="the pods are gone, which is seldom the program's doing",
    ),
    # No other attempt: someone has ended it.
    "job-deleted": Cause(
        "The job was deleted by someone else, before its end was seen.",
        "Submit again, unless another store has collected it (k8sbench results there); the"
        " cluster's audit log shows who deleted it.",
    ),
    # No other attempt: someone has ended it.
    "cancelled": Cause(
        "The job was cancelled.",
        "Submit again if that was not wanted.",
    ),
}


def finding_of(
    cause_id: str,
    names: Mapping[str, str] = types.MappingProxyType({}),
    *,
    unrecoverable: bool = False,
    said: str = "",
    **words: str,
) -> Finding:
    """Build a cause's finding: ``fail`` if waiting cannot help, else ``warn``.

    ``names`` and ``words`` fill in its sentence and its action. ``unrecoverable`` is for
    circumstances in which alone it never passes, ``said`` for all of a text that the sentence
    shortens.
    """
    cause = CAUSES[cause_id]
    known = {**names, **words}
    sentence = cause.sentence.format_map(known).rstrip()
    action = cause.action
    for pattern, advice in ADVICE.get(cause_id, ()):
        if found := re.search(pattern, f"{sentence}\n{said}"):
            known |= found.groupdict()
            action = advice
            break
    return Finding(
        id=cause_id,
        severity="fail" if unrecoverable or cause.unrecoverable == "yes" else "warn",
        sentence=sentence,
        action=action.format_map(known),
    )


def may_be_better(end: Transition) -> bool:
    """Return True if another attempt may end better.

    Not after a cancelled, deleted or missing job, nor after a time limit.
    """
    cause = CAUSES.get(end.cause_id or "")
    return end.phase is Phase.FAILED and cause is not None and cause.again is not None


def needs_change(latest: Transition) -> bool:
    """Return True if a job is queued until somebody changes the queue or the job."""
    return latest.phase is Phase.QUEUED and latest.cause_id in {"queue-unusable", "not-resumed"}


# -- meanings of Kubernetes' states and reasons ----------------------------------------------------
#
# The tables hold the words of Kubernetes 1.33, the training operator 1.9 and the usual autoscalers.
# A test holds them complete for these versions.

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
