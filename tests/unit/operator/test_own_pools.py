"""The pools that Benchmark objects bring along."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.app import object_cases, targets
from k8sbench.app.targets import RunTarget
from k8sbench.catalog.plan_choices import Site
from k8sbench.catalog.pool_files import LoadedPools
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import NodePool, Rdma, Toleration, widened_fields
from k8sbench.model.request import CollectOptions, SubmitRequest
from tests.unit.model.benchmark_objects import an_object

POOL = {"name": "v100-32gb", "gpus_per_node": 8, "gpu_model": "Tesla V100-SXM2-32GB"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cpu_per_gpu": "lots"}, "cpu_per_gpu"),
        ({"selector": {"a b": "c"}}, "selector.a b"),
        ({"shm": "900Gi"}, "shm"),
    ],
)
def test_an_object_with_a_pool_that_cannot_be_read_is_not_planned(
    changes: dict[str, Any], field: str
) -> None:
    benchmark = an_object(pool=POOL | changes)
    with pytest.raises(UsageError) as raised:
        object_cases.plan_object(cast("Api", None), lambda _: None, CollectOptions(), benchmark)
    assert field in str(raised.value)


BASE = NodePool(
    name="v100",
    gpus_per_node=8,
    gpu_model="Tesla V100-SXM2-32GB",
    selector={"gpu": "v100"},
    tolerations=(Toleration(key="gpu", operator="Exists"),),
    image_pull_secrets=("registry",),
    annotations={"network": "a"},
    rdma=Rdma(resource="rdma/a"),
)
NARROWER: list[dict[str, Any]] = [
    {},
    {"selector": {"gpu": "v100", "zone": "a"}},
    {"cpu_per_gpu": "1500m", "memory_per_gpu": "16Gi", "shm": "1Gi", "gpus_per_node": 4},
    {"tolerations": (), "image_pull_secrets": (), "annotations": {}, "rdma": None},
    {"nccl_env": {"NCCL_DEBUG": "INFO"}, "python_packages": "pvc:site", "note": "mine"},
]
WIDER: dict[str, Any] = {
    "host_network": True,
    "ipc_lock": True,
    "rdma": Rdma(resource="rdma/a", capabilities=("SYS_ADMIN",)),
    "priority_class": "system-node-critical",
    "runtime_class": "other",
    "tolerations": (Toleration(operator="Exists"),),
    "image_pull_secrets": ("registry", "another"),
    "annotations": {"network": "b"},
    "selector": {"zone": "a"},
    "gpu_resource": "nvidia.com/other",
    "gpu_model": "A100",
    "gpus_per_node": 16,
    "cpu_per_gpu": "5",
    "memory_per_gpu": "1Ti",
    "shm": "16Gi",
}


@pytest.mark.parametrize("changes", NARROWER)
def test_a_pool_may_select_fewer_nodes_and_ask_for_less(changes: dict[str, Any]) -> None:
    assert [*widened_fields(msgspec.structs.replace(BASE, **changes), BASE)] == []


@pytest.mark.parametrize("field", WIDER)
def test_a_pool_may_let_its_pods_do_no_more(field: str) -> None:
    changed = msgspec.structs.replace(BASE, **{field: WIDER[field]})
    assert [*widened_fields(changed, BASE)] == [field]


def test_each_field_of_a_pool_is_held_against_the_operators_or_free() -> None:
    free = {"name", "nccl_env", "python_packages", "note"}
    assert WIDER.keys() | free == set(NodePool.__struct_fields__)


@pytest.mark.parametrize(
    ("changes", "options", "refused"),
    [
        ({}, {}, ""),
        ({"selector": {"zone": "a", "gpu": "v100"}}, {}, ""),
        ({"host_network": True}, {}, "host_network"),
        ({"name": "mine"}, {}, "no node pool mine"),
        ({"name": "mine", "host_network": True}, {"allow_own_pools": True}, ""),
    ],
)
def test_an_object_narrows_a_pool_of_the_operator_unless_others_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    options: dict[str, Any],
    refused: str,
) -> None:
    class Planned(Exception):
        """The pool was accepted."""

    def target(_: Api, request: SubmitRequest, pool: NodePool | None = None) -> RunTarget:
        if pool is not None:
            raise Planned
        loaded = LoadedPools(pools={"v100": BASE}, source="pools", default=None, text="")
        return RunTarget(Site(backend="kubernetes", pool=loaded.pool(request.node_pool)), "")

    monkeypatch.setattr(targets, "target_on_cluster", target)
    own = msgspec.to_builtins(msgspec.structs.replace(BASE, **changes))
    pool = {name: value for name, value in own.items() if value is not None}
    with pytest.raises(UsageError if refused else Planned, match=refused or None):
        object_cases.plan_object(
            cast("Api", None), lambda _: None, CollectOptions(**options), an_object(pool=pool)
        )
