"""The test cluster is the pinned Kubernetes, all of it is up, and it runs a job."""

from __future__ import annotations

import json

from tests.harness.cluster import tools
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import GPUS
from tests.harness.cluster.own import OwnCluster


def test_it_is_the_kubernetes_that_is_pinned_and_all_of_it_is_ready(
    own_cluster: OwnCluster,
) -> None:
    found = json.loads(own_cluster.kubectl("version", "--output=json"))
    versions = {found["clientVersion"]["gitVersion"], found["serverVersion"]["gitVersion"]}
    assert versions == {f"v{tools.KUBERNETES}"}
    own_cluster.wait_for(*own_cluster.components)


def test_a_job_on_gpus_runs_to_its_end(namespace: Namespace) -> None:
    namespace.create(pytorch_job(workers=1, gpus=GPUS, run_for="1s", nprocPerNode=str(GPUS)))
    namespace.wait("condition=Succeeded", "pytorchjob/job")
