"""A namespace of a test's own, and what can be done in it."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from k8sbench.model.phase import Phase
from tests.harness.cluster import users
from tests.harness.cluster.cluster import Cluster, KubectlFailed
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.nodes import RUN_FOR

ENFORCED = "pod-security.kubernetes.io/enforce"
_AT_ONCE = ("--wait=false", "--ignore-not-found")


class Namespace:
    """One namespace of a cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    @classmethod
    def make(cls, cluster: Cluster, title: str, labels: dict[str, str] | None = None) -> Namespace:
        """Make one, named after its purpose and ready for pods."""
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
        made = cls(cluster, f"{slug}-{secrets.token_hex(3)}")
        metadata = {"name": made.name, "labels": labels or {}}
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        # No pod is admitted before its service account is there. It also tells that the controllers
        # are at work again where the API server was killed before.
        made.wait("create", "serviceaccount/default")
        return made

    def delete(self) -> None:
        """Delete it, without waiting for the end."""
        # Jobs first: as long as it knows them, the operator goes on creating their pods in vain.
        with contextlib.suppress(KubectlFailed):  # a test may have taken a type away
            self.kubectl("delete", self.cluster.job_kinds, "--all", *_AT_ONCE)
        self.cluster.kubectl("delete", "namespace", self.name, *_AT_ONCE)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run kubectl in the namespace."""
        return self.cluster.kubectl("--namespace", self.name, *words, given=given)

    def get(self, kinds: str, name: str | None = None, *, selector: str = "") -> Any:
        """Get an object, or the list of them."""
        return self.cluster.get(kinds, name, namespace=self.name, selector=selector)

    def create(self, *wanted: dict[str, Any]) -> None:
        """Create objects, as strictly as the API server can."""
        self.cluster.create(*wanted, namespace=self.name)

    def wait(self, condition: str, *what: str) -> None:
        """Wait for something, as ``kubectl wait --for`` understands it."""
        words = ("wait", f"--for={condition}", *what, f"--timeout={SECONDS:.0f}s")
        try:
            self.kubectl(*words)
        except KubectlFailed as wrong:
            # Its complaint of an object whose conditions nobody has written yet.
            if "conditions accessor error" not in str(wrong):
                raise
            self.until(lambda thing: bool(_conditions(thing)), *what)
            self.kubectl(*words)

    def until(self, seen: Callable[[dict[str, Any]], bool], *what: str) -> dict[str, Any]:
        """Watch objects until one satisfies a condition, and return it."""
        with contextlib.closing(self.cluster.watch("--namespace", self.name, *what)) as items:
            for item in items:
                if seen(item):
                    return item
        raise TimeoutError(f"not seen of {' '.join(what)} in {SECONDS:.0f} s")

    def wait_for_pods(self, count: int, *selecting: str) -> dict[str, dict[str, Any]]:
        """Wait until so many pods are ready, and return them by name."""
        ready: dict[str, dict[str, Any]] = {}

        def enough(pod: dict[str, Any]) -> bool:
            if has_condition("Ready")(pod):
                ready[pod["metadata"]["name"]] = pod
            return len(ready) >= count

        self.until(enough, "pods", *selecting)
        return ready

    def finish(self, run_id: str) -> None:
        """Release the fake pods of a run, which then succeed."""
        named = self.kubectl(
            "annotate",
            "pods",
            f"--selector=k8sbench.io/run={run_id}",
            f"{RUN_FOR}=0s",
            "--output=name",
        )
        assert named, f"there is no pod of {run_id} in {self.name}"  # kubectl is content with none

    def job(self, run_id: str) -> str:
        """Name the job of a run, as kubectl takes it."""
        return f"{self.cluster.kind.singular}/{run_id}"

    def wait_for_success(self, run_id: str) -> None:
        """Wait until a run's job says that it has succeeded."""
        conditions = {phase: name for name, phase in self.cluster.kind.conditions}
        self.wait(f"condition={conditions[Phase.SUCCEEDED]}", self.job(run_id))

    def create_again(self, job: dict[str, Any], name: str | None = None) -> str:
        """Create a copy of a job, perhaps renamed; return its uid."""
        metadata = {key: job["metadata"][key] for key in ("name", "labels", "annotations")}
        kept = {key: job[key] for key in ("apiVersion", "kind", "spec")}
        self.create({**kept, "metadata": {**metadata, "name": name or metadata["name"]}})
        return str(self.get(job["kind"].lower(), name or metadata["name"])["metadata"]["uid"])

    def user(self, folder: Path, name: str = "user", *, sees_nodes: bool = True) -> Path:
        """Make a user with the permissions of role.yaml; returns its kubeconfig."""
        return users.make(self, folder, name, sees_nodes=sees_nodes)

    def describe(self) -> str:
        """Show pods, jobs and events, to find out why a test failed."""
        kinds = f"pods,{self.cluster.job_kinds}"
        sorting = ("--sort-by=.metadata.creationTimestamp", "--no-headers")
        found = self.kubectl("get", kinds, "--output=wide")
        return f"{found}\n{self.kubectl('get', 'events', *sorting)}"


def has_condition(wanted: str) -> Callable[[dict[str, Any]], bool]:
    """Make a condition: whether a condition of an object is true."""
    return lambda thing: any(
        one["type"] == wanted and one["status"] == "True" for one in _conditions(thing)
    )


def _conditions(thing: dict[str, Any]) -> list[dict[str, Any]]:
    return thing.get("status", {}).get("conditions") or []


def events_of(namespace: Namespace, reason: str) -> list[str]:
    """Return the messages of the events of a reason."""
    return [event["message"] for event in namespace.get("events") if event["reason"] == reason]
