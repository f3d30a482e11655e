"""The pools that Benchmark objects bring along."""

from __future__ import annotations

from typing import Any, cast

import pytest

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.app import serve
from k8sbench.model.errors import UsageError
from tests.unit.model.test_benchmark_object import an_object

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
        serve.plan_object(cast("Api", None), lambda _: None, (), benchmark)
    assert field in str(raised.value)
