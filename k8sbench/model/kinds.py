"""Job kinds as data: one entry of :data:`KINDS` each.

An entry holds what the kind's operator fixes: rendering, following, the preflight checks, the
permissions and the local backend all read it from there, and no code depends on a kind's name. Its
framework's trainers, images and catalog entries are other matters.

Variables of the training operator v1.9, their values and order are read from its source
(``pkg/controller.v1/pytorch/envvar.go``, ``…/pytorch/master.go``, ``…/paddlepaddle/envvar.go``) and
were seen in pods of a real cluster. Those of Kubeflow Trainer v2.3 were seen in its pods.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.operators import JOBSET, OPERATORS, TRAINER, TRAINING_OPERATOR, Operator
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec_values import Framework

JobKindWord = Literal["auto", "v1", "trainjob"]
"""Values of ``--job-kind``."""
Variables = list[tuple[str, str]]
"""Variables in a container's order.

A later one may refer to an earlier one; the last of a name counts.
"""

HOST_PORTS = range(20_000, 29_500)
"""Ports of rendezvous on the nodes' own network."""
CONDITIONS = (
    ("Failed", Phase.FAILED),
    ("Succeeded", Phase.SUCCEEDED),
    ("Running", Phase.RUNNING),
    ("Restarting", Phase.RUNNING),
    ("Suspended", Phase.QUEUED),
    ("Created", Phase.CREATED),
)
"""Conditions of the training operator (v1.9) and the run's phase.

If several are true, the first one here counts.
"""


class InjectedVariable(msgspec.Struct, frozen=True):
    """A variable of one replica's container."""

    name: str
    value: str
    """With placeholders: see :meth:`JobKind.injected` and :attr:`JobKind.local`."""
    of: Literal["all", "first", "others"] = "all"
    """Replicas that get the variable; the first is that of rank 0."""


class JobRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The separate object with the pod template of a job."""

    name: str
    plural: str
    template: str
    """The file in ``manifests/`` that lays it out."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job."""

    name: str
    """Value of ``kind:`` in a manifest."""
    plural: str
    """Resource name in paths of the API server."""
    group: str = "kubeflow.org"
    version: str = "v1"
    frameworks: tuple[Framework, ...] = ()
    """Frameworks that this entry serves, if several entries have its name."""
    default_for: tuple[Framework, ...] = ()
    """Frameworks that use this kind unless the plan names another."""
    operator: Operator = TRAINING_OPERATOR
    template: str = "job.yaml.j2"
    """The file in ``manifests/`` that lays the job out."""
    runtime: JobRuntime | None = None
    """Separate object that holds the pod template; None: the job holds it."""
    replicas_key: str
    """Field of ``spec`` that maps replica types to replicas.

    With a runtime, the field with the number of replicas, their image and their resources.
    """
    policy_key: str | None = "runPolicy"
    """Field of ``spec`` that suspends the job and limits its time; None: ``spec`` itself."""
    pod_suffix: str = r"-[a-z]+-[0-9]+"
    """Pattern of a pod's name after the job's name.

    It also matches the objects that create the pods. The group ``rank`` is present if the pod's
    name does not end with its replica's; the groups ``role`` and ``job`` in kinds of others' jobs.
    """
    pod_label: str = ""
    """Label of a pod with the name of its job."""
    templates: Literal["roles", "jobs", "pod"] = "roles"
    """Place of the pod templates: by role, in a list of jobs, or one in ``spec``."""
    child: str = ""
    """Kind, by its singular name, of the object of the job's name with its list of jobs."""
    refusals: tuple[str, ...] = ()
    """Event reasons for objects of the job that could not be created."""
    makers: frozenset[str] = frozenset()
    """Kinds between the job and its pods; their events count as the job's."""
    maker: str | None = None
    """Name of the batch/v1 Job that creates the pods; None: the operator creates them."""
    host: str = "{job}-{replica}"
    """Host name of a replica, from the names of job and replica."""
    own_host: str = "$(POD_NAME)"
    """Host name of a replica in its own container, from its variables."""
    after_name: str = ""
    """Longest suffix that counts towards the limit of the job's name."""
    lead: str | None
    """Type of the leading replica; None if all replicas are alike."""
    others: str = "Worker"
    container: str
    """The operator's webhook wants a container of exactly this name."""
    port_name: str
    port: int
    """Port of the rendezvous on the leading replica; see :func:`rendezvous_port`."""
    is_port_fixed: bool = False
    """True if the operator sets the port itself."""
    processes_field: str | None = None
    """Field of ``spec`` for the processes per replica."""
    processes_env: str | None = None
    """Variable for the processes per replica; None: the operator has a field."""
    launcher: tuple[str, ...]
    """Command that starts one of our trainers.

    ``{module}`` is its file stem, ``{mount}`` the folder of the trainers. Launchers take nodes,
    rank and rendezvous from the injected variables.
    """
    variables: tuple[InjectedVariable, ...]
    """Variables that the operator appends to the containers of k8sbench's jobs."""
    variables_of_others: frozenset[str] = frozenset()
    """Variables that the operator appends only to jobs of others."""
    local: tuple[InjectedVariable, ...] = ()
    """Variables for replicas that share a machine, which a pod has by itself."""
    fields: Mapping[str, str] = {}
    """Variables that the kubelet fills in → the pod's field."""
    env: tuple[InjectedVariable, ...] = ()
    """Variables that k8sbench adds for the operator; may refer to ``fields``."""
    init_container: bool = False
    """True if the operator adds an init container to replicas that do not lead."""
    conditions: tuple[tuple[str, Phase], ...] = CONDITIONS
    verbs: tuple[str, ...] = ("get", "list", "watch", "create", "patch", "delete")
    """Verbs that k8sbench needs on jobs of this kind."""

    @property
    def api_version(self) -> str:
        """Value of ``apiVersion:`` in a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def singular(self) -> str:
        """Singular resource name, for kubectl."""
        return self.name.lower()

    @property
    def types(self) -> tuple[str, ...]:
        """Its replica types, the leading one first."""
        return (self.others,) if self.lead is None else (self.lead, self.others)

    @property
    def reserved(self) -> frozenset[str]:
        """Names of all variables that the operator sets itself."""
        ours = {variable.name for variable in (*self.variables, *self.env)}
        return self.variables_of_others | ours | self.fields.keys()

    def policy(self, **settings: object) -> dict[str, Any]:
        """Return the part of ``spec`` with suspension and time limits."""
        return settings if self.policy_key is None else {self.policy_key: settings}

    def replica_specs(self, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the replicas of a job's ``spec`` by type; None without them."""
        found = spec.get(self.replicas_key)
        if found is None or self.runtime is None or self.others in found:
            return found
        container = {
            "name": self.container,
            "image": found.get("image"),
            "resources": found.get("resourcesPerNode"),
        }
        template = {"spec": {"containers": [container]}}
        return {self.others: {"replicas": found.get("numNodes"), "template": template}}

    def runtime_name(self, job: str, nonce: str) -> str:
        """Return the name of a job's runtime.

        Each record has a name of its own, because the operator may have the runtime cached.
        """
        return f"{job}-{nonce[:8]}"

    def replica_of(self, pod: str, job: str) -> str:
        """Name the replica of a job, given its pod's name."""
        # Not one pattern with the job's name in it: it would be compiled for each job.
        own = pod.removeprefix(job)
        match = re.fullmatch(self.pod_suffix, own) if own != pod else None
        parts = {} if match is None else match.groupdict()
        rank = parts.get("rank")
        if "role" in parts:
            role = parts["role"] or self.others.lower()
            return replica_name(role, int(parts["job"] or 0), int(rank or 0))
        return pod.removeprefix(f"{job}-") if rank is None else f"{self.others.lower()}-{rank}"

    def replicas(self, count: int) -> tuple[tuple[str, int], ...]:
        """Split ``count`` replicas into (type, number), the leading one first."""
        if self.lead is None:
            return ((self.others, count),)
        rest = ((self.others, count - 1),) if count > 1 else ()
        return ((self.lead, 1), *rest)

    def names(self, count: int) -> list[str]:
        """Return replica names as the operator makes them, rank 0 first.

        For example master-0, worker-0, …
        """
        return [f"{role.lower()}-{i}" for role, many in self.replicas(count) for i in range(many)]

    def hosts(self, job: str, count: int) -> list[str]:
        """Return the host names of a job's replicas, rank 0 first."""
        return [
            self.host.format(job=job, replica=name, number=name.rpartition("-")[2])
            for name in self.names(count)
        ]

    def known_hosts(self, job: str, count: int) -> list[str]:
        """Return the texts by which a command may refer to hosts of its job."""
        return [self.own_host.format(job=job), *self.hosts(job, count)]

    def start(self, module: str, mount: str) -> tuple[str, ...]:
        """Return the command that starts ``module`` of the trainers below ``mount``."""
        return tuple(word.format(module=module, mount=mount) for word in self.launcher)

    def injected(self, values: Mapping[str, object]) -> Variables:
        """Return the variables that the operator appends to a container.

        ``values`` are the placeholders: ``job`` (its name), ``rank`` of the replica, ``replicas``
        of the job, ``processes`` of each, ``address`` and ``port`` of the rendezvous, ``pod_ip``.
        ``{world_size}`` counts all processes; ``processes`` that are no number count as one.
        """
        processes = str(values["processes"])
        replicas = int(str(values["replicas"]))
        per_replica = int(processes) if re.fullmatch(r"[+-]?\d+", processes) else 1
        return filled(self.variables, {**values, "world_size": replicas * per_replica})

    def phase(self, conditions: Iterable[str]) -> Phase | None:
        """Return the phase for a job's true conditions; None if unknown."""
        true = set(conditions)
        return next((ours for theirs, ours in self.conditions if theirs in true), None)

    def made(self, status: Mapping[str, Any]) -> Iterable[Mapping[str, int]]:
        """Count the pods of the job's objects, for a job without conditions."""
        return status.get("jobsStatus") or ()

    def condition(
        self, status: Mapping[str, Any], phase: Phase, *, only_true: bool = True
    ) -> Mapping[str, Any] | None:
        """Return the condition in ``status`` that means ``phase``; None without one."""
        meant = [name for name, ours in self.conditions if ours is phase]
        matching = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] in meant and (not only_true or condition.get("status") == "True")
        ]
        return min(matching, key=lambda condition: meant.index(condition["type"]), default=None)


def filled(variables: Iterable[InjectedVariable], values: Mapping[str, object]) -> Variables:
    """Return the variables of the replica ``rank`` with their values."""
    return [
        (variable.name, variable.value.format(**values))
        for variable in variables
        if variable.of in ("all", "first" if values["rank"] == 0 else "others")
    ]


def replica_name(role: str, job: int, rank: int) -> str:
    """Name a replica of a job that has several jobs of a role; the first job is not named."""
    return f"{role}-{rank}" if job == 0 else f"{role}-{job}-{rank}"


def log_name(replica: str, *, pod: int = 1, restarts: int = 0) -> str:
    """Name the log of a container of a replica of an observed job, whose attempts have one each.

    ``pod`` is the number of the pod among the replica's, from 1.
    """
    of_pod = f"{replica}.pod-{pod}" if pod > 1 else replica
    return f"{of_pod}.restart-{restarts}" if restarts else of_pod


def log_of_pod(name: str) -> str:
    """Return the name of the log of the pod whose container's log has a name."""
    return name.partition(".restart-")[0]


def replica_of_log(name: str) -> str:
    """Return the replica whose log has a name."""
    return name.partition(".")[0]


_V1_LABEL = "training.kubeflow.org/job-name"
PYTORCH_JOB = JobKind(
    name="PyTorchJob",
    plural="pytorchjobs",
    pod_label=_V1_LABEL,
    default_for=("pytorch",),
    replicas_key="pytorchReplicaSpecs",
    lead="Master",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    # Without it the operator says "auto", counts one process per replica in WORLD_SIZE, and
    # torchrun starts as many processes as it finds GPUs, or CPU cores.
    processes_field="nprocPerNode",
    launcher=(
        *("python3", "-m", "torch.distributed.run", "--rdzv-conf=timeout=300"),
        *("-m", "k8sbench.trainers.{module}"),
    ),
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
    pod_label=_V1_LABEL,
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
    # A pod's address and number, which paddle.distributed.launch takes from the pod; and a folder
    # for its logs that lies beside no earlier ones, which it would append to.
    local=(
        InjectedVariable("POD_IP", "{pod_ip}"),
        InjectedVariable("PADDLE_RANK", "{rank}"),
        InjectedVariable("PADDLE_LOG_DIR", "{cwd}/paddle-log"),
    ),
)
"""Workers alone."""
_TRAIN_JOB: dict[str, Any] = {
    "name": "TrainJob",
    "plural": "trainjobs",
    "group": TRAINER.group,
    "version": "v1alpha1",
    "operator": TRAINER,
    "template": "trainjob.yaml.j2",
    "runtime": JobRuntime(
        name="TrainingRuntime", plural="trainingruntimes", template="trainingruntime.yaml.j2"
    ),
    "replicas_key": "trainer",
    "policy_key": None,
    # JOB-node-0 is its batch/v1 Job, JOB-node-0-1-x7k2p a pod of it.
    "pod_suffix": r"-node-0(?:-(?P<rank>[0-9]+)-[a-z0-9]{5})?",
    "refusals": ("TrainJobResourcesCreationFailed", "JobCreationFailed", "FailedCreate"),
    "pod_label": "jobset.sigs.k8s.io/jobset-name",
    "makers": frozenset({"JobSet", "Job"}),
    "maker": "{job}-node-0",
    "host": "{job}-node-0-{number}.{job}",
    "after_name": "-node-0-{last}-x7k2p",
    "lead": None,
    "others": "Node",
    "container": "node",
    # It has no conditions of what goes on; its pods tell.
    "conditions": (
        ("Failed", Phase.FAILED),
        ("Complete", Phase.SUCCEEDED),
        ("Suspended", Phase.QUEUED),
    ),
}
_RANK = "metadata.labels['batch.kubernetes.io/job-completion-index']"
TRAIN_JOB = JobKind(
    **_TRAIN_JOB,
    frameworks=("pytorch",),
    port_name="rendezvous",
    port=29500,
    is_port_fixed=True,
    launcher=PYTORCH_JOB.launcher,
    variables=(
        InjectedVariable("PET_NNODES", "{replicas}"),
        InjectedVariable("PET_NPROC_PER_NODE", "{processes}"),
        InjectedVariable("PET_NODE_RANK", "{rank}"),
        InjectedVariable("PET_MASTER_ADDR", "{address}"),
        InjectedVariable("PET_MASTER_PORT", "{port}"),
        InjectedVariable("JOB_COMPLETION_INDEX", "{rank}"),
    ),
    # As the training operator v1 has them, for the commands of published programs.
    fields={"RANK": _RANK},
    own_host="{job}-node-0-$(RANK).{job}",
    env=(
        InjectedVariable("MASTER_ADDR", "{job}-node-0-0.{job}"),
        InjectedVariable("MASTER_PORT", "{port}"),
        InjectedVariable("WORLD_SIZE", "{world_size}"),
    ),
)
"""Kind of Trainer v2: any number of equal nodes.

The operator creates a JobSet, which creates a batch/v1 Job.
"""
TRAIN_JOB_OF_PADDLE = JobKind(
    **_TRAIN_JOB,
    frameworks=("paddle",),
    port_name="master",
    port=PADDLE_JOB.port,
    processes_env=PADDLE_JOB.processes_env,
    launcher=PADDLE_JOB.launcher,
    # The operator knows nothing of Paddle.
    variables=(InjectedVariable("JOB_COMPLETION_INDEX", "{rank}"),),
    fields={"NODE_RANK": _RANK, "PADDLE_RANK": _RANK},
    own_host="{job}-node-0-$(NODE_RANK).{job}",
    # Node 0 serves the meeting point only if PADDLE_MASTER's host equals its POD_IP.
    env=(
        InjectedVariable("POD_IP", "{job}-node-0-$(NODE_RANK).{job}"),
        InjectedVariable("PADDLE_JOB_ID", "{job}"),
        InjectedVariable("PADDLE_NNODES", "{replicas}"),
        InjectedVariable("PADDLE_MASTER", "{job}-node-0-0.{job}:{port}"),
    ),
)
KINDS: dict[str, JobKind] = {kind.name: kind for kind in (PYTORCH_JOB, PADDLE_JOB, TRAIN_JOB)}
"""Kinds by name. If several have a name, the first of :data:`ALL`."""
ALL = (*KINDS.values(), TRAIN_JOB_OF_PADDLE)


WORDS: dict[str, str | None] = {"v1": None, "trainjob": TRAIN_JOB.name}
"""``--job-kind`` → kind of all frameworks' jobs; None: one per framework.

Without the option, the first kind that the cluster serves is used.
"""


# -- jobs of others --------------------------------------------------------------------------------
#
# Their pods have other roles, and no nonce: a pod belongs to a job by label and age.

_ROLES = r"-(?P<role>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)-(?P<job>[0-9]+)-(?P<rank>[0-9]+)-[a-z0-9]{5}"
_JOB_SET = JobKind(
    name="JobSet",
    plural="jobsets",
    group=JOBSET.group,
    version="v1alpha2",
    operator=JOBSET,
    replicas_key="replicatedJobs",
    policy_key=None,
    templates="jobs",
    pod_suffix=_ROLES,
    pod_label=TRAIN_JOB.pod_label,
    makers=frozenset({"Job"}),
    maker="{job}-{role}-0",
    lead=None,
    container="",
    port_name="",
    port=0,
    launcher=(),
    variables=(),
    conditions=(
        ("Failed", Phase.FAILED),
        ("Completed", Phase.SUCCEEDED),
        ("Suspended", Phase.QUEUED),
    ),
)
_JOB = msgspec.structs.replace(
    _JOB_SET,
    name="Job",
    plural="jobs",
    group="batch",
    version="v1",
    replicas_key="template",
    templates="pod",
    pod_suffix=r"(?P<role>)(?P<job>)(?:-(?P<rank>[0-9]+))?-[a-z0-9]{5}",
    pod_label="batch.kubernetes.io/job-name",
    makers=frozenset(),
    maker=None,
    others="Pod",
    conditions=TRAIN_JOB.conditions,
)
TRAINS = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer"
"""Label and value of the job in a TrainJob's list that trains; others load its data."""
OBSERVED: dict[str, JobKind] = {
    kind.singular: kind
    for kind in (
        msgspec.structs.replace(
            TRAIN_JOB, pod_suffix=_ROLES, templates="jobs", child=_JOB_SET.singular
        ),
        PYTORCH_JOB,
        PADDLE_JOB,
        _JOB_SET,
        _JOB,
    )
}
"""Kinds of jobs that can be observed, by the singular name of kubectl."""


def replica_names(plan: RunPlan) -> Sequence[str]:
    """Return the names of a run's replicas, rank 0 first."""
    if plan.observed is not None:
        return plan.observed.replicas
    return kind_of(plan).names(plan.replicas)


def default_kind(framework: str, name: str | None = None) -> JobKind:
    """Return the job kind for a framework, or the named one.

    An imported log may be of another framework. It has no job, so any kind will do.
    """
    if name is None:
        return next((kind for kind in ALL if framework in kind.default_for), PYTORCH_JOB)
    of_framework = (kind for kind in ALL if kind.name == name and framework in kind.frameworks)
    return next(of_framework, KINDS[name])


def kind_of(plan: RunPlan) -> JobKind:
    """Return the kind of a plan's job; UsageError if it is unknown."""
    if plan.observed is not None:
        return OBSERVED[plan.observed.kind.lower()]
    if plan.kind is not None and plan.kind not in KINDS:
        raise UsageError(
            f"Run {plan.run_id} is a {plan.kind}, and this k8sbench knows {' and '.join(KINDS)}.",
            "Use the version of k8sbench that submitted it, or a newer one.",
        )
    return default_kind(plan.framework, plan.kind)


def rendezvous_port(plan: RunPlan) -> int:
    """Return the port of the rendezvous of a run.

    On the nodes' own network it is drawn from the run id, because two pods with one port cannot
    share a node. The range is below those of NodePorts and of the kernel's own choices.
    """
    kind = kind_of(plan)
    if kind.is_port_fixed or not plan.pool.host_network:
        return kind.port
    drawn = int.from_bytes(hashlib.sha256(plan.run_id.encode()).digest()[:4], "big")
    return HOST_PORTS[drawn % len(HOST_PORTS)]


def served(groups: Container[str]) -> list[str]:
    """Return the values of ``--job-kind`` that a cluster serves.

    ``groups`` are the cluster's API groups.
    """
    return [word for word, operator in OPERATORS.items() if operator.group in groups]


def rank_order(replica: str) -> tuple[bool, str, int]:
    """Sort key of replica names.

    The leading replica is first, then each type by number.
    """
    role, _, number = replica.rpartition("-")
    leads = {kind.lead.lower() for kind in KINDS.values() if kind.lead is not None}
    return role not in leads, role, int(number) if number.isdecimal() else 0
