"""``pools --from-cluster``: a pools file from what nodes say of themselves."""

from pathlib import Path
from typing import Any

import pytest

from k8sbench.catalog.pool_files import LoadedPools, load_pools
from k8sbench.diagnose.preflight import nodes as preflight
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import PRODUCT, NodePool

GPU = "nvidia.com/gpu"
INSTANCE = "node.kubernetes.io/instance-type"
GKE = "cloud.google.com/gke-accelerator"
SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
PARTITION = "cloud.google.com/gke-gpu-partition-size"
A100, T4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"


def node(
    product: str = "",
    offers: dict[str, int] | None = None,
    taints: tuple[str, ...] = (),
    *,
    name: str = "n",
    labels: dict[str, str] | None = None,
    effect: str = "NoSchedule",
    ready: str = "True",
    **spec: Any,
) -> dict[str, Any]:
    allocatable = {"cpu": "96", "memory": "1000Gi"}
    allocatable |= {name: str(count) for name, count in (offers or {}).items()}
    of_product = {PRODUCT: product} if product else {}
    return {
        "metadata": {"name": name, "labels": of_product | (labels or {})},
        "spec": {"taints": [{"key": key, "effect": effect} for key in taints], **spec},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def proposed(tmp_path: Path, *nodes: dict[str, Any]) -> LoadedPools:
    """Read the proposal as a pools file, as ``--pools`` would."""
    file = tmp_path / "pools.yaml"
    file.write_text(preflight.proposed(nodes))
    return load_pools(str(file))


def alone(tmp_path: Path, *nodes: dict[str, Any]) -> NodePool:
    (pool,) = proposed(tmp_path, *nodes).pools.values()
    return pool


def test_equal_nodes_are_one_pool_with_their_label_taints_cores_and_memory(tmp_path: Path) -> None:
    taints = (GPU, "dedicated")
    eight = node("Tesla-V100-SXM2-32GB", {GPU: 8}, taints)
    pool = alone(tmp_path, eight, eight, node())
    assert (pool.name, pool.gpus_per_node) == ("tesla-v100-sxm2-32gb", 8)
    assert pool.selector == {PRODUCT: "Tesla-V100-SXM2-32GB"}
    assert {(one.key, one.operator) for one in pool.tolerations} == {
        (GPU, "Exists"),
        ("dedicated", "Exists"),
    }
    assert (pool.cpu_per_gpu, pool.memory_per_gpu, pool.shm) == ("10", "112Gi", "16Gi")
    assert pool.rdma is None


@pytest.mark.parametrize(
    ("resource", "offered", "count"),
    [("rdma/hca_shared_devices_a", 1000, 1), ("vpc.amazonaws.com/efa", 32, 32)],
)
def test_rdma_devices_are_asked_for(
    resource: str, offered: int, count: int, tmp_path: Path
) -> None:
    pool = alone(tmp_path, node("A", {GPU: 8, resource: offered}))
    assert pool.rdma is not None
    assert (pool.rdma.resource, pool.rdma.count) == (resource, count)
    assert "TCP" not in str(pool.note)


@pytest.mark.parametrize(
    ("offered", "labels", "more", "model", "says"),
    [
        (56, {PRODUCT: f"{A100}-MIG-1g.5gb"}, None, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "slices"),
        (8, {PRODUCT: f"{A100}-MIG-3g.20gb-SHARED"}, None, f"{A100} MIG 3g.20gb", "slices"),
        (
            7,
            {GKE: "nvidia-a100", PARTITION: "1g.5gb"},
            PARTITION,
            "nvidia-a100 MIG 1g.5gb",
            "slices",
        ),
        (80, {PRODUCT: f"{T4}-SHARED", f"{GPU}.replicas": "10"}, None, T4, "not comparable"),
        (4, {PRODUCT: T4, f"{GPU}.replicas": "4"}, f"{GPU}.replicas", T4, "not comparable"),
        (4, {INSTANCE: "g4", f"{GPU}.replicas": "4"}, f"{GPU}.replicas", "g4", "not comparable"),
        (
            4,
            {PRODUCT: T4, f"{GPU}.sharing-strategy": "mps"},
            f"{GPU}.sharing-strategy",
            T4,
            "not comparable",
        ),
        (4, {GKE: T4, SHARING: "time-sharing"}, SHARING, T4, "not comparable"),
    ],
)
def test_slices_and_shared_gpus_are_no_whole_gpus_and_never_the_default(
    offered: int, labels: dict[str, str], more: str | None, model: str, says: str, tmp_path: Path
) -> None:
    found = proposed(tmp_path, node(labels=labels, offers={GPU: offered}), node("B", {GPU: 1}))
    whole, parts = found.pools.values()
    assert (found.default, whole.gpu_model) == (whole.name, "B")
    assert parts.gpus_per_node == 1
    assert str(parts.gpu_model).replace(" ", "-") == model.replace(" ", "-")
    assert says in str(parts.note)
    assert f"offers {offered}" in str(parts.note)
    assert list(parts.selector) == [next(iter(labels)), *([more] if more else [])]
    lone = proposed(tmp_path, node(labels=labels, offers={GPU: offered}))
    with pytest.raises(UsageError, match="no default"):
        lone.pool()


def test_more_gpus_than_the_operator_counts_are_shared_ones(tmp_path: Path) -> None:
    counts = {f"{GPU}.count": "1"}
    eight = node(T4, {GPU: 8}, labels={f"{GPU}.count": "8"}, name="whole")
    found = proposed(tmp_path, node(T4, {GPU: 8}, labels=counts, name="shared"), eight)
    whole, shared = found.pools.values()
    assert (whole.gpus_per_node, shared.gpus_per_node) == (8, 1)
    assert "matches shared, whose GPUs differ" in str(whole.note)
    assert "other pods share" in str(shared.note).lower()


TROUBLE = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "sagemaker.amazonaws.com/node-health-status",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
    "aws-node-termination-handler/spot-itn",
    "node.cilium.io/agent-not-ready",
)


@pytest.mark.parametrize(
    ("away", "why"),
    [
        *((node("A", {GPU: 8}, (key,), name="a"), f"taint {key}") for key in TROUBLE),
        (node("A", {GPU: 8}, TROUBLE[:1], effect="NoExecute", name="a"), f"taint {TROUBLE[0]}"),
        (node("A", {GPU: 8}, name="a", ready="False"), "not ready"),
        (node("A", {GPU: 8}, name="a", ready="Unknown"), "not ready"),
        (node("A", {GPU: 8}, name="a", unschedulable=True), "cordoned"),
        (node("A", {GPU: 8}, name="a", labels={"type": "virtual-kubelet"}), "virtual"),
    ],
)
def test_nodes_in_trouble_are_no_pool_and_are_named(
    away: dict[str, Any], why: str, tmp_path: Path
) -> None:
    assert preflight.proposed([away]) == ""
    assert preflight.left_out([away, node()]) == [f"a ({why})"]
    found = proposed(tmp_path, away, node("A", {GPU: 8}))
    assert f"# Left out: a ({why}).\n" in found.text
    (pool,) = found.pools.values()
    assert (pool.tolerations, str(pool.note)[:7]) == ((), "1 node.")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Tesla-V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        ("Tesla-T4-SHARED", "Tesla T4"),
        ("nvidia-l4", "nvidia-l4"),
    ],
)
def test_a_label_is_written_as_the_driver_names_the_gpu(label: str, name: str) -> None:
    assert preflight.gpu_model(label) == name
