"""Node pools: what a replica's pod asks of the nodes it runs on."""

from __future__ import annotations

import msgspec


class Toleration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Kubernetes toleration; fields as in ``core/v1``."""

    key: str | None = None
    operator: str = "Exists"
    value: str | None = None
    effect: str | None = None


class Rdma(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """RDMA devices of a pool. Any of it leaves the restricted Pod Security Standard."""

    resource: str
    """Extended resource name of the device plugin, for example ``rdma/hca_shared_devices_a``."""
    count: int = 1
    capabilities: tuple[str, ...] = ("IPC_LOCK",)


class NodePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of node and what its pods carry. Quantities are Kubernetes quantities."""

    name: str
    gpus_per_node: int
    gpu_model: str | None
    """As the driver names it (``Tesla V100-SXM2-16GB``); None for a pool of no GPUs."""
    gpu_resource: str = "nvidia.com/gpu"
    selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    cpu_per_gpu: str = "4"
    memory_per_gpu: str = "32Gi"
    shm: str = "8Gi"
    """Size of /dev/shm, a memory volume: it counts against the pod's memory limit."""
    runtime_class: str | None = None
    priority_class: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    nccl_env: dict[str, str] = {}
    rdma: Rdma | None = None
    host_network: bool = False
    ipc_lock: bool = False
    note: str | None = None


CPU_POOL = NodePool(
    name="local", gpus_per_node=0, gpu_model=None, cpu_per_gpu="1", memory_per_gpu="4Gi", shm="1Gi"
)
"""What a local machine without a GPU counts as; selects nothing, asks for no GPU."""
