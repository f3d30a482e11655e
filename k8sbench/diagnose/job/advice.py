"""Table of a cause's actions for what Kubernetes, Kueue or a program says.

The texts are those of Kubernetes 1.30 to 1.35, Kueue, containerd, CRI-O, mount programs, NCCL and
data loaders. Other texts are quoted, and have the cause's usual action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Advice(NamedTuple):
    """An action for what a cause's sentence says."""

    said: str
    """Pattern of it."""
    action: str
    """The action; ``{name}`` stands for a name of the job, or a group of the pattern."""


SHARED_MEMORY = (
    # torch, Paddle, which has it in a line after its error, and NCCL
    r"(?i)bus error encountered in|killed by signal: Bus error|out of shared memory"
    r"|insufficient shared (?:memory|storage)|unable to (?:allocate|write to).*</torch_\d"
    r"|shared memory segment \S*nccl|No space left on device.*/dev/shm|/dev/shm.*No space left"
)
"""Text of an error of too little shared memory."""

_PLACES = (
    Advice(
        "volume node affinity conflict|no available volume zone",
        "The volume is in another zone, or on another node: use a claim whose volume these nodes"
        " reach (--data pvc:NAME), or nodes that reach it (--node-pool); 'kubectl get pv -o yaml'"
        " shows where it is. Waiting helps only on nodes that merely have too little free.",
    ),
    Advice(
        "ReadWriteOncePod|no available disk",
        "Wait for the pod that has the volume, or use a claim of ReadWriteMany (--data pvc:NAME).",
    ),
    Advice(
        "max volume count",
        "Wait for pods with volumes to end, or choose nodes that can attach more with --node-pool.",
    ),
    Advice(
        "(?i)allocate all claims|resource ?claim|device ?class",
        "Look at what the claim asks for and who has such devices ('kubectl -n {namespace} describe"
        " resourceclaims', 'kubectl get resourceslices'): waiting helps only if a node has them.",
    ),
    Advice(
        "scheduling gates",
        "Whoever has set the gate must remove it; 'kubectl -n {namespace} describe workloads' says"
        " why Kueue does not.",
    ),
    Advice(
        "free ports",
        "Wait for the pods that use these ports of the nodes, or choose a pool without host_network"
        " (--node-pool).",
    ),
    Advice(
        "topology spread constraints|pod affinity rules",
        "k8sbench sets no such rule: 'kubectl -n {namespace} get pod {pod} -o yaml' shows it. Ask"
        " the cluster's administrator, who knows what adds it.",
    ),
    Advice(
        r"the taint (?!node-role\.)[^;]*which the pool does not tolerate",
        "Add the taint to the pool's tolerations if its nodes are for such jobs ('kubectl describe"
        " nodes' shows taints), and submit again; else wait for other jobs to end, or ask for less"
        " with --replicas or --gpus.",
    ),
    Advice(
        r"' on \d+ of \d+ nodes?\b",
        "Correct what the sentence quotes: 'kubectl -n {namespace} describe pod {pod}' shows all of"
        " it. Waiting helps only on nodes that merely have too little free.",
    ),
)
_MOUNTS = (
    Advice(
        "Multi-Attach|exclusively attached|already (?:used by pod|attached to|in use)",
        "The volume can be on one node at a time: wait for the pod that has it, or use a claim of"
        " ReadWriteMany (--data pvc:NAME).",
    ),
    Advice(
        "CSI drivers|does not contain driver",
        "The volume's CSI driver does not run on node {node}: ask the cluster's administrator, or"
        " choose other nodes with --node-pool.",
    ),
    Advice(
        "helper program|unknown filesystem|executable file not found",
        "Have the file system's client installed on node {node} (NFS: nfs-common or nfs-utils), or"
        " choose other nodes with --node-pool.",
    ),
    Advice(
        "access denied|permission denied|not permitted",
        "Have the file server allow node {node} to mount this path (NFS: its exports).",
    ),
    Advice(
        "no such file or directory|not a directory|does not exist|stale file handle",
        "Correct the path of the volume or of --data, or create it there.",
    ),
    Advice(
        "not supported|mount option|bad option|rpc.statd",
        "Correct the mountOptions of the volume, such as nfsvers and nolock.",
    ),
    Advice(
        r"mount\.nfs|timed out(?! waiting for the condition)|deadline exceeded|no route|unreachable"
        "|refused|resolve|not known|host is down",
        "Check that the file server runs, that the volume has its right address, and that node"
        " {node} reaches it (NFS: port 2049).",
    ),
)
_FULL_DISK = Advice(
    "(?i)no space left on device|disk quota exceeded",
    "The disk of node {node} is full: ask the cluster's administrator to free or enlarge it"
    " ('crictl rmi --prune' removes unused images), or choose other nodes with --node-pool.",
)
ADVICE: Mapping[str, tuple[Advice, ...]] = {
    "queue-unusable": (
        Advice(
            r"no topology domains at level:? (?P<level>[\w./-]+\w)",
            "No node of the queue that is ready has the label {level}: ask the cluster's"
            " administrator to label its nodes or correct its Topology, or name another --queue.",
        ),
        Advice(
            r"no requested topology level:? (?P<level>[\w./-]+\w)",
            "The queue's Topology has no level {level}: ask the cluster's administrator to add it,"
            " or name another --queue.",
        ),
        Advice(
            "TopologyAwareScheduling|requested level|TAS cache",
            "Ask the cluster's administrator to correct the topologyName of the queue's flavors"
            " ('kubectl get resourceflavors -o yaml'), or name another --queue.",
        ),
    ),
    "admission-denied": (
        Advice(
            "etcdserver: |request did not complete|currently unable to handle the request",
            "Wait: the API server is overloaded or restarts, and the pods are asked for again.",
        ),
    ),
    "quota-exceeded": (
        Advice(
            r"to be set\.",
            "Ask the cluster's administrator for a default of it (a LimitRange of namespace"
            " {namespace}), or use another namespace: waiting does not help.",
        ),
        Advice(
            "the job needs",
            "Ask for less, with fewer --replicas or --gpus or a smaller pool (--node-pool), or for"
            " a larger quota: 'kubectl -n {namespace} describe quota'. Waiting does not help.",
        ),
    ),
    "no-node-fits": _PLACES,
    "half-placed": _PLACES[:-1],
    "taint-not-tolerated": (
        Advice(
            r"taint \(not named\)",
            "'kubectl describe nodes' shows the taints: wait if nodes are not ready, else add them"
            " to the pool's tolerations, or choose another pool with --node-pool.",
        ),
    ),
    "image-not-found": (
        Advice(
            "another architecture",
            "Name an image that is built for the node's architecture with --image ('kubectl get"
            " node {node} -L kubernetes.io/arch'), or choose other nodes with --node-pool.",
        ),
    ),
    "start-error": (
        Advice(
            "(?i)OOM-killed",
            "Give the pool more memory_per_gpu: its memory limit is too low for the start.",
        ),
        _FULL_DISK,
        Advice(
            "error mounting|context deadline exceeded",
            "Ask the cluster's administrator to look at node {node}, or choose other nodes with"
            " --node-pool.",
        ),
        Advice(
            "(?i)exec format error",
            "The image, or its command, is of another architecture than node {node}: name one that"
            " is built for it with --image, or choose other nodes with --node-pool.",
        ),
    ),
    "pod-not-started": (
        _FULL_DISK,
        *(Advice(f"(?is)cannot mount .*(?:{said})", action) for said, action in _MOUNTS),
    ),
    "node-cannot-start": (_FULL_DISK,),
    "replica-failed": (
        Advice(
            "exec format error",
            "The image is of another architecture than the node: name one that is built for it"
            " with --image, or choose other nodes with --node-pool.",
        ),
        Advice(
            SHARED_MEMORY,
            "Give the pool more `shm` (/dev/shm, part of memory_per_gpu), or use fewer loader"
            " workers.",
        ),
        Advice(
            r"signal 7 \(SIGBUS\)",
            "Most often /dev/shm is too small: give the pool more `shm`, or use fewer loader"
            " workers. A file that is cut while a program maps it has the same end.",
        ),
        Advice(
            "collective .*timed out on rank",
            "One rank has not come to the collective: compare the last lines of all replicas"
            " ('k8sbench logs {job}').",
        ),
        Advice(
            r"(?i)\bECC error",
            "Ask the cluster's administrator to look at the GPUs of its node ('nvidia-smi -q -d"
            " ECC'), and submit again on other nodes.",
        ),
        Advice(
            "ibv_",
            "Check RDMA between the nodes, and the pool's rdma, ipc_lock and nccl_env (such as"
            " NCCL_IB_HCA and NCCL_IB_GID_INDEX); NCCL_IB_DISABLE: '1' does without.",
        ),
    ),
}
"""Cause id → its advice; the first that fits.

What waiting does not mend goes first.
"""
