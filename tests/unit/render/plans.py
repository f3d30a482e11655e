"""Plans to render, and short ways to render them with the project's own templates."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jinja2
import msgspec

from k8sbench.adapters import templates
from k8sbench.catalog import plan_choices, planning, spec_files
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import NodePool, Rdma, Toleration
from k8sbench.model.spec_values import Framework, Precision
from k8sbench.render.manifest import manifests
from k8sbench.render.trainer_sources import TrainerSources
from tests.unit.model import plans
from tests.unit.model.specs import a_request

POOLS = {
    "plain": plans.POOL,
    "full": NodePool(
        name="full",
        gpus_per_node=8,
        gpu_model="Tesla V100-SXM2-32GB",
        gpu_resource="nvidia.com/gpu.shared",
        selector={"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB", "team": ""},
        tolerations=(
            Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),
            Toleration(key="team", value="vision"),
            Toleration(operator="Exists"),
        ),
        cpu_per_gpu="4500m",
        memory_per_gpu="31.5Gi",
        shm="16Gi",
        runtime_class="nvidia",
        priority_class="batch.high",
        image_pull_secrets=("registry", "registry.mirror"),
        annotations={"k8s.v1.cni.cncf.io/networks": '[{"name": "ib0"}]'},
        nccl_env={"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_DISABLE": "1"},
    ),
    "rdma": NodePool(
        name="rdma",
        gpus_per_node=8,
        gpu_model="A100",
        rdma=Rdma(resource="rdma/hca_shared_devices_a", count=2),
        host_network=True,
    ),
    "rdma-restricted": NodePool(
        name="rdma-restricted",
        gpus_per_node=8,
        gpu_model="A100",
        rdma=Rdma(resource="rdma/hca", capabilities=()),
    ),
}
PROGRAMS: dict[str, dict[str, Any]] = {
    "ours": {"impl": "k8sbench", "trainers_by": "configmap"},
    "ours in an image": {"impl": "k8sbench", "trainers_by": "image"},
    "upstream": {
        "impl": "upstream",
        "trainers_by": None,
        "trainers_digest": None,
        "trainer": None,
        "command": ("python", "-m", "torch.distributed.launch", "--node_rank=$(RANK)", "main.py"),
        "workdir": "/workspace/upstream",
    },
    "user": {
        "impl": "user",
        "trainers_by": None,
        "trainers_digest": None,
        "trainer": None,
        "command": ("./train",),
    },
}
TURNS: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "team-queue"},
    {"weights": "pvc:weights/start.pth", "checkpoints": "pvc:kept/team"},
)
Objects = tuple[dict[str, Any], ...]
SOURCES = TrainerSources.from_files(
    {
        "k8sbench/__init__.py": '"""The package."""\n',
        "k8sbench/trainers/__init__.py": "",
        "k8sbench/trainers/resnet50.py": 'print("batch 4 × 32", "\\t")\n\n\nif True:\n    pass\n',
    }
)


def plan(case: str = "4x8", **changes: Any) -> RunPlan:
    """Return a plan with the small trainers above: by default 4x8 of ResNet-50 on PyTorch."""
    return plans.plan(case, **({"trainers_digest": SOURCES.digest} | changes))


def upstream(
    benchmark: str,
    framework: Framework,
    case: str,
    precision: Precision,
    job_kind: str | None = None,
    **asked: Any,
) -> RunPlan:
    """Plan a built-in benchmark's published program, as ``--impl upstream --image X`` does."""
    found = spec_files.load_spec(benchmark)
    replicas, gpus = plan_choices.parse_case(case)
    return planning.make_plan(
        msgspec.structs.replace(found, digest="0" * 64),
        a_request(
            framework=framework,
            impl="upstream",
            replicas=replicas,
            gpus=gpus,
            precision=precision,
            image="registry.example.com/upstream:1",
            **asked,
        ),
        plan_choices.Site(backend="kubernetes", pool=POOLS["plain"], job_kind=job_kind),
        run_id=f"{benchmark}-261120-081500-x7k2qd",
        set_name="example",
        repeat=1,
        trainers_digest=None,
    )


def all_plans() -> Iterator[RunPlan]:
    """Yield all combinations of framework, precision, case, program, data, pool, queueing."""
    for framework, precision, case, program, data, pool, turn in itertools.product(
        ("pytorch", "paddle"),
        ("fp32", "amp"),
        ("1x1", "1x8", "2x8", "4x8"),
        PROGRAMS.values(),
        ("synthetic", "pvc:imagenet/train/jpeg"),
        POOLS.values(),
        TURNS,
    ):
        yield plan(
            case=case,
            framework=framework,
            precision=precision,
            data=data,
            pool=pool,
            **program,
            **turn,
        )


def pool(**changes: Any) -> NodePool:
    """Make the plain pool with whatever is said to be different."""
    return msgspec.structs.replace(POOLS["plain"], **changes)


@functools.cache
def texts() -> dict[str, str]:
    """The project's templates."""
    return templates.template_texts()


@functools.cache
def ready() -> jinja2.Environment:
    """The same, ready to be rendered."""
    return templates.load_templates()


def rendered(wanted: RunPlan) -> Objects:
    """Render a plan with the project's templates and the small sources above."""
    return manifests(wanted, templates=ready(), trainers=SOURCES)


def job(wanted: RunPlan) -> dict[str, Any]:
    """Render a plan and take the job."""
    return rendered(wanted)[-1]


def replicas(wanted: dict[str, Any]) -> dict[str, Any]:
    """The replicas of a job, by type."""
    (found,) = (value for key, value in wanted["spec"].items() if key.endswith("ReplicaSpecs"))
    assert isinstance(found, dict)
    return found


def pod(wanted: RunPlan) -> dict[str, Any]:
    """Render a plan; return its pod template, equal for all replicas."""
    first, *others = (replica["template"] for replica in replicas(job(wanted)).values())
    assert all(other == first for other in others)
    assert isinstance(first, dict)
    return first


def container(wanted: RunPlan) -> dict[str, Any]:
    """Render a plan and take the container of its pods."""
    (found,) = pod(wanted)["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(wanted: RunPlan) -> dict[str, str]:
    """Render a plan and take the variables of its container, which name each once.

    One that the kubelet fills in reads as the path of its field.
    """
    entries = container(wanted)["env"]
    found = {
        entry["name"]: entry["value"]
        if "value" in entry
        else entry["valueFrom"]["fieldRef"]["fieldPath"]
        for entry in entries
    }
    assert len(found) == len(entries)
    return found
