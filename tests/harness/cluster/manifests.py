"""Small objects that tests create, and a policy that refuses others."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.cluster.namespace import Namespace


def claim(name: str, mode: str = "ReadWriteOnce", storage_class: str = "") -> dict[str, Any]:
    spec = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    return {**head, "spec": spec}


def pod(name: str, *containers: dict[str, Any], labels: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return {**head, "spec": {"containers": [*containers], **spec}}


def service(name: str, port: dict[str, Any], labels: Mapping[str, str], **spec: Any) -> Any:
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels}}
    return {**head, "spec": {"ports": [port], **spec}}


def limit(namespace: Namespace, hard: dict[str, str], name: str = "few") -> None:
    """Create a quota, and wait until it is enforced."""
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}}
    namespace.create({**head, "spec": {"hard": hard}})

    namespace.until(
        lambda quota: hard.keys() <= {*quota.get("status", {}).get("used", {})},
        f"resourcequota/{name}",
    )


@contextlib.contextmanager
def refusing(
    namespace: Namespace, operation: str, resource: str, expression: str, message: str
) -> Iterator[None]:
    """Apply a policy that rejects an operation on jobs unless an expression holds.

    Waits until the API server enforces it, and at the end no longer does. Kubernetes serves such
    policies from 1.30 on.
    """
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": [operation]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}
    specs: dict[str, dict[str, Any]] = {
        "ValidatingAdmissionPolicy": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": [resource]}]},
            "validations": [{"expression": expression, "message": message}],
        },
        "ValidatingAdmissionPolicyBinding": {
            "policyName": namespace.name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": namespace.name}}
    namespace.cluster.create(*({**head, "kind": kind, "spec": specs[kind]} for kind in specs))
    try:
        yield
    finally:
        namespace.cluster.kubectl("delete", ",".join(specs).lower(), namespace.name)
