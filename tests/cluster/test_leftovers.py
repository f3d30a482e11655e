"""What k8sbench has made on a cluster goes with its run, whatever came between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.following import Port
from tests.harness.cluster.namespace import Namespace


@pytest.fixture
def port(user: Path) -> Iterator[Port]:
    with following.opened(user, end_s=1.0) as opened:
        yield opened


def has_configmap(namespace: Namespace, name: str) -> bool:
    return f"configmap/{name}" in namespace.kubectl("get", "configmaps", "--output=name").split()


def test_a_configmap_that_its_job_was_not_given_goes_with_it(
    port: Port, namespace: Namespace
) -> None:
    """Whoever created both was killed between."""
    plan = following.plan("1x1")
    config_map, job = following.objects(plan)
    namespace.create(config_map, job)
    port.resume(plan)
    assert port.end_of(plan).phase is Phase.SUCCEEDED
    assert port.cluster.remove(plan.run_id) is None
    assert not has_configmap(namespace, plan.run_id)
