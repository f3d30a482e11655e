"""A run whose pods are not its job's any more comes to an end, too."""

from __future__ import annotations

import json
from pathlib import Path

from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster


def test_a_run_ends_though_the_pod_that_replaced_one_of_its_own_never_starts(
    own_cluster: OwnCluster, namespace: Namespace, user: Path
) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan("1x1"), None)
        port.until(lambda port: port.lines(plan))
        nowhere = {"spec": {"nodeSelector": {"no.such/label": "true"}}}
        change = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": nowhere}}}}
        patch = f"--patch={json.dumps(change)}"
        namespace.kubectl("patch", f"pytorchjob/{plan.run_id}", "--type=merge", patch)
        # Nobody looks meanwhile: that the pod was gone is not seen before there is another.
        (pod,) = namespace.get("pods")
        uid = pod["metadata"]["uid"]
        with own_cluster.without("training-operator"):
            namespace.kubectl("delete", "pods", "--all")
        namespace.until(lambda pod: bool(pod["metadata"]["uid"] != uid), "pods")
        port.cluster.cancel(plan.run_id, "Enough.", "asked")
        assert port.end_of(plan).phase is Phase.CANCELLED


def test_a_run_ends_whose_job_is_deleted_without_its_pods(namespace: Namespace, user: Path) -> None:
    with following.opened(user, end_s=1.0) as port:
        kind = namespace.cluster.kind
        plan = port.submit(following.plan("2x1", kind), None)
        last = kind.names(2)[-1]
        port.until(lambda port: last in {line.replica for line in port.lines(plan)})
        namespace.kubectl("delete", namespace.job(plan.run_id), "--cascade=orphan")
        end = port.end_of(plan)
    assert (end.phase, end.cause_id) == (Phase.LOST, "job-deleted")
    assert len(namespace.get("pods")) == 2
