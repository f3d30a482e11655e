"""The job kinds as data, by the name of the kind: a new one is an entry of :data:`KINDS`.

An entry holds what the kind's operator fixes: rendering, following, the preflight checks, the
permissions and the local backend all read it from there, and no code depends on a kind's name. Its
framework's trainers, images and catalog entries are other matters.

Variables of the training operator v1.9, their values and order are read from its source
(``pkg/controller.v1/pytorch/envvar.go``, ``…/pytorch/master.go``, ``…/paddlepaddle/envvar.go``) and
were seen in pods of a real cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Framework

Variables = list[tuple[str, str]]
"""In a container's order: a later one may refer to an earlier one, the last of a name counts."""

CONDITIONS = (
    ("Failed", Phase.FAILED),
    ("Succeeded", Phase.SUCCEEDED),
    ("Running", Phase.RUNNING),
    ("Restarting", Phase.RUNNING),
    ("Suspended", Phase.QUEUED),
    ("Created", Phase.CREATED),
)
"""The conditions that the training operator (v1.9) sets on its jobs → what each means for a run,
as far as the job alone tells. Of several that are true the first one here counts."""


class InjectedVariable(msgspec.Struct, frozen=True):
    """A variable of one replica's container."""

    name: str
    value: str
    """With placeholders: see :meth:`JobKind.injected` and :attr:`JobKind.local`."""
    of: Literal["all", "first", "others"] = "all"
    """Which replicas get it; the first is that of rank 0."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job."""

    name: str
    """As in ``kind:`` of a manifest."""
    plural: str
    """As in a path of the API server."""
    group: str = "kubeflow.org"
    version: str = "v1"
    default_for: tuple[Framework, ...]
    """Frameworks whose runs are of this kind unless their plans name another."""
    template: str = "job.yaml.j2"
    """The file in ``manifests/`` that lays the job out."""
    replicas_key: str
    """The field of ``spec`` that maps replica types to replicas."""
    lead: str | None
    """Replica type of the one replica that leads; None where all are alike."""
    others: str = "Worker"
    container: str
    """The operator's webhook wants a container of exactly this name."""
    port_name: str
    port: int
    """Where the leading replica's rendezvous listens."""
    processes_field: str | None = None
    """Field of ``spec`` for the processes per replica."""
    processes_env: str | None = None
    """Variable for the processes per replica where the operator has no field for it."""
    launcher: tuple[str, ...]
    """The command that starts one of our trainers; ``{module}`` is its file stem, ``{mount}`` where
    the trainers lie. Launchers take nodes, rank and rendezvous from the injected variables."""
    variables: tuple[InjectedVariable, ...]
    """What the operator appends to every container of the jobs that k8sbench makes."""
    variables_of_others: frozenset[str] = frozenset()
    """Variables that it appends to jobs of this kind that k8sbench does not make."""
    local: tuple[InjectedVariable, ...] = ()
    """What a pod has, and replicas that share a machine must be given."""
    init_container: bool = False
    """Whether the operator adds an init container to the replicas that do not lead."""
    conditions: tuple[tuple[str, Phase], ...] = CONDITIONS
    verbs: tuple[str, ...] = ("get", "list", "watch", "create", "patch", "delete")
    """What k8sbench must be allowed to do with jobs of this kind."""

    @property
    def api_version(self) -> str:
        """As in ``apiVersion:`` of a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def singular(self) -> str:
        """As kubectl takes it."""
        return self.name.lower()

    @property
    def types(self) -> tuple[str, ...]:
        """Its replica types, the leading one first."""
        return (self.others,) if self.lead is None else (self.lead, self.others)

    @property
    def reserved(self) -> frozenset[str]:
        """Names of all variables that the operator sets itself."""
        return self.variables_of_others | {variable.name for variable in self.variables}

    def replicas(self, count: int) -> tuple[tuple[str, int], ...]:
        """Split ``count`` replicas into (replica type, how many), the leading one first."""
        if self.lead is None:
            return ((self.others, count),)
        rest = ((self.others, count - 1),) if count > 1 else ()
        return ((self.lead, 1), *rest)

    def names(self, count: int) -> list[str]:
        """Name ``count`` replicas as the operator does, rank 0's first: master-0, worker-0, …"""
        return [f"{role.lower()}-{i}" for role, many in self.replicas(count) for i in range(many)]

    def start(self, module: str, mount: str) -> tuple[str, ...]:
        """Return the command that starts ``module``, with the trainers below ``mount``."""
        return tuple(word.format(module=module, mount=mount) for word in self.launcher)

    def injected(self, values: Mapping[str, object]) -> Variables:
        """Compute what the operator appends to the container of a replica.

        ``values`` are the placeholders: ``job`` (its name), ``rank`` of the replica, ``replicas``
        of the job, ``processes`` of each, ``address`` and ``port`` of the rendezvous, ``pod_ip``.
        ``{world_size}`` counts all processes; ``processes`` that are no number count as one.
        """
        processes, replicas = str(values["processes"]), int(str(values["replicas"]))
        per_replica = int(processes) if re.fullmatch(r"[+-]?\d+", processes) else 1
        return filled(self.variables, {**values, "world_size": replicas * per_replica})

    def phase(self, conditions: Iterable[str]) -> Phase | None:
        """Return what the true conditions of a job mean; None: they are unknown."""
        true = set(conditions)
        return next((ours for theirs, ours in self.conditions if theirs in true), None)

    def condition(
        self, status: Mapping[str, Any], phase: Phase, *, only_true: bool = True
    ) -> Mapping[str, Any] | None:
        """Return the condition in a job's ``status`` that means ``phase``; None: there is none."""
        meant = [name for name, ours in self.conditions if ours is phase]
        matching = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] in meant and (not only_true or condition.get("status") == "True")
        ]
        return min(matching, key=lambda condition: meant.index(condition["type"]), default=None)


def filled(variables: Iterable[InjectedVariable], values: Mapping[str, object]) -> Variables:
    """Fill in the placeholders of the variables that the replica ``rank`` gets."""
    return [
        (variable.name, variable.value.format(**values))
        for variable in variables
        if variable.of in ("all", "first" if values["rank"] == 0 else "others")
    ]


PYTORCH_JOB = JobKind(
    name="PyTorchJob",
    plural="pytorchjobs",
    default_for=("pytorch",),
    replicas_key="pytorchReplicaSpecs",
    lead="Master",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    # Without it the operator says "auto", counts one process per replica in WORLD_SIZE, and
    # torchrun starts as many processes as it finds GPUs, or CPU cores.
    processes_field="nprocPerNode",
    launcher=("python3", "-m", "torch.distributed.run", "-m", "k8sbench.trainers.{module}"),
    variables=(
        InjectedVariable("PYTHONUNBUFFERED", "1"),
        InjectedVariable("MASTER_PORT", "{port}"),
        InjectedVariable("PET_MASTER_PORT", "{port}"),
        InjectedVariable("MASTER_ADDR", "{address}"),
        InjectedVariable("PET_MASTER_ADDR", "{address}"),
        InjectedVariable("WORLD_SIZE", "{world_size}"),
        InjectedVariable("RANK", "{rank}"),
        InjectedVariable("PET_NODE_RANK", "{rank}"),
        InjectedVariable("PET_NPROC_PER_NODE", "{processes}"),
        InjectedVariable("PET_NNODES", "{replicas}"),
    ),
    init_container=True,
)
"""One Master, the rest Workers."""

_TRAINERS = "{mount}/k8sbench/trainers"

PADDLE_JOB = JobKind(
    name="PaddleJob",
    plural="paddlejobs",
    default_for=("paddle",),
    replicas_key="paddleReplicaSpecs",
    # A PaddleJob with a Master runs a parameter server; all-reduce wants workers alone.
    lead=None,
    container="paddle",
    port_name="master",
    port=36543,
    processes_env="PADDLE_NPROC_PER_NODE",
    launcher=("python3", f"{_TRAINERS}/paddle_launch.py", f"{_TRAINERS}/{{module}}.py"),
    variables=(
        InjectedVariable("PYTHONUNBUFFERED", "1"),
        InjectedVariable("PADDLE_JOB_ID", "{job}"),
        InjectedVariable("PADDLE_NNODES", "{replicas}"),
        InjectedVariable("POD_IP_DUMMY", "{pod_ip}", of="first"),
        InjectedVariable("PADDLE_MASTER", "$(POD_IP_DUMMY):{port}", of="first"),
        InjectedVariable("PADDLE_MASTER", "{address}:{port}", of="others"),
    ),
    # Of jobs with a parameter server.
    variables_of_others=frozenset({"PADDLE_SERVER_NUM", "PADDLE_TRAINER_NUM"}),
    # A pod's address and number, which paddle.distributed.launch takes from the pod.
    local=(
        InjectedVariable("POD_IP", "{pod_ip}"),
        InjectedVariable("PADDLE_RANK", "{rank}"),
    ),
)
"""Workers alone."""
KINDS = {kind.name: kind for kind in (PYTORCH_JOB, PADDLE_JOB)}


def default_kind(framework: str) -> JobKind:
    """Return the kind of a framework's runs whose plans name none.

    An imported log may be of another framework; it has no job, and any kind will do.
    """
    kinds = (kind for kind in KINDS.values() if framework in kind.default_for)
    return next(kinds, PYTORCH_JOB)


def kind_of(plan: RunPlan) -> JobKind:
    """Return the kind of a plan's job; raises :class:`UsageError` for one that is not known."""
    if plan.kind is None:
        return default_kind(plan.framework)
    if plan.kind not in KINDS:
        raise UsageError(
            f"Run {plan.run_id} is a {plan.kind}, and this k8sbench knows {' and '.join(KINDS)}.",
            "Use the version of k8sbench that submitted it, or a newer one.",
        )
    return KINDS[plan.kind]


def kinds_of(frameworks: tuple[str, ...]) -> list[JobKind]:
    """Return the kinds of these frameworks' runs; all kinds where none is named."""
    return [default_kind(framework) for framework in frameworks] or list(KINDS.values())


def rank_order(replica: str) -> tuple[bool, str, int]:
    """Sort key of replica names: a leading one first, then each type by number, 10 after 9."""
    role, _, number = replica.rpartition("-")
    leads = {kind.lead.lower() for kind in KINDS.values() if kind.lead is not None}
    return role not in leads, role, int(number) if number.isdecimal() else 0
