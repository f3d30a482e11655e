"""The table of causes; a test holds ``docs/diagnosis.md`` equal to it.

A row is a stable id, what it means, what the user can do, and whether waiting can help. Sentences
are made where a cause is found, for they hold names and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    id: str
    meaning: str
    action: str
    """What to do; ``{name}`` stands for a name of the case at hand."""
    hopeless: bool | str = False
    """Whether a job that waits for it waits in vain; text: only then."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, found."""

    id: str
    sentence: str
    action: str
    hopeless: bool = False
    again_s: float | None = None
    """The verdict may change by time alone: look again after so many seconds."""


_TABLE = (
    # --- the job has no pods -----------------------------------------------------------------
    Cause(
        id="suspended",
        meaning="The job is suspended and in no queue: someone holds it.",
        action="Let it go on with 'kubectl -n {namespace} patch {kind} {job} --type=merge"
        ' --patch={{"spec":{{"runPolicy":{{"suspend":false}}}}}}\', or cancel it.',
    ),
    Cause(
        id="queued",
        meaning="The job's queue has not admitted it yet.",
        action="Wait for its turn; 'kubectl -n {namespace} describe workloads' shows the queue's"
        " reason.",
    ),
    Cause(
        id="queue-unusable",
        meaning="The queue that --queue names does not exist, is stopped, or nobody serves it.",
        action="Name a queue that is active with --queue: 'kubectl -n {namespace} get localqueues'"
        " lists them; without any, Kueue is not set up here.",
    ),
    Cause(
        id="operator-down",
        meaning="Nothing was heard of the training operator since the job was created, or its"
        " webhook does not answer.",
        action="Ask who runs the cluster to start the training operator; 'k8sbench doctor' looks"
        " at it.",
    ),
    Cause(
        id="operator-slow",
        meaning="The training operator works, but has not come to this job's pods yet.",
        action="Wait, or have the operator started with --kube-api-qps=400 --kube-api-burst=800"
        " --controller-threads=8: its defaults bring up about one job of 4 pods a second.",
    ),
    Cause(
        id="quota-exceeded",
        meaning="A ResourceQuota of the namespace leaves too little for a replica.",
        action="Wait for other jobs of the namespace to end, ask for fewer GPUs, or ask for a"
        " larger quota: 'kubectl -n {namespace} describe quota'.",
        hopeless="when a replica alone asks for more than the whole quota",
    ),
    Cause(
        id="pod-security",
        meaning="The namespace's Pod Security Standard forbids the pods.",
        action="Use a node pool without host network, RDMA or IPC_LOCK (--node-pool), or a"
        " namespace that allows them.",
        hopeless=True,
    ),
    Cause(
        id="operator-init-not-restricted",
        meaning="The training operator adds an init container (init-pytorch) without a security"
        " context to every worker, and the namespace forbids that.",
        action="Have the template that 'k8sbench doctor --init-template' prints given to the"
        " operator (docs/diagnosis.md shows how), or use a namespace that does not enforce a Pod"
        " Security Standard.",
        hopeless=True,
    ),
    Cause(
        id="pod-invalid",
        meaning="The API server finds the pods themselves wrong.",
        action="Correct what the sentence names in the pool or the manifest, and submit again.",
        hopeless=True,
    ),
    Cause(
        id="admission-denied",
        meaning="Another rule of the cluster (a webhook, a policy, a LimitRange, a missing"
        " priority or runtime class) refuses the pods.",
        action="Ask who runs the cluster about the rule that the sentence names, or choose"
        " another pool with --node-pool.",
    ),
    Cause(
        id="name-in-use",
        meaning="Pods of an earlier job of this name are still ending.",
        action="Wait: they go within half a minute; a new run id avoids it.",
    ),
    # --- pods have no node -------------------------------------------------------------------
    Cause(
        id="no-node-fits",
        meaning="Nodes of the right kind exist, and none has enough free.",
        action="Wait for other jobs to end, or ask for less with --replicas or --gpus.",
    ),
    Cause(
        id="request-too-large",
        meaning="A replica asks for more than any node has, even an empty one.",
        action="Ask for less with --gpus, or choose a pool of larger nodes with --node-pool.",
        hopeless=True,
    ),
    Cause(
        id="no-matching-node",
        meaning="No node has the labels that the pool asks for.",
        action="Choose another pool with --node-pool, or correct its selector: 'kubectl get nodes"
        " --show-labels' shows what there is.",
        hopeless="unless an autoscaler says that it adds a node",
    ),
    Cause(
        id="taint-not-tolerated",
        meaning="The nodes that are left have a taint that the pool does not tolerate.",
        action="Add the taint to the pool's tolerations, or choose another pool with --node-pool.",
    ),
    Cause(
        id="nodes-not-ready",
        meaning="Nodes of the right kind exist, but are not ready or closed to new pods.",
        action="Wait, or ask who runs the cluster: 'kubectl get nodes'.",
    ),
    Cause(
        id="half-placed",
        meaning="Some replicas hold their GPUs while others have no node, and the job cannot"
        " begin.",
        action="Wait for other jobs to end, or cancel it, as it keeps GPUs from others; on a"
        " cluster with a gang scheduler --gang places all replicas or none.",
    ),
    Cause(
        id="blocked-by-other-job",
        meaning="Two jobs each hold a part of the nodes and wait for the other's part.",
        action="Cancel one of them ('k8sbench cancel {rival}'), or submit with --gang where the"
        " cluster has a gang scheduler, or one after the other with --parallel 1.",
    ),
    Cause(
        id="gang-incomplete",
        meaning="The gang scheduler waits until all replicas fit at once.",
        action="Wait for other jobs to end, or ask for less with --replicas or --gpus.",
    ),
    Cause(
        id="gang-ignored",
        meaning="--gang was asked for, and the training operator does not do gangs: it was started"
        " without --gang-scheduler-name.",
        action="Submit without --gang, or have the operator started with"
        " --gang-scheduler-name=volcano or =scheduler-plugins-scheduler.",
        hopeless=True,
    ),
    Cause(
        id="volume-not-bound",
        meaning="A claim has had no volume for more than half a minute.",
        action="'kubectl -n {namespace} describe pvc {claim}' says why: no storage class, or no"
        " volume of the size.",
    ),
    Cause(
        id="volume-missing",
        meaning="A claim (PersistentVolumeClaim) that the job uses does not exist.",
        action="Create the claim {claim} in namespace {namespace}, or name another with --data"
        " pvc:NAME.",
        hopeless="after half a minute",
    ),
    Cause(
        id="unscheduled",
        meaning="The scheduler gives another reason, which is quoted.",
        action="'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    ),
    # --- pods have a node and do not start ---------------------------------------------------
    Cause(
        id="image-name-invalid",
        meaning="The image's name is not one.",
        action="Correct --image: registry/name:tag in lower case.",
        hopeless=True,
    ),
    Cause(
        id="image-not-found",
        meaning="The registry has no such image or tag, or the node must not pull it.",
        action="Check the name and the tag of --image; 'k8sbench images' lists the usual ones.",
    ),
    Cause(
        id="image-pull-denied",
        meaning="The registry wants credentials, refuses those it was given, or hides that there"
        " is no such image.",
        action="Check the name, and give the pool an imagePullSecret of namespace {namespace}:"
        " 'kubectl -n {namespace} create secret docker-registry NAME ...'.",
    ),
    Cause(
        id="registry-unreachable",
        meaning="The node cannot reach the registry, or the registry has no time for it.",
        action="Name a registry that the nodes can reach with --image or --image-registry.",
    ),
    Cause(
        id="image-pull-failed",
        meaning="The image cannot be pulled for another reason, which is quoted.",
        action="'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    ),
    Cause(
        id="init-image-not-pullable",
        meaning="The image of the operator's init container cannot be pulled, so workers wait.",
        action="Have the operator started with --pytorch-init-container-image=IMAGE, an image"
        " with sh and nslookup that the nodes can pull.",
    ),
    Cause(
        id="init-failed",
        meaning="A worker's init container ended with an error: it did not find the master.",
        action="Look at the master first, then at the cluster's DNS: 'kubectl -n {namespace} logs"
        " {pod} -c init-pytorch'.",
    ),
    Cause(
        id="config-missing",
        meaning="A ConfigMap or Secret, or a key of it, that the job uses does not exist.",
        action="Create it in namespace {namespace}, or submit again if it was deleted.",
        hopeless="after half a minute",
    ),
    Cause(
        id="mount-failed",
        meaning="A volume cannot be mounted on the node.",
        action="Ask who runs the cluster about the volume, or choose another with --data;"
        " 'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    ),
    Cause(
        id="node-cannot-start",
        meaning="The node cannot set up pods: its network plugin or its container runtime fails.",
        action="Ask who runs the cluster to look at node {node}.",
    ),
    Cause(
        id="start-error",
        meaning="The container cannot be started: its command is missing, or the runtime refuses"
        " it.",
        action="Check that the image holds the command, and is of the right framework.",
    ),
    # --- replicas that ran -------------------------------------------------------------------
    Cause(
        id="replica-failed",
        meaning="A replica's program ended with an error; the first to do so is named.",
        action="Read its log: 'k8sbench logs {job} --replica {replica}'.",
    ),
    Cause(
        id="oom",
        meaning="A replica, or a process of it, was killed for want of memory.",
        action="Give the pool more memory_per_gpu, or use a smaller --batch-size or fewer loader"
        " workers.",
    ),
    Cause(
        id="evicted",
        meaning="The node or the cluster ended a replica: disk or memory ran out, a volume's limit"
        " was passed, or the node was drained or tainted.",
        action="Mend what the sentence names, or keep to other nodes; then submit again.",
    ),
    Cause(
        id="preempted",
        meaning="A pod of higher priority took a replica's place.",
        action="Give the pool a priority_class, or submit again when the cluster is quieter.",
    ),
    Cause(
        id="node-lost",
        meaning="A replica's node stopped answering or was taken away.",
        action="Submit again; 'kubectl describe node {node}' shows what became of it.",
    ),
    Cause(
        id="pod-deleted",
        meaning="Someone deleted a replica's pod.",
        action="Submit again; the cluster's audit log knows who did it.",
    ),
    Cause(
        id="replica-replaced",
        meaning="A replica's pod vanished at once (by force, or while the operator was away), and"
        " the operator made it anew, whatever restartPolicy says; the others know nothing of it.",
        action="Cancel it ('k8sbench cancel {job}') and submit again: the figures would not be"
        " those of one run, if it ends at all.",
    ),
    Cause(
        id="restart-loop",
        meaning="The operator starts a replica again and again, as the job's restartPolicy has it.",
        action="Cancel it ('k8sbench cancel {job}') and read the log of {replica}; restartPolicy"
        " Never ends at the first failure.",
    ),
    Cause(
        id="backoff-limit",
        meaning="The job's backoffLimit struck, and the operator deleted its pods.",
        action="Leave backoffLimit out of the manifest: it costs the logs that were not read yet.",
    ),
    Cause(
        id="deadline",
        meaning="The job's activeDeadlineSeconds struck, and the operator deleted its pods.",
        action="Use --timeout in its place: k8sbench reads the logs first.",
    ),
    Cause(
        id="job-failed",
        meaning="The operator says that the job failed, and no replica shows why.",
        action="'kubectl -n {namespace} describe {kind} {job}' shows what is left.",
    ),
    Cause(
        id="job-deleted",
        meaning="The job was deleted by someone else than k8sbench.",
        action="Submit again; the cluster's audit log knows who did it.",
    ),
    Cause(
        id="cancelled",
        meaning="The job was cancelled by 'k8sbench cancel' or by a rule of k8sbench (a timeout),"
        " here or by another user; the annotation k8sbench.io/cancelled says which.",
        action="Submit again if that was not wanted.",
    ),
)

CAUSES = {cause.id: cause for cause in _TABLE}


def found(
    cause_id: str,
    sentence: str,
    names: Mapping[str, str] | None = None,
    *,
    hopeless: bool | None = None,
    again_s: float | None = None,
) -> Diagnosis:
    """Make the diagnosis of a cause; ``hopeless`` is said where the table leaves it open."""
    cause = CAUSES[cause_id]
    if isinstance(cause.hopeless, bool) == (hopeless is not None):
        raise ValueError(f"whether {cause_id} is hopeless is the table's to say, or the caller's")
    verdict = cause.hopeless if isinstance(cause.hopeless, bool) else bool(hopeless)
    action = cause.action.format_map(names or {})
    return Diagnosis(
        id=cause_id, sentence=sentence, action=action, hopeless=verdict, again_s=again_s
    )
