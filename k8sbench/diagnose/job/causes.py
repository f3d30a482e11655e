"""The causes by id: what the user can do, and whether waiting can help.

``docs/diagnosis.md`` says what each means; a test holds its table equal to this one. Sentences are
made where a cause is found, because they hold names and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One cause that was found."""

    id: str
    sentence: str
    action: str
    unrecoverable: bool = False
    again_s: float | None = None
    """The verdict may change by time alone: look again after so many seconds."""


ACTIONS: Mapping[str, str] = {
    # The job has no pods.
    "suspended": "Resume it with 'kubectl -n {namespace} patch {kind} {job} --type=merge"
    ' --patch={{"spec":{{"runPolicy":{{"suspend":false}}}}}}\', or cancel it.',
    "queued": "Wait for its turn; 'kubectl -n {namespace} describe workloads' shows the queue's"
    " reason.",
    "queue-unusable": "Name a queue that is active with --queue: 'kubectl -n {namespace} get"
    " localqueues' lists them; without any, Kueue is not set up here.",
    "operator-down": "Ask the cluster's administrator to start the training operator; 'k8sbench"
    " doctor' checks it.",
    "operator-slow": "Wait, or have the operator started with --kube-api-qps=400"
    " --kube-api-burst=800 --controller-threads=8: by default it creates the pods of about one job"
    " of 4 pods a second.",
    "quota-exceeded": "Wait for other jobs of the namespace to end, ask for fewer GPUs, or ask for"
    " a larger quota: 'kubectl -n {namespace} describe quota'.",
    "pod-security": "Use a node pool without host network, RDMA or IPC_LOCK (--node-pool), or a"
    " namespace that allows them.",
    "operator-init-not-restricted": "Have the template that 'k8sbench doctor --init-template'"
    " prints given to the operator (docs/doctor.md shows how), or use a namespace that does not"
    " enforce a Pod Security Standard.",
    "pod-invalid": "Correct what the sentence names in the pool or the manifest, and submit again.",
    "admission-denied": "Ask the cluster's administrator about the rule that the sentence names, or"
    " choose another pool with --node-pool.",
    "name-in-use": "Wait: they are gone within half a minute; a new run id avoids this.",
    # Pods have no node.
    "no-node-fits": "Wait for other jobs to end, or ask for less with --replicas or --gpus.",
    "request-too-large": "Ask for less with --gpus, or choose a pool of larger nodes with"
    " --node-pool.",
    "no-matching-node": "Choose another pool with --node-pool, or correct its selector: 'kubectl"
    " get nodes --show-labels' shows what there is.",
    "taint-not-tolerated": "Add the taint to the pool's tolerations, or choose another pool with"
    " --node-pool.",
    "nodes-not-ready": "Wait, or ask the cluster's administrator: 'kubectl get nodes'.",
    "half-placed": "Wait for other jobs to end, or cancel it, as it keeps GPUs from others; on a"
    " cluster with a gang scheduler --gang places all replicas or none.",
    "blocked-by-other-job": "Cancel one of them ('k8sbench cancel {rival}'), or submit with --gang"
    " where the cluster has a gang scheduler, or one after the other with --parallel 1.",
    "gang-incomplete": "Wait for other jobs to end, or ask for less with --replicas or --gpus.",
    "gang-ignored": "Submit without --gang, or have the operator started with"
    " --gang-scheduler-name=volcano or =scheduler-plugins-scheduler.",
    "volume-not-bound": "'kubectl -n {namespace} describe pvc {claim}' says why: no storage class,"
    " or no volume of the size.",
    "volume-missing": "Create the claim {claim} in namespace {namespace}, or name another with"
    " --data pvc:NAME.",
    "unscheduled": "'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    # Pods have a node and do not start.
    "image-name-invalid": "Correct --image: registry/name:tag in lower case.",
    "image-not-found": "Check the name and the tag of --image; 'k8sbench images' lists the usual"
    " ones.",
    "image-pull-denied": "Check the name, and give the pool an imagePullSecret of namespace"
    " {namespace}: 'kubectl -n {namespace} create secret docker-registry NAME ...'.",
    "registry-unreachable": "Name a registry that the nodes can reach with --image or"
    " --image-registry.",
    "image-pull-failed": "'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    "init-image-not-pullable": "Have the operator started with"
    " --pytorch-init-container-image=IMAGE, an image with sh and nslookup that the nodes can pull.",
    "init-failed": "Look at the master first, then at the cluster's DNS: 'kubectl -n {namespace}"
    " logs {pod} -c init-pytorch'.",
    "config-missing": "Create it in namespace {namespace}, or submit again if it was deleted.",
    "mount-failed": "Ask the cluster's administrator about the volume, or choose another with"
    " --data; 'kubectl -n {namespace} describe pod {pod}' shows all of it.",
    "node-cannot-start": "Ask the cluster's administrator to look at node {node}.",
    "start-error": "Check that the image holds the command, and is of the right framework.",
    # Replicas that ran.
    "replica-failed": "Read its log: 'k8sbench logs {job} --replica {replica}'.",
    "usage-error": "Correct what its log names ('k8sbench logs {job} --replica {replica}'), and"
    " submit again.",
    "oom": "Give the pool more memory_per_gpu, or use a smaller --batch-size or fewer loader"
    " workers.",
    "evicted": "Correct what the sentence names, or use other nodes; then submit again.",
    "preempted": "Give the pool a priority_class, or submit again when the cluster is quieter.",
    "node-lost": "Submit again; 'kubectl describe node {node}' shows what happened to it.",
    "pod-deleted": "Submit again; the cluster's audit log shows who did it.",
    "replica-replaced": "Cancel it ('k8sbench cancel {job}') and submit again: the figures would"
    " not be those of one run, if it ends at all.",
    "job-changed": "Cancel it ('k8sbench cancel {job}') and submit what is wanted: a run whose job"
    " was changed is rejected.",
    "restart-loop": "Cancel it ('k8sbench cancel {job}') and read the log of {replica};"
    " restartPolicy Never ends at the first failure.",
    "backoff-limit": "Leave backoffLimit out of the manifest: with it, logs that were not read yet"
    " are lost.",
    "deadline": "Use --timeout instead: k8sbench reads the logs first.",
    "job-failed": "'kubectl -n {namespace} describe {kind} {job}' shows what is left.",
    "job-deleted": "Submit again, unless another store has collected it (k8sbench results there);"
    " the cluster's audit log shows who deleted it.",
    "cancelled": "Submit again if that was not wanted.",
}
"""What to do about each cause; ``{name}`` stands for a name of the job at hand."""
HOPELESS = {
    *("pod-security", "operator-init-not-restricted", "pod-invalid", "request-too-large"),
    *("gang-ignored", "image-name-invalid"),
}
"""Causes that never pass without a change of the cluster or the job."""


def found(
    cause_id: str,
    sentence: str,
    names: Mapping[str, str] | None = None,
    *,
    unrecoverable: bool = False,
    again_s: float | None = None,
) -> Diagnosis:
    """Make the diagnosis of a cause; ``unrecoverable`` where only the circumstances make it so."""
    return Diagnosis(
        id=cause_id,
        sentence=sentence,
        action=ACTIONS[cause_id].format_map(names or {}),
        unrecoverable=unrecoverable or cause_id in HOPELESS,
        again_s=again_s,
    )
