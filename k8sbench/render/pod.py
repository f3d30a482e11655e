"""The pod of one replica: the decisions that ``pod.yaml.j2`` lays out.

A plan that Kubernetes would reject is rejected here, with an action: shared memory beyond the
memory limit, invalid names, data that the restricted profile forbids to mount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from k8sbench.catalog.planning import TRAINERS_MOUNT
from k8sbench.catalog.training import CHECKPOINTS_MOUNT, DATA_MOUNT, WEIGHTS_MOUNT
from k8sbench.model import names
from k8sbench.model import pool as pools
from k8sbench.model.errors import UsageError
from k8sbench.model.job_kind import fill_variables
from k8sbench.model.kinds import kind_of, rendezvous_port
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import NodePool, Toleration
from k8sbench.model.times import SAVE_SECONDS
from k8sbench.render.trainer_sources import TrainerSources

SIDECAR = "sidecar.istio.io/inject"
"""Label of today's Istio, annotation of older ones."""
PACKAGES_MOUNT = "/opt/python-packages"
"""Mount point of a pool's ``python_packages``."""

ANNOTATIONS_LIMIT = 256 * 1024
"""Limit of all annotations of an object together, bytes."""
END_SECONDS = 15
"""Seconds between SIGTERM and SIGKILL for programs without checkpoints.

A cancelled job frees its GPUs after that.
"""
FIELDS = {"POD_NAME": "metadata.name", "NODE_NAME": "spec.nodeName"}
"""Variables with the pod and node of a rank, filled in by the kubelet."""


class ClaimMount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of a volume claim and its mount point."""

    volume: str
    claim: str
    folder: str | None
    path: str
    read_only: bool = True


def pod(
    plan: RunPlan,
    *,
    labels: dict[str, str],
    about: dict[str, str],
    security: Security,
    trainers: TrainerSources | None,
) -> dict[str, Any]:
    """Return the template values of the plan's pods, which are all alike.

    ``about`` are annotations; ``trainers`` the sources that they mount, None if the image has them.
    Raises :class:`UsageError` for a plan that Kubernetes would reject.
    """
    pool = plan.pool
    mounts = _mounts(plan)
    return {
        "labels": labels | {SIDECAR: "false"},
        "annotations": _annotations(pool, about),
        "grace": END_SECONDS if plan.checkpoints is None else SAVE_SECONDS,
        # Before env, whose values may use them.
        "fields": (FIELDS | dict(kind_of(plan).fields)).items(),
        "env": environment(plan).items(),
        "secret_env": [
            (name, {"name": secret.name, "key": secret.key})
            for name, secret in sorted(plan.secret_env.items())
        ],
        "port": rendezvous_port(plan),
        "resources": _resources(plan),
        "mounts": mounts,
        "volumes": list(_volumes(mounts)),
        "trainers": trainers,
        "security": security,
        # One that takes a whole node is alone on it.
        "apart": plan.spread and not 0 < pool.gpus_per_node <= plan.gpus_per_replica,
        "selector": dict(_sorted(pool.selector)),
        "tolerations": [toleration(entry) for entry in pool.tolerations],
        "image_pull_secrets": [{"name": name} for name in pool.image_pull_secrets],
    }


def environment(plan: RunPlan) -> dict[str, str]:
    """Return the container's variables in a fixed order, each name once.

    The plan's overrule the pool's, the pool's overrule our defaults (a writable home). Nobody can
    set the operator's variables or those of k8sbench: the operator's come after ours in the
    container, so that a second value would be lost silently.
    """
    kind = kind_of(plan)
    defaults = {"HOME": "/tmp", "TMPDIR": "/tmp", "USER": "k8sbench"}  # noqa: S108 - in the pod
    fixed = {"K8SBENCH_RUN_ID": plan.run_id}
    if plan.seed is not None:
        # Trainings of one seed would be one training, and their spread nothing.
        fixed["K8SBENCH_SEED"] = str(plan.seed + plan.repeat - 1)
    if kind.processes_env is not None:
        fixed[kind.processes_env] = str(plan.processes_per_replica)
    shape = {"job": plan.job_name, "replicas": plan.replicas, "rank": 0}
    shape |= {"port": rendezvous_port(plan), "world_size": plan.world_size}
    fixed |= dict(fill_variables(kind.env, shape))
    if plan.trainers_by == "configmap":
        fixed |= {"PYTHONPATH": TRAINERS_MOUNT, "PYTHONDONTWRITEBYTECODE": "1"}
    if _packages(plan) is not None:
        # After our trainers, which an image of ours has at the same place.
        folders = (
            (TRAINERS_MOUNT, PACKAGES_MOUNT) if plan.trainer is not None else (PACKAGES_MOUNT,)
        )
        fixed["PYTHONPATH"] = ":".join(folders)
    given = dict([*_sorted(plan.pool.nccl_env), *_sorted(plan.env)])
    own = {**plan.env, **dict.fromkeys(plan.secret_env, "")}
    for name in {**given, **own}:
        whose = "The plan's env" if name in own else f"Pool {plan.pool.name}'s nccl_env"
        if name in kind.reserved or name in fixed or name in FIELDS:
            owner = kind.operator.name if name in kind.reserved else "k8sbench"
            raise UsageError(
                f"{whose} sets {name}, which {owner} sets itself.", f"Leave {name} out."
            )
    values = {**fixed, **{k: v for k, v in defaults.items() if k not in given}, **given}
    return {name: value for name, value in values.items() if name not in plan.secret_env}


def fitting(annotations: dict[str, str]) -> dict[str, str]:
    """Return ``annotations`` if one object can hold them all."""
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        raise UsageError(
            f"The plan and its annotations take {size} bytes; an object of Kubernetes holds "
            f"{ANNOTATIONS_LIMIT}.",
            "Shorten the benchmark's command, env and notes, or the pool's annotations.",
        )
    return annotations


def _annotations(pool: NodePool, about: Mapping[str, str]) -> dict[str, str]:
    for key in pool.annotations:
        if key == SIDECAR or key.split("/")[0] == names.LABEL_DOMAIN:
            raise UsageError(
                f"Pool {pool.name} sets the annotation {key}, which k8sbench sets itself.",
                f"Leave {key} out of the pool.",
            )
    return {SIDECAR: "false", **about, **dict(_sorted(pool.annotations))}


def _resources(plan: RunPlan) -> dict[str, str]:
    pool = plan.pool
    # Where there is no GPU, the pool's figures are per process.
    shares = plan.gpus_per_replica or plan.processes_per_replica
    for path, problem in pools.pool_problems(pool, gpus=shares):
        raise UsageError(
            f"Pool {pool.name} does not fit {plan.case}: its {path[0]} {problem}.",
            "Correct the pool, or choose another with --node-pool.",
        )
    amounts: dict[str, str] = {
        "cpu": pools.multiply(pool.cpu_per_gpu, shares),
        "memory": pools.multiply(pool.memory_per_gpu, shares),
    }
    if plan.gpus_per_replica:
        amounts[pool.gpu_resource] = str(plan.gpus_per_replica)
    if pool.rdma is not None:
        amounts[pool.rdma.resource] = str(pool.rdma.count)
    return amounts


def toleration(given: Toleration) -> dict[str, Any]:
    """Write a toleration as Kubernetes has it."""
    fields: dict[str, Any] = msgspec.to_builtins(given)
    return {name: value for name, value in fields.items() if value is not None}


def _mounts(plan: RunPlan) -> tuple[ClaimMount, ...]:
    """Return all folders of claims that the container mounts."""
    places = {
        "data": (plan.data, DATA_MOUNT),
        # The folder that holds the file: a file that is mounted alone stays when it is replaced.
        "weights": ((plan.weights or "").rpartition("/")[0], WEIGHTS_MOUNT),
        "packages": (_packages(plan) or "", PACKAGES_MOUNT),
        "checkpoints": (plan.checkpoints or "", CHECKPOINTS_MOUNT),
    }
    first: dict[str, str] = {}
    return tuple(
        ClaimMount(
            volume=first.setdefault(claim.name, name),
            claim=claim.name,
            folder=claim.folder,
            path=path,
            read_only=name != "checkpoints",
        )
        for name, (place, path) in places.items()
        if (claim := pools.parse_claim(place)) is not None
    )


def _volumes(mounts: Iterable[ClaimMount]) -> Iterator[dict[str, Any]]:
    """Yield one volume per claim.

    Two volumes of one claim keep a pod from starting with some drivers.
    """
    by_name: dict[str, list[ClaimMount]] = {}
    for mount in mounts:
        by_name.setdefault(mount.volume, []).append(mount)
    for name, of_volume in by_name.items():
        read_only = all(mount.read_only for mount in of_volume)
        yield {"name": name, "claim": of_volume[0].claim, "read_only": read_only}


def _packages(plan: RunPlan) -> str | None:
    # A local process has the packages of the machine.
    return None if plan.backend == "local" else plan.pool.python_packages


def _sorted(mapping: Mapping[str, str]) -> list[tuple[str, str]]:
    # Equal plans may differ in the order of their mappings; their manifests may not.
    return sorted(mapping.items())


# -- security -------------------------------------------------------------------------------------
#
# How far a pool's pods leave the restricted Pod Security Standard, and what for.
#
# By default they keep to it. Each opt-in of a pool is named in the pods' annotations, so that a
# namespace that refuses them is no riddle.

Level = Literal["restricted", "baseline", "privileged"]
USER = 1000
"""Any user but root; no image needs to know it."""

# https://kubernetes.io/docs/concepts/security/pod-security-standards/: what the baseline level
# lets a container add.
_BASELINE = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID "  # noqa: SIM905 - a table reads better as words
    "SETPCAP SETUID SYS_CHROOT".split()
)


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The security of one pod."""

    level: Level
    """The strictest standard that it keeps to."""
    reasons: tuple[str, ...]
    """Reasons why the pod is not restricted."""
    capabilities: tuple[str, ...]
    user: int
    non_root: bool
    group: int | None = None
    """Group of the files on writable volumes; None without such a volume."""


def security(pool: NodePool, *, writes: bool = False) -> Security:
    """Return user, capabilities and security level of the pool's pods.

    ``writes`` is True if they write to a volume, which on a fresh disk belongs to root.
    """
    wanted = set(pool.rdma.capabilities if pool.rdma is not None else ())
    if pool.ipc_lock:
        wanted.add("IPC_LOCK")
    if pool.host_network or wanted - _BASELINE:
        level: Level = "privileged"
    else:
        level = "baseline" if wanted else "restricted"
    return Security(
        level=level,
        reasons=tuple(_reasons(pool, wanted)),
        capabilities=tuple(sorted(wanted)),
        # The kernel gives an added capability to a process of root alone: for any other user
        # IPC_LOCK would stand in the manifest and lock nothing.
        user=0 if wanted else USER,
        non_root=not wanted,
        # The same for root, which is without the right to write what is others': a run that is
        # taken up by another user's pods finds its checkpoints writable.
        group=USER if writes else None,
    )


def _reasons(pool: NodePool, capabilities: set[str]) -> Iterator[str]:
    for name in sorted(capabilities):
        yield f"capability {name}"
    if capabilities:
        yield "root user"
    if pool.host_network:
        yield "host network"
