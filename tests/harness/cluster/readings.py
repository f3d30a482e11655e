"""State of a job on a live cluster, by the product's functions."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.diagnose.job import facts, state
from k8sbench.diagnose.job.facts import DELETED
from k8sbench.model.plan import RunPlan
from tests.harness.cluster import nodes
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.namespace import Namespace, has_condition
from tests.unit.render.plans import plan

_LOOK_SECONDS = 0.15


def plan_of(job: Mapping[str, Any]) -> RunPlan:
    """Make the plan that a job of ``tests.harness.cluster.jobs`` would have come from."""
    roles = job["spec"]["pytorchReplicaSpecs"]
    count = sum(role["replicas"] for role in roles.values())
    made = plan(f"{count}x1", run_id=job["metadata"]["name"])
    (container,) = next(iter(roles.values()))["template"]["spec"]["containers"]
    limits = container.get("resources", {}).get("limits", {})
    gpus = int(limits.get(made.pool.gpu_resource, 0))
    return msgspec.structs.replace(made, image=container["image"], gpus_per_replica=gpus)


class Follower:
    """The snapshot of one job, kept as the product keeps it: deleted pods included."""

    def __init__(self, namespace: Namespace, plan: RunPlan) -> None:
        self.namespace = namespace
        self.plan = plan
        self.seen = state.JobSnapshot(job=None)

    def read(self) -> state.JobState:
        """Fetch everything again and read it."""
        self._fetch()
        return state.read(facts.look(self.seen, self.plan, time.time()), {})

    def until(self, wanted: Callable[[state.JobState], bool]) -> state.JobState:
        """Read until the state matches and return it, else raise the last one."""
        end = time.monotonic() + SECONDS
        while not wanted(reading := self.read()):
            if time.monotonic() > end:
                raise AssertionError(f"not in {SECONDS:.0f} s; last: {reading}")
            time.sleep(_LOOK_SECONDS)
        return reading

    def until_cause(self, cause_id: str | None) -> state.JobState:
        """Read until the diagnosis is this one."""
        return self.until(lambda reading: reading.cause_id == cause_id)

    def until_final(self) -> state.JobState:
        """Read until the job has ended."""
        return self.until(lambda reading: reading.phase.final)

    def _fetch(self) -> None:
        found = self.namespace.get("pytorchjobs,pods,events")
        jobs = [one for one in found if one["kind"] == "PyTorchJob"]
        job = next((one for one in jobs if one["metadata"]["name"] == self.plan.job_name), None)
        self.seen.deleted = job is None and self.seen.job is not None
        if job is not None:
            self.seen.job = kinds.trimmed_job(job)
        uid = (self.seen.job or {}).get("metadata", {}).get("uid")
        pods = (one["metadata"] | {"object": one} for one in found if one["kind"] == "Pod")
        self._keep(
            {
                pod["name"]: kinds.trimmed_pod(pod["object"])
                for pod in pods
                if any(owner["uid"] == uid for owner in pod.get("ownerReferences", ()))
            }
        )
        events = [one for one in found if one["kind"] == "Event"]
        events.sort(key=lambda one: one["metadata"]["creationTimestamp"])
        self.seen.events = [kinds.trimmed_event(one) for one in events]

    def _keep(self, pods: dict[str, Any]) -> None:
        before = self.seen.pods
        gone = {name: {**pod, DELETED: True} for name, pod in before.items() if name not in pods}
        replaced = [
            {**pod, DELETED: True}
            for name, pod in before.items()
            if name in pods and pods[name]["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        self.seen.earlier = [*self.seen.earlier, *replaced]
        self.seen.pods = {**gone, **pods}


@contextlib.contextmanager
def node_of_its_own(cluster: Cluster, name: str) -> Iterator[str]:
    """Add a node that only pods with its selector run on."""
    (node,) = nodes.fake_nodes(1)
    node["metadata"]["name"] = name
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name
    # No test that counts nodes of the pool finds it.
    del node["metadata"]["labels"]["nvidia.com/gpu.product"]
    node["spec"]["taints"] = [{"key": "test", "value": name, "effect": "NoSchedule"}]
    cluster.create(node)
    try:
        wait_for_nodes(cluster, name)
        yield name
    finally:
        cluster.kubectl("delete", "node", name, "--wait=false", "--ignore-not-found")


def wait_for_nodes(cluster: Cluster, *names: str) -> None:
    """Wait until nodes are ready, and take pods."""
    missing = {*names}

    def all_are(node: dict[str, Any]) -> bool:
        # The taint of a node that is not ready outlives that by a moment.
        taints = [taint["key"] for taint in node["spec"].get("taints", ())]
        closed = any(key.startswith("node.kubernetes.io/") for key in taints)
        if has_condition("Ready")(node) and not closed:
            missing.discard(node["metadata"]["name"])
        return not missing

    Namespace(cluster, "default").until(all_are, "nodes")


def on_node(name: str) -> dict[str, Any]:
    """Return the pod spec's fields for such a node."""
    return {
        "nodeSelector": {"kubernetes.io/hostname": name},
        "tolerations": [{"key": "test", "operator": "Exists"}],
    }
