"""Frameworks for pods: this Python's site-packages as a claim.

The volume is a folder of this machine, read-only. Node pools that use it are here too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sysconfig
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster import volumes
from tests.harness.cluster.namespace import Namespace

CLAIM = "frameworks"


def pools() -> str:
    """Make the pools file: ``spread``, the default, and ``small``."""
    packages = {"python_packages": f"pvc:{CLAIM}"}
    # Of all cores that a process sees it has a part, and is halted when its threads use more.
    threads = {"nccl_env": {"OMP_NUM_THREADS": "1"}}
    cpus = {"gpus_per_node": 0, "gpu_model": None, "shm": "256Mi", **packages, **threads}
    # More than half of a node, so that two replicas lie on two nodes.
    most = f"{500 * (os.cpu_count() or 1) + 100}m"
    found: list[dict[str, Any]] = [
        {"name": "spread", **cpus, "cpu_per_gpu": most, "memory_per_gpu": "3Gi"},
        {"name": "small", **cpus, "cpu_per_gpu": "200m", "memory_per_gpu": "2Gi"},
    ]
    return json.dumps({"default": "spread", "pools": found}, indent=1)


@contextlib.contextmanager
def claimed(namespace: Namespace) -> Iterator[None]:
    """Provide the claim, bound, in a namespace for the block's duration."""
    with volumes.claimed(namespace, CLAIM, sysconfig.get_path("purelib"), "ReadOnlyMany"):
        yield
