"""Causes of waiting and failed jobs, from real components.

The components are the scheduler, API server and operator. ``tests/unit/kubernetes`` covers every
cause with small objects, and the node tier shows ended pods and containers on kubelets.
"""

from typing import Any, NamedTuple

from k8sbench.model.phase import Phase
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import GPUS
from tests.harness.cluster.readings import Follower, node_of_its_own, on_node, plan_of
from tests.harness.cluster.shell import Shell

RESOURCE = "nvidia.com/gpu"
PRODUCT = {"nvidia.com/gpu.product": "A100"}
"""A label that no node has."""


def follow(namespace: Namespace, job: dict[str, Any]) -> Follower:
    """Create a job and follow it."""
    namespace.create(job)
    return Follower(namespace, plan_of(job))


# --- jobs that do not run ------------------------------------------------------------------------


class Waiting(NamedTuple):
    """A job that does not run, and what is read of it."""

    job: dict[str, Any]
    cause_id: str
    """With ``!`` where it is unrecoverable."""
    words: str


def job_of(name: str, gpus: int = 1, **pod: Any) -> dict[str, Any]:
    return pytorch_job(name, workers=0, gpus=gpus, pod=pod)


def wrong_policy() -> dict[str, Any]:
    """A job whose workers have a policy that the operator's webhook lets pass."""
    job = pytorch_job("policy", gpus=1, run_for=None)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Foo"
    return job


MANY = GPUS + 1
WAITING = (
    Waiting(job_of("label", nodeSelector=PRODUCT), "no-matching-node!", "gpu.product=A100"),
    Waiting(job_of("large", MANY), "no-node-fits", f"{MANY} {RESOURCE}"),
    Waiting(job_of("taint", tolerations=[]), "taint-not-tolerated", f"{RESOURCE}: present"),
    Waiting(job_of("priority", priorityClassName="nosuch"), "admission-denied", "name nosuch"),
    Waiting(wrong_policy(), "admission-denied!", 'Unsupported value: "Foo"'),
)


def test_a_job_that_the_cluster_does_not_run_has_its_cause(namespace: Namespace) -> None:
    followers = [follow(namespace, one.job) for one in WAITING]
    for one, follower in zip(WAITING, followers, strict=True):
        reading = follower.until_cause(one.cause_id.rstrip("!"))
        assert reading.unrecoverable == one.cause_id.endswith("!"), one
        assert one.words in reading.cause


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


def test_a_run_that_holds_half_of_its_nodes_says_so(cluster: Cluster, own_shell: Shell) -> None:
    namespace, label = own_shell.namespace, own_shell.namespace.name[-6:]
    own_shell.pools.write_text(own_shell.pools.read_text() + PAIR.format(label=label))

    with (
        node_of_its_own(cluster, f"one-{label}") as one,
        node_of_its_own(cluster, f"two-{label}") as two,
    ):
        cluster.kubectl("label", "node", one, two, f"test/pair={label}")
        # On the second node is no room for a replica.
        other = pytorch_job("other", workers=0, gpus=1, run_for=None, pod=on_node(two))
        namespace.create(other)
        namespace.wait_for_pods(1)
        namespace.until(lambda pod: "nodeName" in pod["spec"], "pods")
        with own_shell.submitted("a", "--node-pool=pair", "--gpus=8") as first:
            first.until("held by")
            last = own_shell.json("status", "a")["history"][-1]
            assert last["cause_id"] == "half-placed"
            own_shell.run("cancel", "a")
            first.ends(3)


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
