"""Frameworks for pods: the site-packages of this Python as a claim, and node pools that use it.

The volume is a folder of this machine, read-only. A pod may not mount such a one itself where the
restricted standard is enforced; a claim it may.
"""

from __future__ import annotations

import contextlib
import json
import os
import sysconfig
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster.namespace import Namespace

CLAIM = "frameworks"
GPU_PRODUCT = "Tesla-T4"
"""Label of nodes of pool ``gpu``: those that :func:`tests.harness.node.faults.give_gpus` got."""


def pools() -> str:
    """Make the pools file: ``spread``, the default, ``small`` and ``gpu``."""
    packages = {"python_packages": f"pvc:{CLAIM}"}
    # Of all cores that a process sees it has a part, and is halted when its threads use more.
    threads = {"nccl_env": {"OMP_NUM_THREADS": "1"}}
    cpus = {"gpus_per_node": 0, "gpu_model": None, "shm": "256Mi", **packages, **threads}
    # More than half of a node, so that two replicas lie on two nodes.
    most = f"{500 * (os.cpu_count() or 1) + 100}m"
    found: list[dict[str, Any]] = [
        {"name": "spread", **cpus, "cpu_per_gpu": most, "memory_per_gpu": "3Gi"},
        {"name": "small", **cpus, "cpu_per_gpu": "200m", "memory_per_gpu": "2Gi"},
        {
            "name": "gpu",
            "gpus_per_node": 8,
            "gpu_model": "Tesla T4",
            "selector": {"nvidia.com/gpu.product": GPU_PRODUCT},
            "cpu_per_gpu": "50m",
            "memory_per_gpu": "128Mi",
            "shm": "64Mi",
            **packages,
        },
    ]
    return json.dumps({"default": "spread", "pools": found}, indent=1)


@contextlib.contextmanager
def claimed(namespace: Namespace) -> Iterator[None]:
    """Have the claim in a namespace, bound; the volume goes with the end of the block."""
    volume = f"{CLAIM}-{namespace.name}"
    common: dict[str, Any] = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    namespace.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM},
            "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    # A volume that knows the claim's uid is bound when it appears; otherwise the controller may
    # come to it only with its next round, up to 15 s later.
    claim = namespace.get("persistentvolumeclaim", CLAIM)["metadata"]
    namespace.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {key: claim[key] for key in ("namespace", "name", "uid")},
                "hostPath": {"path": sysconfig.get_path("purelib"), "type": "Directory"},
            },
        }
    )
    try:
        namespace.wait("jsonpath={.status.phase}=Bound", f"persistentvolumeclaim/{CLAIM}")
        yield
    finally:
        namespace.cluster.kubectl("delete", "persistentvolume", volume, "--wait=false")
