"""``pools --from-cluster``: a pools file from what nodes say of themselves."""

from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.files.pools import LoadedPools, load
from k8sbench.diagnose.preflight import nodes as preflight
from k8sbench.model.pool import NodePool

GPU = "nvidia.com/gpu"


def node(
    product: str = "", offers: dict[str, int] | None = None, taints: tuple[str, ...] = ()
) -> dict[str, Any]:
    labels = {preflight.PRODUCT: product} if product else {}
    allocatable = {"cpu": "96", "memory": "1000Gi"}
    allocatable |= {name: str(count) for name, count in (offers or {}).items()}
    return {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"allocatable": allocatable},
    }


def proposed(tmp_path: Path, *nodes: dict[str, Any]) -> LoadedPools:
    """Read the proposal as a pools file, as ``--pools`` would."""
    file = tmp_path / "pools.yaml"
    file.write_text(preflight.proposed(nodes))
    return load(str(file))


def alone(tmp_path: Path, *nodes: dict[str, Any]) -> NodePool:
    (pool,) = proposed(tmp_path, *nodes).pools.values()
    return pool


def test_equal_nodes_are_one_pool_with_their_label_taints_cores_and_memory(tmp_path: Path) -> None:
    taints = (GPU, "dedicated", "node.kubernetes.io/not-ready")
    eight = node("Tesla-V100-SXM2-32GB", {GPU: 8}, taints)
    pool = alone(tmp_path, eight, eight, node())
    assert (pool.name, pool.gpus_per_node) == ("tesla-v100-sxm2-32gb", 8)
    assert pool.selector == {preflight.PRODUCT: "Tesla-V100-SXM2-32GB"}
    assert {(one.key, one.operator) for one in pool.tolerations} == {
        (GPU, "Exists"),
        ("dedicated", "Exists"),
    }
    assert (pool.cpu_per_gpu, pool.memory_per_gpu, pool.shm) == ("10", "112Gi", "16Gi")
    assert pool.rdma is None


def test_nodes_that_do_not_say_their_cores_are_proposed_all_the_same(tmp_path: Path) -> None:
    bare = node("A", {GPU: 8})
    del bare["status"]["allocatable"]["cpu"]
    assert alone(tmp_path, bare).cpu_per_gpu == "1"


def test_long_names_stay_within_63_characters_and_unique(tmp_path: Path) -> None:
    names = proposed(tmp_path, *(node("A" * 63, {GPU: count}) for count in (8, 4))).pools
    assert sorted(map(len, names)) == [58, 60]


def test_the_largest_nodes_are_the_default_and_names_are_unique(tmp_path: Path) -> None:
    found = proposed(tmp_path, node("A", {GPU: 1}), node("A", {GPU: 8}), node("B", {GPU: 4}))
    assert [pool.gpus_per_node for pool in found.pools.values()] == [8, 4, 1]
    assert found.default == next(iter(found.pools))


def test_rdma_devices_are_asked_for(tmp_path: Path) -> None:
    pool = alone(tmp_path, node("A", {GPU: 8, "rdma/hca_shared_devices_a": 1000}))
    assert pool.rdma is not None
    assert pool.rdma.resource == "rdma/hca_shared_devices_a"


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("nvidia.com/mig-1g.10gb", "slice"),
        ("nvidia.com/gpu.shared", "gpu-shared"),
        ("amd.com/gpu", "not NVIDIA's"),
    ],
)
def test_other_resources_have_an_explanation(tmp_path: Path, resource: str, says: str) -> None:
    pool = alone(tmp_path, node("NVIDIA-H100-80GB-HBM3-SHARED", {resource: 4}))
    assert pool.gpu_resource == resource
    assert pool.note is not None
    assert says in pool.note


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Tesla-V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        ("Tesla-T4-SHARED", "Tesla T4"),
        ("nvidia-l4", "nvidia-l4"),
    ],
)
def test_a_label_is_written_as_the_driver_names_the_gpu(label: str, name: str) -> None:
    assert preflight.gpu_model(label) == name


def test_nodes_without_gpus_propose_nothing() -> None:
    assert preflight.proposed([node(), node("A", {GPU: 0})]) == ""
