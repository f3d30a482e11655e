"""Facts of a healthy cluster, and variants with one difference."""

import copy
from typing import Any

import msgspec

from k8sbench.catalog import pool_files
from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.facts import ENFORCE, MetricsEndpoint, Permission, PreflightFacts
from k8sbench.model.errors import Finding
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.operators import JOBSET, TRAINER, TRAINING_OPERATOR
from k8sbench.model.plan import RunPlan
from tests.unit.render.plans import plan

POOL = pool_files.load_pools(environ={}).pool("v100-32gb")

QUICK = ("--kube-api-qps=400", "--kube-api-burst=800", "--controller-threads=8")


def deployment(*args: str, image: str = "example.com/training-operator:v1.9.3") -> dict[str, Any]:
    """The operator's Deployment; its template comes from a ConfigMap."""
    container = {
        "name": "training-operator",
        "image": image,
        "command": ["/manager"],
        "args": list(args),
        "volumeMounts": [{"name": "init", "mountPath": "/etc/config"}],
    }
    volume = {"name": "init", "configMap": {"name": "init-container"}}
    pod = {"containers": [container], "volumes": [volume]}
    return {
        "metadata": {"namespace": "kubeflow", "name": "training-operator"},
        "spec": {"replicas": 1, "template": {"spec": pod}},
        "status": {"availableReplicas": 1},
    }


def namespace(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "team-a", "labels": labels}, "status": {"phase": "Active"}}


def node(
    name: str = "gpu-0",
    *,
    gpus: str = "8",
    cpu: str = "48",
    memory: str = "502Gi",
    ready: str = "True",
    product: str = "Tesla-V100-SXM2-32GB",
    **spec: Any,
) -> dict[str, Any]:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "spec": {"taints": [taint], **spec},
        "status": {
            "allocatable": {"nvidia.com/gpu": gpus, "cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def quota(**used_and_hard: tuple[str, str]) -> dict[str, Any]:
    names = {key.replace("__", "."): value for key, value in used_and_hard.items()}
    return {
        "metadata": {"name": "gpus"},
        "status": {
            "used": {key: used for key, (used, _) in names.items()},
            "hard": {key: hard for key, (_, hard) in names.items()},
        },
    }


def without_template(operator: dict[str, Any]) -> dict[str, Any]:
    """The same, with the template of the init container that is built in."""
    del operator["spec"]["template"]["spec"]["volumes"]
    return operator


FIELDS = tuple(field.name for metric in METRICS for field in metric.dcgm)
DEFAULT = tuple(name for name in FIELDS if name not in {"DCGM_FI_PROF_SM_ACTIVE", *FIELDS[-4:]})
"""About what an exporter has by default."""


def prometheus(fields: tuple[str, ...] = FIELDS) -> MetricsEndpoint:
    return MetricsEndpoint(name="Prometheus monitoring/prometheus:web", fields=fields)


def refused() -> MetricsEndpoint:
    return MetricsEndpoint(name="Prometheus", fault="You may not get services/proxy")


def access(
    verb: str, resource: str, *, allowed: bool = True, namespaced: bool = True
) -> dict[Permission, bool]:
    resource, _, group = resource.partition(".")
    permission = Permission(verb=verb, group=group, resource=resource, namespaced=namespaced)
    return {permission: allowed}


READY = PreflightFacts(
    plan=plan("1x8", pool=POOL),
    home="team-a",
    server="https://cluster.example:6443",
    why="context a of ~/.kube/config",
    version="v1.33.13",
    groups=("kubeflow.org", "apps"),
    kinds=("pytorchjobs", "paddlejobs"),
    asked=("PyTorchJob", "PaddleJob"),
    refusals={"PyTorchJob": None, "PaddleJob": None},
    deployments={TRAINING_OPERATOR.name: deployment(*QUICK)},
    access=access("create", "pytorchjobs.kubeflow.org") | access("list", "pods"),
    role_file="/k8sbench/role.yaml",
    namespace=namespace(**{ENFORCE: "restricted"}),
    quotas=(),
    nodes=(node("gpu-0"), node("gpu-1")),
    prometheus=prometheus(),
)


def deployed(found: Any) -> dict[str, Any]:
    """The facts with this Deployment of the training operator."""
    return {"deployments": {TRAINING_OPERATOR.name: found}}


def v2(version: str = "2.3.0", *, available: int = 1) -> dict[str, Any]:
    """The facts of a cluster with Kubeflow Trainer v2 alone."""
    running = {
        program.name: {
            "metadata": dict(zip(("namespace", "name"), program.place, strict=True)),
            "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}},
            "status": {"availableReplicas": available},
        }
        for program, image in ((TRAINER, f"trainer:v{version}"), (JOBSET, "jobset:v0.12.0"))
    }
    return {
        "plan": request(kind="TrainJob"),
        "groups": (TRAINER.group, JOBSET.group),
        "kinds": ("trainjobs", "trainingruntimes"),
        "asked": ("TrainJob",),
        "refusals": {"TrainJob": None},
        "deployments": running,
        "access": access("create", "trainjobs.trainer.kubeflow.org")
        | access("create", "pytorchjobs.kubeflow.org", allowed=False),
    }


def request(case: str = "1x8", **changes: Any) -> RunPlan:
    """The plan of a run on the pool."""
    return plan(case, **{"pool": POOL, **changes})


def findings(**changes: Any) -> tuple[Finding, ...]:
    """Return the findings on a healthy cluster with changed facts."""
    return checks.findings(msgspec.structs.replace(copy.deepcopy(READY), **changes))
