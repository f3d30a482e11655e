"""The chart as a Helm release: commands, volume and operator."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.namespace import Namespace
from tests.harness.helm import CHART, RELEASE, Helm, Told, nested

OPERATOR = f"{RELEASE}-operator"
PATIENCE = ("--wait", f"--timeout={SECONDS:.0f}s")
_OURS = f"--selector=app.kubernetes.io/instance={RELEASE}"
_KINDS = (
    "serviceaccounts,roles,rolebindings,configmaps,services,deployments,cronjobs,networkpolicies,"
    "persistentvolumeclaims"
)


class Release:
    """The chart in a namespace."""

    def __init__(self, helm: Helm, namespace: Namespace) -> None:
        self.helm, self.namespace = helm, namespace

    def run(self, verb: str, *words: str | Path, values: Mapping[str, Any] | None = None) -> Told:
        """Run a command of Helm's on it."""
        given: tuple[str | Path, ...] = ()
        if values is not None:
            given = (CHART, *self.helm.given(values))
        where = f"--namespace={self.namespace.name}"
        return self.helm.run(verb, RELEASE, *given, where, *words)

    def objects(self) -> set[str]:
        """Return what of it is in the namespace, as kind and name."""
        return set(self.namespace.kubectl("get", _KINDS, _OURS, "--output=name").split())

    def configuration(self) -> dict[str, str]:
        """Return what it sets for the operator."""
        return configuration(self.namespace)

    def pod(self) -> dict[str, Any]:
        """Return the pod of the operator, when its Deployment has it ready."""
        self.namespace.kubectl("rollout", "status", f"deployment/{OPERATOR}")
        (found,) = self.namespace.get("pods", selector="app.kubernetes.io/component=operator")
        assert isinstance(found, dict)
        return found


def configuration(namespace: Namespace) -> dict[str, str]:
    """Return k8sbench's variables of the operator in a namespace, without what Secrets have."""
    pod = namespace.get("deployment", OPERATOR)["spec"]["template"]["spec"]
    given = pod["containers"][0]["env"]
    return {
        each["name"]: each["value"]
        for each in given
        if "value" in each and each["name"].startswith("K8SBENCH_")
    }


@contextlib.contextmanager
def volume(cluster: Cluster, name: str, path: Path | str) -> Iterator[dict[str, Any]]:
    """Create a volume for the store in a node folder; yield its values."""
    by_hand = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    disk = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "hostPath": {"path": str(path)},
        },
    }
    cluster.create(by_hand, disk)
    try:
        yield nested("operator.persistence.storageClass", name)
    finally:
        for what in ("persistentvolume", "storageclass"):
            cluster.kubectl("delete", what, name, "--wait=false")
