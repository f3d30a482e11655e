"""What a run asks of a cluster, and the facts about the cluster: requests and answers as values.

An answer that could not be obtained is :class:`Unknown`, with the reason. None is an answer: there
is no such object.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from k8sbench.model.finding import Finding
from k8sbench.model.kube import KubeObject, labels_of
from k8sbench.model.operators import OPERATORS, Operator
from k8sbench.model.pool import NodePool
from k8sbench.model.spec import Framework

T = TypeVar("T")
ENFORCE = "pod-security.kubernetes.io/enforce"
"""Label of a namespace."""
LEVELS = ("privileged", "baseline", "restricted")
"""Pod Security Standards, the strictest last."""
HELPFUL = {
    *("namespaces", "resourcequotas", "persistentvolumeclaims"),
    *("localqueues", "workloads", "services", "services/proxy", "jobs"),
}
"""Resources of the Role that a run can do without: the preflight and diagnoses read them, and data
sets are prepared by Jobs."""


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
    """Why it cannot be read, a sentence without a full stop; empty: it can."""


class DoctorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants to do on the cluster."""

    namespace: str
    pool: NodePool
    frameworks: tuple[Framework, ...]
    """Those that were named; empty: any."""
    replicas: int = 1
    """Replicas: nodes."""
    gpus: int
    """GPUs of each replica; 0 on a pool without."""
    image: str | None = None
    """None: the public images of the frameworks."""
    claims: tuple[str, ...] = ()
    """Names of the volume claims that the pods mount."""
    written: tuple[str, ...] = ()
    """Names of the claims that the pods write to."""
    queue: str | None = None
    """Kueue's LocalQueue; None: no queue."""
    gang: bool = False
    """Whether all replicas are to start together or not at all."""
    pack: bool = False
    """True if replicas may share a node."""
    job_kind: str = "auto"
    """Key of :data:`OPERATORS`; ``auto``: the first that the cluster serves."""


def does_not_run(
    operator: Operator, deployments: Mapping[str, KubeObject | Unknown | None]
) -> bool:
    """Return whether an operator, or what it needs, is seen to have no available replica."""
    found = (deployments.get(program.name) for program in (operator, *operator.needs))
    return any(
        not (deployment.get("status") or {}).get("availableReplicas")
        for deployment in found
        if deployment is not None and not isinstance(deployment, Unknown)
    )


class PreflightFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the checks judge."""

    request: DoctorRequest
    claims: Mapping[str, KubeObject | Unknown | None] = {}
    """The volume claims of the request by name."""
    server: str
    """URL of the API server."""
    why: str
    """Why this cluster: ``context kind-a of ~/.kube/config``."""
    is_verified: bool = True
    """Whether the server's certificate is checked."""
    version: str | Unknown
    """As the API server states it: ``v1.33.13``."""
    groups: Mapping[str, Sequence[str]] | Unknown
    """API group → its versions that are served."""
    kinds: Sequence[str] | Unknown
    """Resources of the API groups of the operators that are served."""
    own_jobs: Mapping[str, str | None]
    """Kind → why the dry run of a job as k8sbench makes them is refused; None: it is not."""
    deployments: Mapping[str, KubeObject | Unknown | None]
    """Name of an operator → its Deployment; of those that are served, and of what they need."""
    access: Mapping[Permission, bool] | Unknown
    """The permissions that k8sbench uses, and whether the user has them."""
    role_file: str
    """Path of the file with the Role and the ClusterRole that k8sbench needs, for messages."""
    namespace: KubeObject | Unknown | None
    quotas: Sequence[KubeObject] | Unknown
    nodes: Sequence[KubeObject] | Unknown
    """Nodes with the pool's labels."""
    prometheus: MetricsEndpoint | None = None
    """None: none was to be asked."""
    queue: KubeObject | Unknown | None = None
    """The LocalQueue of the request."""
    flavors: Mapping[str, Mapping[str, str]] | Unknown = {}
    """Name → node labels of the ResourceFlavors of which that queue gives what the pool has."""

    @property
    def operators(self) -> list[Operator]:
        """Those whose jobs may be meant, the one that is taken first; all where none is served."""
        if self.request.job_kind != "auto":
            return [OPERATORS[self.request.job_kind]]
        groups = () if isinstance(self.groups, Unknown) else self.groups
        served = [operator for operator in OPERATORS.values() if operator.group in groups]
        served.sort(key=lambda operator: does_not_run(operator, self.deployments))
        return served or list(OPERATORS.values())

    @property
    def deployment(self) -> KubeObject | Unknown | None:
        """The Deployment of the operator that is taken."""
        return self.deployments.get(self.operators[0].name)

    @property
    def enforced_level(self) -> str | None:
        """The Pod Security Standard that the namespace enforces; None where that is not known."""
        if self.namespace is None or isinstance(self.namespace, Unknown):
            return None
        level = labels_of(self.namespace).get(ENFORCE, "privileged")
        return level if level in LEVELS else "restricted"  # as the API server does


def ok(sentence: str) -> Finding:
    """Nothing is wrong. Of this and the next two the check gives the id."""
    return Finding(id="", severity="ok", sentence=sentence)


def warn(sentence: str, action: str | None) -> Finding:
    """Something may spoil or slow a run, or could not be checked."""
    return Finding(id="", severity="warn", sentence=sentence, action=action)


def fail(sentence: str, action: str | None) -> Finding:
    """No run can succeed as it is asked for."""
    return Finding(id="", severity="fail", sentence=sentence, action=action)
