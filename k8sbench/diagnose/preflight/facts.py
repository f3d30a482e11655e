"""Answers of a cluster, as the checks of the preflight need them.

An answer that could not be obtained is Unknown, with the reason. None is an answer: there is no
such object.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import KubeObject, ServingOperator, labels_of
from k8sbench.model.operators import Operator
from k8sbench.model.plan import RunPlan

T = TypeVar("T")
ENFORCE = "pod-security.kubernetes.io/enforce"
"""Label of a namespace."""
LEVELS = ("privileged", "baseline", "restricted")
"""Pod Security Standards, the strictest last."""
HELPFUL = {
    *("namespaces", "resourcequotas", "persistentvolumeclaims"),
    *("localqueues", "workloads", "services/proxy", "jobs"),
}
"""Resources of the Role that runs do not need.

Preflight and diagnoses read them, and Jobs prepare data sets.
"""


class Unknown(Exception):
    """An answer that could not be obtained; a check that needs it raises it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        """The API server's message, without its full stop."""


def known(answer: T | Unknown) -> T:
    """Return an answer; raises :class:`Unknown`, which becomes the check's finding."""
    if isinstance(answer, Unknown):
        raise answer
    return answer


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/log``."""
    namespaced: bool
    """From the Role; else from the ClusterRole."""
    name: str = ""
    """Name of the only permitted object; empty: any."""

    @property
    def what(self) -> str:
        """The resource as kubectl names it."""
        resource, slash, sub = self.resource.partition("/")
        return f"{resource}{'.' * bool(self.group)}{self.group}{slash}{sub}"

    @property
    def needed(self) -> bool:
        """True if every run needs it."""
        return self.namespaced and self.resource not in HELPFUL

    def review(self, namespace: str) -> dict[str, object]:
        """The question whether we have it, as the API server understands it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": namespace if self.namespaced else "",
        }
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


class MetricsEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A Prometheus, and which GPU metrics it has now."""

    name: str
    """In sentences: ``Prometheus monitoring/prometheus-k8s:web``."""
    fields: tuple[str, ...] = ()
    """Names of DCGM's fields that k8sbench reads."""
    fault: str = ""
    """Reason why it cannot be read, without full stop; empty if readable."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the cluster and its user."""

    home: str
    """Namespace."""
    server: str = ""
    """URL of the API server."""
    why: str = ""
    """Reason for this cluster: ``context kind-a of ~/.kube/config``."""
    version: str | Unknown = ""
    """As the API server states it: ``v1.33.13``."""
    groups: Collection[str] | Unknown = ()
    """API groups that are served."""
    role_file: str = ""
    """Path of the file with the Role and ClusterRole, for messages."""


class ObserverFacts(ClusterFacts, frozen=True, kw_only=True):
    """Facts for jobs of others, which are observed."""

    rights: Mapping[Permission, bool] | Unknown = {}
    """The permissions that observing uses, and whether the user has them."""


class PreflightFacts(ClusterFacts, frozen=True, kw_only=True):
    """Facts for runs with a plan."""

    plan: RunPlan
    """The run that is to be possible."""
    kinds: Collection[str] | Unknown = ()
    """Resources of the API groups of the operators that are served."""
    serving: ServingOperator | Unknown | None = None
    """Operator that serves the namespace; None without one."""
    crd_schema: int | Unknown | None = None
    """Schema number of the CRD of Benchmark; None without the CRD."""
    asked: Sequence[str] = ()
    """Kinds of the jobs that are to be possible."""
    refusals: Mapping[str, str | None] = {}
    """Served kind → reason why the dry run is refused; None if accepted."""
    deployments: Mapping[str, KubeObject | Unknown | None] = {}
    """Operator → its Deployment, for the jobs' operator and its dependencies."""
    access: Mapping[Permission, bool] | Unknown = {}
    """The permissions that k8sbench uses, and whether the user has them."""
    namespace: KubeObject | Unknown | None = None
    quotas: Sequence[KubeObject] | Unknown = ()
    nodes: Sequence[KubeObject] | Unknown = ()
    """Nodes with the pool's labels."""
    prometheus: MetricsEndpoint | None = None
    """None: none was to be asked."""
    claims: Mapping[str, KubeObject | Unknown | None] = {}
    """The volume claims that the pods mount, by name."""
    queue: KubeObject | Unknown | None = None
    """The plan's LocalQueue."""
    flavors: Mapping[str, Mapping[str, str]] | Unknown = {}
    """Flavor of the queue with the pool's resources → its node labels."""

    @property
    def operator(self) -> Operator:
        """The operator of the jobs."""
        return kind_of(self.plan).operator

    @property
    def enforced_level(self) -> str | None:
        """The Pod Security Standard that the namespace enforces; None where that is not known."""
        if self.namespace is None or isinstance(self.namespace, Unknown):
            return None
        level = labels_of(self.namespace).get(ENFORCE, "privileged")
        return level if level in LEVELS else "restricted"  # as the API server does
