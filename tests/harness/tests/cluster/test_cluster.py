"""The test cluster does what a real one does, as far as later tests rely on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import audit, following, pod_logs, tools
from tests.harness.cluster.cluster import Cluster, KubectlFailed
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, GPUS, RUN_FOR, log_text
from tests.harness.cluster.own import OwnCluster

NO_NODE = "--field-selector=reason=FailedScheduling"


def says(words: str) -> Callable[[dict[str, Any]], bool]:
    """Make a condition: whether these words are in an event's message."""
    return lambda event: words in event["message"]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


def test_it_is_the_kubernetes_that_is_pinned(own_cluster: OwnCluster) -> None:
    found = json.loads(own_cluster.kubectl("version", "--output=json"))
    versions = {found["clientVersion"]["gitVersion"], found["serverVersion"]["gitVersion"]}
    assert versions == {f"v{tools.KUBERNETES}"}


def test_its_components_stay_ready(own_cluster: OwnCluster) -> None:
    own_cluster.wait_for(*own_cluster.components)
    running = {state.name for state in own_cluster.processes.list() if state.is_running}
    assert running == set(own_cluster.components)


def test_it_has_nodes_with_eight_tainted_v100s(own_cluster: OwnCluster) -> None:
    nodes = own_cluster.get("nodes", "--selector=nvidia.com/gpu.product=Tesla-V100-SXM2-32GB")
    assert len(nodes) >= 2
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(GPUS)
        assert node["spec"]["taints"] == [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        ]


def test_a_job_on_gpus_runs_to_its_end_with_what_the_operator_injects(
    namespace: Namespace,
) -> None:
    namespace.create(pytorch_job(workers=3, gpus=GPUS, run_for=None, nprocPerNode=str(GPUS)))
    pods = namespace.wait_for_pods(4)
    ranks = {name: variables(pod)["RANK"] for name, pod in pods.items()}
    assert ranks == {"job-master-0": "0", **{f"job-worker-{n}": str(n + 1) for n in range(3)}}
    common = {
        "MASTER_ADDR": "job-master-0",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "32",
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "8",
    }
    for pod in pods.values():
        assert common.items() <= variables(pod).items()
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == len(pods)
    namespace.kubectl("annotate", "pods", "--all", f"{RUN_FOR}=0s")
    namespace.wait("condition=Succeeded", "pytorchjob/job")


def test_a_job_that_fits_on_no_node_stays_pending(namespace: Namespace) -> None:
    namespace.create(pytorch_job(workers=0, gpus=GPUS + 1))
    namespace.until(says("Insufficient nvidia.com/gpu"), "events", NO_NODE)


def test_a_pod_that_does_not_tolerate_the_taint_gets_no_node(namespace: Namespace) -> None:
    namespace.create(pytorch_job(workers=0, gpus=1, pod={"tolerations": []}))
    namespace.until(says("untolerated taint"), "events", NO_NODE)


def test_one_replica_can_be_made_to_fail(namespace: Namespace) -> None:
    reported = {f"{EXIT_CODE}.worker-1": "137"}
    namespace.create(pytorch_job(workers=2, run_for=None, annotations=reported, gpus=1))
    namespace.wait_for_pods(3)
    namespace.kubectl("annotate", "pods", "--all", f"{RUN_FOR}.worker-1=0s")
    namespace.wait("condition=Failed", "pytorchjob/job")
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in namespace.get("pods")}
    assert phases == {
        "job-master-0": "Running",
        "job-worker-0": "Running",
        "job-worker-1": "Failed",
    }
    (status,) = namespace.get("pod", "job-worker-1")["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_kind_of_replica_can_be_made_to_go_on(namespace: Namespace) -> None:
    reported = {f"{RUN_FOR}.worker": "1h"}
    namespace.create(pytorch_job(workers=2, run_for=None, annotations=reported, gpus=1))
    namespace.wait_for_pods(3)
    namespace.kubectl("annotate", "pods", "--all", f"{RUN_FOR}=0s")
    namespace.wait("condition=Succeeded", "pytorchjob/job")
    running = namespace.get("pods", "--field-selector=status.phase=Running")
    assert {pod["metadata"]["name"] for pod in running} == {"job-worker-0", "job-worker-1"}


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (
            {"containers": [{"name": "other", "image": "x"}]},
            "must have at least one container with name pytorch",
        ),
        ({"containers": [{"name": "pytorch"}]}, "image: Required value"),
    ],
)
def test_the_operator_s_webhook_denies_a_job_that_is_wrong(
    namespace: Namespace, broken: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(KubectlFailed, match="denied the request") as refused:
        namespace.create(pytorch_job(pod=broken))
    assert "validator.pytorchjob.training-operator.kubeflow.org" in str(refused.value)
    assert sentence in str(refused.value)


def test_the_api_server_refuses_a_field_that_it_does_not_know(namespace: Namespace) -> None:
    with pytest.raises(KubectlFailed, match=r'unknown field "spec.nprocPerNodes"'):
        namespace.create(pytorch_job(nprocPerNodes="8"))


def test_pods_that_a_namespace_s_standard_forbids_are_not_created(restricted: Namespace) -> None:
    restricted.create(pytorch_job(workers=0))
    event = restricted.until(
        lambda event: event["reason"] == "FailedCreatePod",
        "events",
        "--field-selector=reason=FailedCreatePod",
    )
    assert 'violates PodSecurity "restricted:latest"' in event["message"]


def test_a_fake_pod_has_logs(namespace: Namespace) -> None:
    namespace.create(pytorch_job(workers=0, gpus=1, run_for=None))
    namespace.wait_for_pods(1)
    assert namespace.kubectl("logs", "job-master-0").startswith("a fake pod")


def test_a_pod_s_log_can_be_written_while_it_is_followed(
    own_cluster: OwnCluster, namespace: Namespace, tmp_path: Path
) -> None:
    file = tmp_path / "pod.log"
    file.write_text(log_text(["first"]))
    pod_logs.serve(namespace, {"job-master-0": file})
    namespace.create(pytorch_job(workers=0, gpus=1, run_for=None))
    namespace.wait_for_pods(1)
    with own_cluster.lines("--namespace", namespace.name, "logs", "-f", "job-master-0") as lines:
        assert next(lines) == "first\n"
        with file.open("a") as more:
            more.write(log_text(["second"]))
        assert next(lines) == "second\n"


def test_the_audit_log_tells_who_asked_what(own_cluster: OwnCluster, namespace: Namespace) -> None:
    def own_lists(request: dict[str, Any]) -> bool:
        what = request.get("objectRef", {})
        return (request["verb"], what.get("resource"), what.get("namespace")) == (
            "list",
            "pods",
            namespace.name,
        )

    namespace.get("pods")
    log = own_cluster.layout.audit_log
    following.until(lambda: any(map(own_lists, audit.requests(log))))
    # Who shows a token that has expired is nobody.
    users = {request["user"].get("username", "") for request in audit.requests(log)}
    assert "admin" in users
    # None of a component: those are many.
    assert not {user for user in users if user.startswith(("k8sbench:", "system:kube-"))}


def test_each_test_has_a_namespace_of_its_own_and_leaves_none(
    cluster: Cluster, new_namespace: Callable[..., Namespace]
) -> None:
    one, other = new_namespace(), new_namespace()
    assert one.name != other.name
    one.delete()
    left = cluster.get("namespaces")
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in left}
    assert phases.get(one.name, "Terminating") == "Terminating"
    assert phases[other.name] == "Active"


def test_a_component_may_be_killed_and_come_back(
    own_cluster: OwnCluster, namespace: Namespace
) -> None:
    with own_cluster.without("training-operator"):
        with pytest.raises(KubectlFailed, match="failed calling webhook"):
            namespace.create(pytorch_job())
        with (
            own_cluster.without("kube-apiserver"),
            pytest.raises(KubectlFailed, match="was refused"),
        ):
            namespace.get("pods")
    namespace.create(pytorch_job(gpus=1))
    namespace.wait("condition=Succeeded", "pytorchjob/job")


def test_a_frozen_api_server_lets_its_clients_wait(
    own_cluster: OwnCluster, namespace: Namespace
) -> None:
    with own_cluster.frozen("kube-apiserver"):
        assert not own_cluster.is_ready("kube-apiserver")
        with pytest.raises(KubectlFailed, match=r"Client\.Timeout|context deadline exceeded"):
            namespace.kubectl("get", "pods", "--request-timeout=500ms")
    assert namespace.get("pods") == []
