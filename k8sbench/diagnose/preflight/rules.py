"""What k8sbench needs to be allowed: the rules file, as single permissions to ask about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

HELPFUL = {"namespaces", "resourcequotas", "persistentvolumeclaims", "localqueues", "workloads"}
"""Resources of the Role that a run can do without: the preflight and diagnoses read them."""


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/log``."""
    namespaced: bool
    """From the Role; else from the ClusterRole."""

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
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


def permissions(roles: Iterable[Mapping[str, Any]]) -> Iterator[Permission]:
    """Every permission of a Role and a ClusterRole, in their order."""
    for document in roles:
        for rule in document["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield Permission(
                            verb=verb,
                            group=group,
                            resource=resource,
                            namespaced=document["kind"] == "Role",
                        )
