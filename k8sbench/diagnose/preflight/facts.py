"""The facts about a cluster that the checks judge: requests and answers as plain values.

An answer that could not be obtained is :class:`Unknown`, with the reason. None is an answer: there
is no such object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench.diagnose.preflight.rules import Permission
from k8sbench.model.kube import KubeObject
from k8sbench.model.pool import NodePool
from k8sbench.model.spec import Framework


class Unknown(msgspec.Struct, frozen=True):
    """An answer that could not be obtained."""

    why: str
    """The API server's message, without its full stop."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that was not granted."""

    status: int | None
    """HTTP status; None: there was no answer."""
    message: str


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One permission that k8sbench uses, and whether the user has it."""

    permission: Permission
    allowed: bool


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A source of GPU metrics, and what it has now."""

    name: str
    """In sentences: ``Prometheus monitoring/prometheus-k8s:web``."""
    fields: tuple[str, ...] = ()
    """Those of DCGM's that k8sbench reads."""
    interval: float | None = None
    """Seconds between samples."""
    names_pods: bool | None = None
    """Whether it says which pod has a GPU; None: that cannot be seen while no pod has one."""
    wrong: str = ""
    """Why it cannot be read, without a full stop."""
    role: str | None = None
    """The Role and RoleBinding that are missing, in YAML; None where that is not what is wrong."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants to do on the cluster."""

    namespace: str
    pool: NodePool
    frameworks: tuple[Framework, ...]
    """Those that were named; empty: any."""
    replicas: int = 1
    """Replicas: nodes."""
    gpus: int
    """GPUs of each; 0 on a pool without."""
    image: str | None = None
    claims: tuple[str, ...] = ()
    """Names of the volume claims that the pods mount."""
    written: tuple[str, ...] = ()
    """Those of them that they write to."""
    queue: str | None = None
    gang: bool = False


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the volume claims that were asked about."""

    claims: Mapping[str, KubeObject | Unknown | None] = {}
    """By name."""
    storage_classes: Mapping[str, KubeObject | Unknown | None] = {}
    """Those of the claims that are not bound, by name."""
    volumes: Mapping[str, KubeObject | Unknown | None] = {}
    """Those of the claims that the pods write to, by name."""


class Facts(Storage, frozen=True, kw_only=True):
    """Everything that was asked, in the order of :mod:`checks`."""

    server: str
    why: str
    """Why this cluster: ``context kind-a of ~/.kube/config``."""
    version: str | Unknown
    """As the API server states it: ``v1.33.13``."""
    groups: Mapping[str, Sequence[str]] | Unknown
    """API group → its versions that are served."""
    kinds: Sequence[str] | Unknown
    """Resources of ``kubeflow.org/v1``; empty where that is not served."""
    wrong_jobs: Mapping[str, Refusal | None]
    """Kind → the answer to the dry run of a job that only the operator's webhook refuses."""
    own_jobs: Mapping[str, Refusal | None]
    """Kind → the answer to the dry run of a job as k8sbench makes them."""
    operator: KubeObject | Unknown | None
    """The training operator's Deployment."""
    init_template: str | Unknown | None
    """The template that the operator was given for its init container; None: its own."""
    access: Sequence[Access] | Unknown
    role_file: str
    """Path of the file with the Role and the ClusterRole that k8sbench needs, for messages."""
    counters: str
    """The ConfigMap of the fields that a DCGM exporter is to give, in YAML."""
    namespace: KubeObject | Unknown | None
    quotas: Sequence[KubeObject] | Unknown
    limit_ranges: Sequence[KubeObject] | Unknown
    nodes: Sequence[KubeObject] | Unknown
    """Nodes with the pool's labels."""
    pods: Sequence[KubeObject] | Unknown
    """k8sbench's own pods in the namespace that have not ended."""
    prometheus: Source | None = None
    """None: none was to be asked."""
    exporters: Sequence[KubeObject] | Unknown = ()
    """Pods of DCGM exporters."""
    exporter: Source | None = None
    """One of them, or what is missing to see them; None: there is none."""
    queue: KubeObject | Unknown | None = None
    """The LocalQueue that was asked about."""


NOT_TRIED = "not-tried"
"""Id of the line that says what a dry run could not try."""
Level = Literal["ok", "warning", "failure"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the preflight."""

    id: str
    """Stable name of the check."""
    level: Level
    message: str
    """What was found, one sentence."""
    action: str | None = None
    """What to do; None where nothing is to be done."""
    manifest: str | None = None
    """What an administrator may apply for it, in YAML."""


def ok(check: str, message: str) -> Line:
    """Return the line of a check that found nothing wrong."""
    return Line(id=check, level="ok", message=message)


def warning(
    check: str, message: str, action: str | None = None, manifest: str | None = None
) -> Line:
    """Return a line about what may spoil or slow a run, or could not be checked."""
    return Line(id=check, level="warning", message=message, action=action, manifest=manifest)


def failure(check: str, message: str, action: str | None) -> Line:
    """Return a line about what makes every run fail."""
    return Line(id=check, level="failure", message=message, action=action)
