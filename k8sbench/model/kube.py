"""Kubernetes objects as plain data, and their common parts.

The API server's JSON is kept unchanged. These functions read fields that may be absent.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from k8sbench.model.names import LABEL_DOMAIN

KubeObject = Mapping[str, Any]
"""One Kubernetes object, or a part of one."""
RUN_LABEL = f"{LABEL_DOMAIN}/run"
"""Label of all objects of a run; the value is the run id."""
ATTEMPT_LABEL = f"{LABEL_DOMAIN}/attempt"
"""Label and annotation with the attempt's number, from the second on."""
TOKEN_HEADER = "X-K8sbench-Token"
"""Header with an operator's token.

The API server's proxy passes it on, unlike Authorization.
"""
MOST_RUNS = 1000
"""Runs of one answer of an operator: the newest that match."""
MOST_GROUPS = 200
"""Groups of one answer of an operator."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a job that names its Kueue LocalQueue."""
MANAGED = "app.kubernetes.io/managed-by=k8sbench"
"""Label selector of everything that k8sbench created."""

_TROUBLE = re.compile(
    r"node\.(kubernetes|cloudprovider\.kubernetes|cluster\.x-k8s)\.io/|.+/agent-not-ready\Z"
    r"|(ToBeDeletedBy|DeletionCandidateOf)ClusterAutoscaler\Z|karpenter\.sh/(disrupt|unregistered)"
    r"|(ignore|startup|status)-taint\.cluster-autoscaler\.kubernetes\.io/"
    r"|sagemaker\.amazonaws\.com/node-health-status\Z|aws-node-termination-handler/"
    r"|cloud\.google\.com/impending-node-termination\Z|remediator\.aks\.microsoft\.com/"
)


def is_trouble(taint: str) -> bool:
    """Return True if a taint, by its key, marks a node in trouble.

    Such a node is not ready yet, is not healthy, or is about to be removed.
    """
    return _TROUBLE.match(taint) is not None


def name_of(kube_object: KubeObject) -> str:
    """Return the object's name."""
    return str(kube_object["metadata"]["name"])


def labels_of(kube_object: KubeObject) -> Mapping[str, str]:
    """Return the object's labels."""
    return (kube_object.get("metadata") or {}).get("labels") or {}


def annotations_of(kube_object: KubeObject) -> Mapping[str, str]:
    """Return the object's annotations."""
    return (kube_object.get("metadata") or {}).get("annotations") or {}


def attempt_of(kube_object: KubeObject) -> int:
    """Return the number of an object's attempt; without a label 1."""
    number = labels_of(kube_object).get(ATTEMPT_LABEL, "")
    return int(number) if number.isdigit() else 1


def is_suspended(job: KubeObject) -> bool:
    """Return True if the job is suspended and so has no pods."""
    spec = job.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def conditions(kube_object: KubeObject) -> Mapping[str, KubeObject]:
    """Return the conditions of the object's status by type."""
    return {
        condition["type"]: condition
        for condition in (kube_object.get("status") or {}).get("conditions") or ()
    }


def is_true(condition: KubeObject | None) -> bool:
    """Return True if the condition exists and is true."""
    return condition is not None and condition.get("status") == "True"


def parse_time(stamp: str | None) -> float | None:
    """Read a time stamp as Unix seconds; None without one."""
    if not stamp:
        return None
    at = datetime.datetime.fromisoformat(stamp).timestamp()
    # The runtime's zero: a container that was never started.
    return at if at > 0 else None


# -- job ownership ---------------------------------------------------------------------------------
#
# One store restarts, collects and deletes a job. It stands in an annotation of the job; another
# store becomes the owner by compare-and-swap.

OPERATOR = "operator"
"""Store id of the operator of a namespace, whichever store it writes to."""


class JobOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The store that acts on a job."""

    store: str
    """Store id: lower-case letters and digits."""
    host: str
    """Name of its machine, for people."""
    keep: bool = False
    """True if the job stays on the cluster after its end (``--keep``)."""


class ServingOperator(msgspec.Struct, frozen=True, kw_only=True):
    """The operator that serves a namespace, as its Lease shows it."""

    namespace: str
    """Namespace in which the operator runs."""
    name: str
    """Name of its Service; with the namespace its identity."""
    version: str
    """Its version of k8sbench."""
    age_s: float
    """Seconds since its last renewal, by the API server's clock."""
    is_alive: bool
    """True if it renewed its Lease lately."""

    @property
    def place(self) -> str:
        """Namespace and name of its Service, ``NAMESPACE/NAME``."""
        return f"{self.namespace}/{self.name}"


class JobIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Values of the job of a run's attempt that are not in its plan."""

    attempt: int = 1
    nonce: str = ""
    """Nonce of the attempt; empty for a job without a record."""
    owner: JobOwner | None = None
    """Store that acts on the job; None on this machine."""
    waits: bool = False
    """True to wait even where the job cannot start unless somebody changes something."""
    deadline_s: float | None = None
    """Seconds from the run's time limit to the cluster's own.

    None: the cluster has no limit of its own.
    """


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a job, as one store sees it."""

    owner: JobOwner | None = None
    """None if the job names none."""
    is_ours: bool = True
    """True if the reading store owns the job, or nobody does."""

    @property
    def is_operators(self) -> bool:
        """True if the operator of the namespace owns the job."""
        return self.owner is not None and self.owner.store == OPERATOR

    @property
    def holder(self) -> str:
        """Name of the owner in a sentence."""
        if self.owner is None:
            return "another k8sbench"
        if self.is_operators:
            return "the namespace's operator"
        return f"k8sbench on {self.owner.host}"
