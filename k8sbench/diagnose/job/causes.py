"""Causes of a job's state, one row each: sentence, action, recovery.

The module of a cause's stage checks its condition and fills in the names. ``k8sbench explain ID``
prints a row.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import NamedTuple

from k8sbench.model.finding import Finding
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.sweeps import GPU_OUT_OF_MEMORY


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
        "{head}, refused by the API server or a rule of the cluster: {why}.",
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
        "No node for {replicas} has enough free: {why}.",
        "Wait for other jobs to end, or ask for less with --replicas or --gpus.",
    ),
    "request-too-large": Cause(
        "No node for {replicas}: {asked} is more than any node has.",
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
        "The registry of {replica}'s image {image} cannot be reached: {why}.",
        "Name a registry that the nodes can reach with --image or --image-registry.",
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
    "job-changed": Cause(
        "The job was changed: {why}.",
        "Cancel it ('k8sbench cancel {job}') and submit again: a changed job's run is rejected.",
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
    **words: str,
) -> Finding:
    """Build a cause's finding: ``fail`` if waiting cannot help, else ``warn``.

    ``names`` and ``words`` fill in its sentence and its action. ``unrecoverable`` is for
    circumstances in which alone it never passes.
    """
    cause = CAUSES[cause_id]
    known = {**names, **words}
    return Finding(
        id=cause_id,
        severity="fail" if unrecoverable or cause.unrecoverable == "yes" else "warn",
        sentence=cause.sentence.format_map(known).rstrip(),
        action=cause.action.format_map(known),
    )


def may_be_better(end: Transition) -> bool:
    """Return True if another attempt may end better.

    Not after a cancelled, deleted or missing job, nor after a time limit.
    """
    cause = CAUSES.get(end.cause_id or "")
    return end.phase is Phase.FAILED and cause is not None and cause.again is not None
