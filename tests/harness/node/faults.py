"""Faults of pods on real nodes, and pods for them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster.namespace import Namespace
from tests.harness.node.cluster import NodeCluster

GPU_PRODUCT = "Tesla-T4"
SMALL_LOG = "64Ki"
"""Log size that triggers rotation.

The kubelet checks every 3 s, so a file may exceed it.
"""
SMALL_LOG_BYTES = 64 << 10
"""The same, as a number."""
WAITS = "import signal; print('on', flush=True); signal.pause()"
"""Program that runs until it is killed.

As PID 1 it ignores SIGTERM, because it has no handler.
"""
ENDS_WHEN_TOLD = f"import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); {WAITS}"
_FILLS_MEMORY = "b = []\nwhile True: b.append(bytearray(8 << 20))"
OUT_OF_MEMORY = ("python3", "-c", _FILLS_MEMORY)
"""Its main process is killed, where limits give it some memory."""
CHILD_OUT_OF_MEMORY = ("sh", "-c", 'python3 -c "$0"; exit 3', _FILLS_MEMORY)
"""Program whose child is killed.

With cgroups of version 1 the main process continues, and ends with 3.
"""
DISK_FULL = "open('/tmp/data', 'wb').write(bytes(40 << 20)); " + WAITS
"""Program that writes 40 MiB, more than its limit.

The kubelet evicts it at its next check, within about 10 s.
"""


def on(node: str) -> dict[str, str]:
    """Select a node."""
    return {"kubernetes.io/hostname": node}


@contextlib.contextmanager
def gpu(cluster: NodeCluster, node: str) -> Iterator[None]:
    """Report a GPU on a node for the duration of the block."""
    label = "nvidia.com/gpu.product"
    _have_gpus(cluster, node, "1")
    cluster.kubectl("label", "node", node, f"{label}={GPU_PRODUCT}")
    try:
        yield
    finally:
        cluster.kubectl("label", "node", node, f"{label}-")
        _have_gpus(cluster, node, None)


def _have_gpus(cluster: NodeCluster, node: str, count: str | None) -> None:
    many = {"nvidia.com/gpu": count}
    patch = json.dumps({"status": {"capacity": many, "allocatable": many}})
    words = ("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={patch}")
    cluster.kubectl(*words)


def evict(namespace: Namespace, name: str) -> None:
    """Evict a pod as ``kubectl drain`` does."""
    wish = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace.name},
    }
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
    namespace.kubectl("create", "--raw", path, "--filename=-", given=json.dumps(wish))


@contextlib.contextmanager
def lost(cluster: NodeCluster, name: str) -> Iterator[None]:
    """Silence a node: its kubelet is dead, its containers continue.

    The cluster notices after 10 s, and deletes the pods 5 s later; they stay, Running, until the
    node is back, as it is at the end of the block.
    """
    node = cluster.node(name)
    node.kill("kubelet")
    try:
        yield
    finally:
        node.start("kubelet")
        cluster.wait_for(name)


@contextlib.contextmanager
def small_logs(cluster: NodeCluster, name: str) -> Iterator[None]:
    """Have a kubelet rotate logs after ``SMALL_LOG``; pods go on while it starts again."""
    _configure(cluster, name, log_size=SMALL_LOG)
    try:
        yield
    finally:
        _configure(cluster, name)


def _configure(cluster: NodeCluster, name: str, **reported: str) -> None:
    node = cluster.node(name)
    node.kill("kubelet")
    node.configure(**reported)
    node.start("kubelet")
    cluster.wait_for(name)


def log_files(cluster: NodeCluster, namespace: Namespace, name: str) -> list[Path]:
    """Return a one-container pod's log files, the rotated ones included."""
    found = namespace.get("pod", name)
    logs = Path(cluster.node(found["spec"]["nodeName"]).machine.data, "logs")
    folder = f"{namespace.name}_{name}_{found['metadata']['uid']}"
    return sorted(logs.joinpath(folder).glob("*/*.log*"))
