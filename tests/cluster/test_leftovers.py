"""What k8sbench has made on a cluster goes with its run, whatever came between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.errors import UsageError
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


def test_a_configmap_that_was_made_for_a_job_whose_name_is_taken_is_taken_back(
    port: Port, namespace: Namespace
) -> None:
    plan = following.plan("1x1")
    _, job = following.objects(plan)
    del job["metadata"]["labels"]
    namespace.create(job)
    with pytest.raises(UsageError, match="is not k8sbench's"):
        port.submit(plan)
    assert not has_configmap(namespace, plan.run_id)


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
