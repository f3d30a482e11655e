"""The permissions that k8sbench needs, one by one, as its Role and ClusterRole state them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from k8sbench.model.kube import KubeObject

HELPFUL = {
    *("namespaces", "resourcequotas", "limitranges", "persistentvolumeclaims"),
    *("localqueues", "workloads", "services", "services/proxy", "jobs"),
}
"""Resources of the Role that a run can do without: the preflight and diagnoses read them, and data
sets are prepared by Jobs."""


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/log``."""
    namespaced: bool
    """From the Role; else from the ClusterRole."""
    name: str = ""
    """Of the only object that it is for; empty: any."""

    @property
    def what(self) -> str:
        """The resource as kubectl names it."""
        resource, slash, sub = self.resource.partition("/")
        return f"{resource}{'.' * bool(self.group)}{self.group}{slash}{sub}"

    @property
    def needed(self) -> bool:
        """Whether no run can do without."""
        return self.namespaced and self.resource not in HELPFUL

    def review(self, namespace: str) -> dict[str, object]:
        """The question whether we have it, as the API server understands it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource}
        if subresource:
            attributes["subresource"] = subresource
        if self.namespaced:
            attributes["namespace"] = namespace
        if self.name:
            attributes["name"] = self.name
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


def permissions(roles: Iterable[KubeObject]) -> Iterator[Permission]:
    """Yield every permission of a Role or ClusterRole, in their order."""
    for role in roles:
        for rule in role["rules"]:
            names = rule.get("resourceNames") or [""]
            for group, resource, verb, name in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], names
            ):
                yield Permission(
                    verb=verb,
                    group=group,
                    resource=resource,
                    namespaced=role["kind"] == "Role",
                    name=name,
                )
