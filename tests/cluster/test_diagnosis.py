"""Why a job does not run: the real cause, on the real scheduler, API server and operator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from k8sbench.model.phase import Phase
from k8sbench.model.pool import Toleration
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.manifests import limit
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import GPUS
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.readings import Follower, node_of_its_own, on_node, plan_of
from tests.harness.cluster.shell import Shell, until
from tests.unit.render import plans

RESOURCE = "nvidia.com/gpu"
PRODUCT = {"nvidia.com/gpu.product": "A100"}
"""A label that no node has."""


def follow(namespace: Namespace, job: dict[str, Any], **how: Any) -> Follower:
    """Create a job and follow it."""
    namespace.create(job)
    return Follower(namespace, plan_of(job), **how)


def restart_policy(policy: str) -> dict[str, Any]:
    """A job whose workers have this policy, which the operator's webhook lets pass."""
    job = pytorch_job(gpus=1, run_for=None)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    return job


def using(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


# --- no node -------------------------------------------------------------------------------------


def job_of(**pod: Any) -> dict[str, Any]:
    return pytorch_job(workers=0, gpus=1, pod=pod)


@pytest.mark.parametrize(
    ("job", "nodes", "cause_id", "words"),
    [
        (job_of(nodeSelector=PRODUCT), True, "no-matching-node!", "Tesla-V100-SXM2-32GB"),
        (pytorch_job(workers=0, gpus=GPUS + 1), True, "request-too-large!", f"has {GPUS}"),
        (pytorch_job(workers=0, gpus=GPUS + 1), False, "no-node-fits", f"{GPUS + 1} {RESOURCE}"),
        (job_of(tolerations=[]), True, "taint-not-tolerated", f"{RESOURCE}: present"),
        (job_of(priorityClassName="nosuch"), True, "admission-denied", "with name nosuch"),
        (restart_policy("Foo"), True, "admission-denied!", 'Unsupported value: "Foo"'),
    ],
    ids=["label", "too-large", "too-large-unread", "taint", "priority", "restart-policy"],
)
def test_a_job_that_the_cluster_does_not_run_has_its_cause(
    namespace: Namespace, job: dict[str, Any], *, nodes: bool, cause_id: str, words: str
) -> None:
    reading = follow(namespace, job, nodes=nodes).until_cause(cause_id.rstrip("!"))
    assert reading.unrecoverable == cause_id.endswith("!")
    assert words in reading.cause


def test_a_node_that_is_cordoned_is_said_to_be_closed(
    cluster: Cluster, namespace: Namespace
) -> None:
    with node_of_its_own(cluster, "closed-0") as name:
        cluster.kubectl("cordon", name)
        job = pytorch_job(workers=0, gpus=1, pod=on_node(name))
        reading = follow(namespace, job).until_cause("nodes-not-ready")
        assert not reading.unrecoverable


def test_a_claim_that_does_not_exist_becomes_unrecoverable_after_half_a_minute(
    namespace: Namespace,
) -> None:
    follower = follow(namespace, pytorch_job(workers=0, gpus=1, pod=using("nosuch")))
    reading = follower.until_cause("volume-not-bound")
    assert not reading.unrecoverable
    assert reading.look_again_s is not None
    assert "the claim nosuch" in reading.cause
    follower.later = reading.look_again_s
    assert follower.read().unrecoverable


# --- parts of jobs -------------------------------------------------------------------------------


@pytest.fixture
def half_full(cluster: Cluster, namespace: Namespace) -> Iterator[str]:
    """Give a node on which half of the GPUs are free, and stay so."""
    with node_of_its_own(cluster, f"half-{namespace.name[-6:]}") as name:
        first = pytorch_job("first", workers=0, gpus=GPUS // 2, run_for=None, pod=on_node(name))
        namespace.create(first)
        namespace.wait_for_pods(1)
        yield name


def torn(name: str, node: str, *, master: int) -> dict[str, Any]:
    """Make a job whose master fits beside others on a node that is half full, its worker not."""
    job = pytorch_job(name, workers=1, gpus=master, run_for=None, pod=on_node(node))
    roles = job["spec"]["pytorchReplicaSpecs"]
    worker = json.loads(json.dumps(roles["Worker"]))
    limits = {"limits": {RESOURCE: GPUS // 2 + 1}}
    worker["template"]["spec"]["containers"][0]["resources"] = limits
    roles["Worker"] = worker
    return job


def test_a_job_that_is_placed_in_part_is_not_running(namespace: Namespace, half_full: str) -> None:
    follower = follow(namespace, torn("job", half_full, master=4))
    namespace.wait("condition=Running", "pytorchjob/job")
    # The operator calls it running as soon as its master is.
    reading = follower.until_cause("half-placed")
    assert reading.phase is Phase.PENDING
    assert f"4 {RESOURCE}, held by master-0" in reading.cause


PAIR = """
  - name: pair
    gpus_per_node: 8
    gpu_model: Tesla V100-SXM2-32GB
    selector: {{test/pair: "{label}"}}
    tolerations: [{{key: test, operator: Exists}}]
    cpu_per_gpu: "1"
    memory_per_gpu: 1Gi
    shm: 64Mi
"""


def test_two_runs_that_each_hold_half_of_what_they_need_are_named_to_both(
    cluster: Cluster, own_shell: Shell
) -> None:
    namespace, label = own_shell.namespace, own_shell.namespace.name[-6:]
    reader = "adapters__kubernetes__watching__job_reader"
    own_shell.limits = {
        f"{reader}__QUEUE_SECONDS": 1.0,
        "diagnose__job__waiting__LOOK_SECONDS": 1.0,
    }
    own_shell.pools.write_text(own_shell.pools.read_text() + PAIR.format(label=label))

    def waits_as(run_id: str, cause_id: str) -> Callable[[], bool]:
        return lambda: own_shell.json("status", run_id)["history"][-1]["cause_id"] == cause_id

    with (
        node_of_its_own(cluster, f"one-{label}") as one,
        node_of_its_own(cluster, f"two-{label}") as two,
    ):
        cluster.kubectl("label", "node", one, two, f"test/pair={label}")
        # On the second node is room for a replica of the second run alone.
        other = pytorch_job("other", workers=0, gpus=1, run_for=None, pod=on_node(two))
        namespace.create(other)
        namespace.wait_for_pods(1)
        namespace.until(lambda pod: "nodeName" in pod["spec"], "pods")
        with own_shell.submitted("a", "--node-pool=pair", "--gpus=8") as first:
            first.until("held by")
            with own_shell.submitted("b", "--node-pool=pair", "--gpus=5") as second:
                first.until("with b: each waits")
                second.until("with a: each waits")
                assert all(waits_as(run_id, "deadlock")() for run_id in "ab")
                own_shell.run("cancel", "b")
                second.ends(3)
            until(waits_as("a", "half-placed"), "a to wait alone")
            own_shell.run("cancel", "a")
            first.ends(3)


def test_only_packed_replicas_share_the_one_node_that_there_is(
    cluster: Cluster, own_shell: Shell
) -> None:
    label = own_shell.namespace.name[-6:]
    own_shell.pools.write_text(own_shell.pools.read_text() + PAIR.format(label=label))
    with node_of_its_own(cluster, f"one-{label}") as one:
        cluster.kubectl("label", "node", one, f"test/pair={label}")
        with own_shell.submitted("apart", "--node-pool=pair", "--gpus=1") as apart:
            apart.until("another replica of the run on 1 of")
            last = own_shell.json("status", "apart")["history"][-1]
            assert last["cause_id"] == "too-few-nodes"
            own_shell.run("cancel", "apart")
            apart.ends(3)
        with own_shell.submitted("packed", "--node-pool=pair", "--gpus=1", "--pack") as packed:
            packed.until("Running: All 2 replicas run.")
            own_shell.run("cancel", "packed")
            packed.ends(3)


# --- no pods -------------------------------------------------------------------------------------


def test_a_quota_that_others_use_may_become_free(namespace: Namespace) -> None:
    limit(namespace, {f"requests.{RESOURCE}": "12"})
    namespace.create(pytorch_job("others", workers=0, gpus=4, run_for=None))
    namespace.wait_for_pods(1)
    follower = follow(namespace, pytorch_job(workers=2, gpus=4, run_for=None))
    reading = follower.until_cause("quota-exceeded")
    assert not reading.unrecoverable
    assert f"requests.{RESOURCE} 12, of which 12 used, and 4 more" in reading.cause
    namespace.kubectl("delete", "pytorchjob", "others", "--wait=false")
    assert follower.until_cause(None).phase is not Phase.FAILED


def test_pod_security_names_the_level_the_checks_and_the_container(restricted: Namespace) -> None:
    reading = follow(restricted, pytorch_job(workers=0)).until_cause("pod-security")
    assert reading.unrecoverable
    assert re.search("restricted:latest: 'allowPrivilegeEscalation .*pytorch", reading.cause)


def test_a_job_that_someone_holds_says_how_to_let_it_go(namespace: Namespace) -> None:
    job = pytorch_job(gpus=1)
    job["spec"]["runPolicy"]["suspend"] = True
    follower = follow(namespace, job)
    reading = follower.until_cause("suspended")
    assert reading.phase is Phase.QUEUED
    (command,) = [part for part in str(reading.action).split("'") if part.startswith("kubectl")]
    _, _, _, *words = command.split(" ")
    namespace.kubectl(*words)
    assert follower.until_final().phase is Phase.SUCCEEDED


# --- the operator --------------------------------------------------------------------------------


@pytest.fixture
def operator(own_cluster: OwnCluster) -> Iterator[Callable[..., None]]:
    """Start the operator anew with other flags; afterwards it is as before."""

    def start(*flags: str) -> None:
        own_cluster.stop("training-operator")
        own_cluster.start("training-operator", *flags)
        own_cluster.wait_for("training-operator")

    yield start
    start()


def test_the_operator_s_init_container_is_reported_where_a_namespace_forbids_it(
    operator: Callable[..., None], restricted: Namespace
) -> None:
    operator("--pytorch-init-container-template-file=/nonexistent")
    tolerations = (Toleration(key=RESOURCE, operator="Exists"),)
    plan = plans.plan("2x1", run_id="job", pool=plans.pool(tolerations=tolerations))
    restricted.create(*plans.rendered(plan))
    follower = Follower(restricted, plan)
    reading = follower.until_cause("operator-init-not-restricted")
    assert reading.unrecoverable
    assert "worker-0" in reading.cause
    # The master runs, and waits for ever.
    assert reading.phase is Phase.PENDING
    operator()
    assert follower.until(lambda reading: reading.phase is Phase.RUNNING).cause_id is None
