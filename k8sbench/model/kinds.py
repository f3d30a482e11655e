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
from collections.abc import Container, Sequence
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.job_kind import InjectedVariable, JobKind, JobRuntime
from k8sbench.model.operators import JOBSET, OPERATORS, TRAINER
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan

JobKindWord = Literal["auto", "v1", "trainjob"]
"""Values of ``--job-kind``."""

HOST_PORTS = range(20_000, 29_500)
"""Ports of rendezvous on the nodes' own network."""
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
    # for its logs without earlier ones, to which it would append.
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
    # It has no conditions while it runs; its pods show its state.
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


def served_words(groups: Container[str]) -> list[str]:
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
