"""The job kinds as data, by the name of the kind: a new one is an entry of :data:`KINDS`.

An entry holds what the kind's operator fixes: rendering, following, the preflight checks, the
permissions and the local backend all read it from there, and no code depends on a kind's name. Its
framework's trainers, images and catalog entries are other matters.

Variables of the training operator v1.9, their values and order are read from its source
(``pkg/controller.v1/pytorch/envvar.go``, ``…/pytorch/master.go``, ``…/paddlepaddle/envvar.go``) and
were seen in pods of a real cluster. Those of Kubeflow Trainer v2.3 were seen in its pods.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.operators import OPERATORS, TRAINER, TRAINING_OPERATOR, Operator
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Framework

JobKindWord = Literal["auto", "v1", "trainjob"]
"""As ``--job-kind`` takes it."""
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


class JobRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The object beside a job that holds its pods' template."""

    name: str
    plural: str
    template: str
    """The file in ``manifests/`` that lays it out."""
    missing: str
    """What the operator's webhook says of a job whose runtime is not there."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job."""

    name: str
    """As in ``kind:`` of a manifest."""
    plural: str
    """As in a path of the API server."""
    group: str = "kubeflow.org"
    version: str = "v1"
    frameworks: tuple[Framework, ...] = ()
    """Whose runs are of this entry where several have its name."""
    default_for: tuple[Framework, ...] = ()
    """Frameworks whose runs are of this kind unless their plans name another."""
    operator: Operator = TRAINING_OPERATOR
    template: str = "job.yaml.j2"
    """The file in ``manifests/`` that lays the job out."""
    runtime: JobRuntime | None = None
    """Another object that holds the pods' template; None: the job holds it."""
    replicas_key: str
    """The field of ``spec`` that maps replica types to replicas; or, with a runtime, that has how
    many there are, their image and their resources."""
    policy_key: str | None = "runPolicy"
    """The field of ``spec`` that suspends the job and limits its time; None: ``spec`` itself."""
    pod_suffix: str = r"-[a-z]+-[0-9]+"
    """What follows a job's name in those of its pods and of what else makes them; with the group
    ``rank`` where a pod's name does not end with its replica's."""
    refusals: tuple[str, ...] = ()
    """Reasons of events that what makes its pods could not be created."""
    makers: frozenset[str] = frozenset()
    """Kinds of what the operator makes for a job, which makes its pods: their events count."""
    maker: str | None = None
    """Name of the batch/v1 Job that makes its pods, by the job's name; None: the operator does."""
    host: str = "{job}-{replica}"
    """Host name of a replica, by the job's name, the replica's and its number."""
    own_host: str = "$(POD_NAME)"
    """The same as a replica knows it, by the job's name and the container's variables."""
    after_name: str = ""
    """What follows a job's name in that of its last pod, where that counts for the longest name."""
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
    fields: Mapping[str, str] = {}
    """Variables that the kubelet fills in, by the field of the pod."""
    env: tuple[InjectedVariable, ...] = ()
    """Variables that k8sbench adds in place of the operator; they may refer to ``fields``."""
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
        ours = {variable.name for variable in (*self.variables, *self.env)}
        return self.variables_of_others | ours | self.fields.keys()

    def policy(self, **settings: object) -> dict[str, Any]:
        """Return the part of ``spec`` that suspends the job, or limits its time."""
        return settings if self.policy_key is None else {self.policy_key: settings}

    def replica_specs(self, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the replicas of a job's ``spec`` by type; None where it does not hold them."""
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

    def marked(self, spec: Mapping[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job's ``spec`` with ``mark`` (labels, annotations) in its pods' metadata."""
        if self.runtime is None:
            roles = {
                role: {**one, "template": with_metadata(one["template"], mark)}
                for role, one in spec[self.replicas_key].items()
            }
            return {**spec, self.replicas_key: roles}
        (patch,) = spec["runtimePatches"]
        (replicas,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        pods = with_metadata(replicas["template"]["spec"]["template"], mark)
        replicas = {**replicas, "template": {"spec": {"template": pods}}}
        runtime = {"template": {"spec": {"replicatedJobs": [replicas]}}}
        return {**spec, "runtimePatches": [{**patch, "trainingRuntimeSpec": runtime}]}

    def runtime_name(self, job: str, nonce: str) -> str:
        """Name the runtime of a job: of each record another, as the operator may have it cached."""
        return f"{job}-{nonce[:8]}"

    def replica_of(self, pod: str, job: str) -> str:
        """Name the replica of a job, given its pod's name."""
        match = re.fullmatch(re.escape(job) + self.pod_suffix, pod)
        rank = match and match.groupdict().get("rank")
        return pod.removeprefix(f"{job}-") if rank is None else f"{self.others.lower()}-{rank}"

    def replicas(self, count: int) -> tuple[tuple[str, int], ...]:
        """Split ``count`` replicas into (replica type, how many), the leading one first."""
        if self.lead is None:
            return ((self.others, count),)
        rest = ((self.others, count - 1),) if count > 1 else ()
        return ((self.lead, 1), *rest)

    def names(self, count: int) -> list[str]:
        """Name ``count`` replicas as the operator does, rank 0's first: master-0, worker-0, …"""
        return [f"{role.lower()}-{i}" for role, many in self.replicas(count) for i in range(many)]

    def hosts(self, job: str, count: int) -> list[str]:
        """Return the host names of a job's replicas, rank 0's first."""
        return [
            self.host.format(job=job, replica=name, number=name.rpartition("-")[2])
            for name in self.names(count)
        ]

    def known_hosts(self, job: str, count: int) -> list[str]:
        """Return how a command may name hosts of a job: its own, and all of them."""
        return [self.own_host.format(job=job), *self.hosts(job, count)]

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

    def made(self, status: Mapping[str, Any]) -> Iterable[Mapping[str, int]]:
        """Count the pods of what was made of a job, which tell its phase if no condition does."""
        return status.get("jobsStatus") or ()

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


def with_metadata(found: Mapping[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object, or a template of one, with more labels and annotations."""
    metadata = dict(found.get("metadata") or {})
    for key, more in mark.items():
        metadata[key] = {**(metadata.get(key) or {}), **more}
    return {**found, "metadata": metadata}


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
_TRAIN_JOB: dict[str, Any] = {
    "name": "TrainJob",
    "plural": "trainjobs",
    "group": TRAINER.group,
    "version": "v1alpha1",
    "operator": TRAINER,
    "template": "trainjob.yaml.j2",
    "runtime": JobRuntime(
        name="TrainingRuntime",
        plural="trainingruntimes",
        template="trainingruntime.yaml.j2",
        missing="must be created before the TrainJob is created",
    ),
    "replicas_key": "trainer",
    "policy_key": None,
    # JOB-node-0 is its batch/v1 Job, JOB-node-0-1-x7k2p a pod of it.
    "pod_suffix": r"-node-0(?:-(?P<rank>[0-9]+)-[a-z0-9]{5})?",
    "refusals": ("TrainJobResourcesCreationFailed", "JobCreationFailed", "FailedCreate"),
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
"""Of any number of nodes, all alike; the operator makes a JobSet, which makes a batch/v1 Job."""
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
"""By name; of one that several frameworks have, the first of :data:`ALL`."""
ALL = (*KINDS.values(), TRAIN_JOB_OF_PADDLE)


WORDS: dict[str, str | None] = {"v1": None, "trainjob": TRAIN_JOB.name}
"""Word of ``--job-kind`` → the kind of all frameworks' jobs, None: each framework's own. The first
that a cluster serves is taken where none is asked for."""


def default_kind(framework: str, name: str | None = None) -> JobKind:
    """Return the kind of a framework's runs whose plans name none, or this one.

    An imported log may be of another framework; it has no job, and any kind will do.
    """
    if name is None:
        return next((kind for kind in ALL if framework in kind.default_for), PYTORCH_JOB)
    of_framework = (kind for kind in ALL if kind.name == name and framework in kind.frameworks)
    return next(of_framework, KINDS[name])


def kind_of(plan: RunPlan) -> JobKind:
    """Return the kind of a plan's job; raises :class:`UsageError` for one that is not known."""
    if plan.kind is not None and plan.kind not in KINDS:
        raise UsageError(
            f"Run {plan.run_id} is a {plan.kind}, and this k8sbench knows {' and '.join(KINDS)}.",
            "Use the version of k8sbench that submitted it, or a newer one.",
        )
    return default_kind(plan.framework, plan.kind)


def served(groups: Container[str]) -> list[str]:
    """Return the words of ``--job-kind`` that a cluster with these API groups has."""
    return [word for word, operator in OPERATORS.items() if operator.group in groups]


def rank_order(replica: str) -> tuple[bool, str, int]:
    """Sort key of replica names: a leading one first, then each type by number, 10 after 9."""
    role, _, number = replica.rpartition("-")
    leads = {kind.lead.lower() for kind in KINDS.values() if kind.lead is not None}
    return role not in leads, role, int(number) if number.isdecimal() else 0
