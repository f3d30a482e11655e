"""Users of a cluster with exactly the permissions of ``role.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests import packaged
from tests.harness.cluster import kubeconfig
from tests.harness.cluster.cluster import KubectlFailed

if TYPE_CHECKING:
    from tests.harness.cluster.namespace import Namespace

LIFETIME = "3600s"


def make(
    namespace: Namespace, folder: Path, name: str, *, sees_nodes: bool, file: Path = packaged.ROLE
) -> Path:
    """Create a service account with those rules; return its kubeconfig."""
    rules: dict[str, list[Any]] = {}
    for one in yaml.safe_load_all(file.read_text()):
        rules.setdefault(one["kind"], []).extend(one["rules"])
    wanted: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        *_granted("Role", namespace, name, rules["Role"], {}),
    ]
    if sees_nodes:
        home = namespace.cluster.get("namespace", namespace.name)["metadata"]
        # Owned by the namespace: deleted with it.
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": home["name"], "uid": home["uid"]}
        metadata = {"ownerReferences": [owner]}
        wanted += _granted("ClusterRole", namespace, name, rules["ClusterRole"], metadata)
    namespace.create(*wanted)
    return sign_in(namespace, name, folder / f"{name}.kubeconfig")


def sign_in_new(namespace: Namespace, name: str, path: Path) -> Path:
    """Write a kubeconfig of a new service account without permissions."""
    namespace.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    return sign_in(namespace, name, path)


def sign_in(namespace: Namespace, name: str, path: Path) -> Path:
    """Write a kubeconfig that signs in as a service account."""
    token = namespace.kubectl("create", "token", name, f"--duration={LIFETIME}").strip()
    return write_kubeconfig(namespace, path, {"token": token})


def grant(namespace: Namespace, name: str, what: str, rules: list[Any]) -> None:
    """Give a user further permissions."""
    namespace.create(*_granted("Role", namespace, name, rules, {}, what=f"-{what}"))


def account(namespace: Namespace, name: str) -> str:
    """Return the name by which the API server knows a user."""
    return f"system:serviceaccount:{namespace.name}:{name}"


def may(namespace: Namespace, name: str, verb: str, resource: str) -> bool:
    """Return True if the API server currently allows a user's request."""
    who = f"--as={account(namespace, name)}"
    try:
        namespace.kubectl("auth", "can-i", verb, resource, who)
    except KubectlFailed:
        return False
    return True


def write_kubeconfig(namespace: Namespace, path: Path, user: dict[str, Any]) -> Path:
    """Write a kubeconfig for a user of the namespace's cluster, whose default it is."""
    return kubeconfig.write(path, namespace.cluster.entry["cluster"], user, namespace.name)


def _granted(
    kind: str,
    namespace: Namespace,
    name: str,
    rules: list[Any],
    metadata: dict[str, Any],
    *,
    what: str = "",
) -> list[dict[str, Any]]:
    title = f"{namespace.name}-{name}{what}"[-63:].lstrip("-")
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": title, **metadata}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
    reference = {"apiGroup": group, "kind": kind, "name": title}
    return [
        {**head, "kind": kind, "rules": rules},
        {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]},
    ]
