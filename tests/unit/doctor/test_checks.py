"""What doctor says of what it found: each line's level, its sentence, what to do."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.diagnose.preflight import capacity_checks, checks, findings, metrics_checks
from k8sbench.diagnose.preflight.facts import Facts, Line, Refusal, Unknown
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.pool import CPU_POOL, Rdma
from tests.tiers import ROOT
from tests.unit.doctor.clusters import (
    DEFAULT,
    IMAGES,
    POOL,
    QUICK,
    access,
    asked,
    denied,
    deployment,
    exporter,
    facts,
    limits,
    lines,
    namespace,
    node,
    pod,
    prometheus,
    quota,
    read,
    refused,
)

FORBIDDEN = Unknown("nodes is forbidden (403)")
PENDING = {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}


def claim(*modes: str, deleted: bool = False) -> dict[str, Any]:
    """A claim that is bound to a volume."""
    return {
        "metadata": {"deletionTimestamp": "2026-11-20T08:00:00Z"} if deleted else {},
        "spec": {"accessModes": [*modes], "volumeName": "volume-1"},
        "status": {"phase": "Bound", "accessModes": [*modes]},
    }


def of(found: list[Line], identifier: str) -> Line:
    """The one line of that id that is not ok; the only one where all are."""
    lines = [line for line in found if line.id == identifier]
    return next((line for line in lines if line.level != "ok"), lines[0])


def test_a_cluster_that_is_ready_gets_ok_on_every_line() -> None:
    assert {line.level for line in lines()} == {"ok"}


def test_a_line_that_is_not_ok_says_what_to_do() -> None:
    unseen: dict[str, Any] = {
        field: FORBIDDEN for field, kind in Facts.__annotations__.items() if "Unknown" in str(kind)
    }
    unseen |= {"claims": {"c": FORBIDDEN}, "storage_classes": {}}
    worst = msgspec.structs.replace(facts(), **unseen)
    found = checks.lines(worst, asked(queue="q", gang=True), IMAGES)
    assert [line.id for line in found if line.level == "warning" and line.action is None] == []
    # What every user may ask: without it nothing is known.
    failed = {line.id for line in found if line.level == "failure"}
    assert failed == {"api-server", "permissions", "job-kinds", "queue"}


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    (
        "an older Kubernetes",
        {"version": "v1.27.4"},
        {},
        "api-server",
        "warning",
        "expected to work with 1.28 to 1.34, and tested with 1.33",
    ),
    ("a newer one", {"version": "v1.35.0"}, {}, "api-server", "warning", "v1.35.0"),
    ("a provider's version", {"version": "v1.30.1-gke.5"}, {}, "api-server", "ok", "gke"),
    ("no namespace", {"namespace": None}, {}, "namespace", "failure", "no namespace team-a"),
    (
        "one that is being deleted",
        {"namespace": {**namespace(), "status": {"phase": "Terminating"}}},
        {},
        "namespace",
        "failure",
        "is being deleted",
    ),
    (
        "no operator",
        {"groups": {"apps": ("v1",)}, "kinds": (), "wrong_jobs": {}, "own_jobs": {}},
        {},
        "job-kinds",
        "failure",
        "The training operator is not installed",
    ),
    (
        "Trainer v2 alone",
        {"groups": {"trainer.kubeflow.org": ("v1alpha1",)}, "kinds": ()},
        {},
        "job-kinds",
        "failure",
        "Kubeflow Trainer v2 (trainer.kubeflow.org/v1alpha1) is installed",
    ),
    ("one kind only", {"kinds": ("pytorchjobs",)}, {}, "job-kinds", "warning", "PaddleJob"),
    (
        "the wrong kind only",
        {"kinds": ("pytorchjobs",)},
        {"frameworks": ("paddle",)},
        "job-kinds",
        "failure",
        "PaddleJob is not served",
    ),
    (
        "a dead operator",
        {
            "wrong_jobs": {
                "PyTorchJob": Refusal(
                    status=500,
                    message='Internal error: failed calling webhook "validator.pytorchjob.training'
                    '-operator.kubeflow.org": connection refused',
                )
            }
        },
        {},
        "operator-webhook",
        "failure",
        "connection refused",
    ),
    (
        "no webhook",
        {"wrong_jobs": {"PyTorchJob": None}},
        {},
        "operator-webhook",
        "warning",
        "whether the operator runs cannot be seen",
    ),
    (
        "another webhook that refuses",
        {"wrong_jobs": {"PyTorchJob": Refusal(status=403, message="policy says no.")}},
        {},
        "operator-webhook",
        "warning",
        "could not be tried with a PyTorchJob: policy says no",
    ),
    (
        "a policy that refuses our jobs",
        {"own_jobs": {"PyTorchJob": Refusal(status=400, message="denied: no team label")}},
        {},
        "job-admission",
        "failure",
        "denied: no team label",
    ),
    (
        "a quota of jobs that is used up",
        {
            "own_jobs": {
                "PyTorchJob": Refusal(
                    status=403, message='pytorchjobs "x" is forbidden: exceeded quota: jobs'
                )
            }
        },
        {},
        "job-admission",
        "failure",
        "exceeded quota",
    ),
    (
        "an operator without pods",
        {"operator": {**deployment(*QUICK), "status": {}}},
        {},
        "operator",
        "failure",
        "0 of 1 replicas of kubeflow/training-operator",
    ),
    (
        "an old operator",
        {"operator": deployment(*QUICK, image="kubeflow/training-operator:v1.7.0")},
        {},
        "operator",
        "warning",
        "tested with training operator 1.9",
    ),
    ("none to be seen", {"operator": None}, {}, "operator", "warning", "No Deployment"),
    (
        "an operator with its defaults",
        {"operator": deployment()},
        {},
        "operator-rate",
        "warning",
        "--controller-threads=1): it creates the pods of about 1.2 jobs of 4 pods per second",
    ),
    (
        "a slower one",
        {"operator": deployment("--kube-api-qps=10")},
        {},
        "operator-rate",
        "warning",
        "about 0.6 jobs",
    ),
    (
        "restricted, and upstream's init container",
        {"init_template": None},
        {},
        "operator-init-container",
        "failure",
        "has no security context",
    ),
    (
        "restricted, and an operator that may not be looked at",
        {"operator": FORBIDDEN, "init_template": None},
        {},
        "operator-init-container",
        "warning",
        "which one this operator has is not known",
    ),
    (
        "baseline, and upstream's init container",
        {"init_template": None, "namespace": namespace(**{findings.ENFORCE: "baseline"})},
        {},
        "operator-init-container",
        "ok",
        "restricted is not enforced",
    ),
    (
        "restricted, and a pool with RDMA",
        {},
        {"pool": msgspec.structs.replace(POOL, rdma=Rdma(resource="rdma/hca"))},
        "pod-security",
        "failure",
        "capability IPC_LOCK, root user): they will be refused",
    ),
    (
        "a quota that is used up",
        {"quotas": (quota(**{"requests__nvidia__com/gpu": ("32", "32")}),)},
        {},
        "quota",
        "failure",
        "requests.nvidia.com/gpu: 32 of 32 used (gpus), 8 are needed",
    ),
    (
        "a quota with too little memory",
        {"quotas": (quota(limits__memory=("0", "300Gi")),)},
        {},
        "quota",
        "failure",
        "limits.memory: 0 of 300Gi used",
    ),
    (
        "a quota with room",
        {"quotas": (quota(**{"requests__nvidia__com/gpu": ("8", "32")}),)},
        {"replicas": 3},
        "quota",
        "ok",
        "room for 3 replicas of 8 GPUs",
    ),
    (
        "a limit range that is too small for the pods",
        {"limit_ranges": (limits(max={"memory": "100Gi", "cpu": "500"}),)},
        {},
        "limit-range",
        "failure",
        "LimitRange small takes at most 100Gi of memory for a Container, and ",
    ),
    (
        "a limit range for larger pods",
        {"limit_ranges": (limits("Pod", min={"nvidia.com/gpu": "16"}),)},
        {},
        "limit-range",
        "failure",
        "takes at least 16 of nvidia.com/gpu for a Pod, and 8 would be requested",
    ),
    (
        "limit ranges that admit the pods, or are about other things",
        {
            "limit_ranges": (
                limits(max={"nvidia.com/gpu": "8"}, min={"cpu": "1m"}),
                limits(max={"ephemeral-storage": "1"}),
                limits("PersistentVolumeClaim", max={"memory": "1"}),
            )
        },
        {},
        "limit-range",
        "ok",
        "No limit range of team-a forbids the pods.",
    ),
    (
        "limit ranges unseen",
        {"limit_ranges": FORBIDDEN},
        {},
        "limit-range",
        "warning",
        "the limit ranges of team-a",
    ),
    (
        "a quota of other things",
        {"quotas": (quota(secrets=("1", "1")),)},
        {},
        "quota",
        "ok",
        "none of it counts what k8sbench asks for",
    ),
    ("no nodes of the pool", {"nodes": ()}, {}, "nodes", "failure", "Tesla-V100-SXM2-32GB"),
    ("nodes unseen", {"nodes": FORBIDDEN}, {}, "nodes", "warning", "nodes is forbidden (403)"),
    (
        "a node that is not ready",
        {"nodes": (node("a"), node("b", ready="Unknown"))},
        {},
        "nodes",
        "warning",
        "1 of 2 nodes of pool v100-32gb (nvidia.com/gpu.product=Tesla-V100-SXM2-32GB) takes pods",
    ),
    (
        "a cordoned node alone",
        {"nodes": (node("a", unschedulable=True),)},
        {},
        "nodes",
        "failure",
        "a (cordoned)",
    ),
    (
        "a taint that the pool does not tolerate",
        {"nodes": (node("a", taints=[{"key": "team", "value": "x", "effect": "NoExecute"}]),)},
        {},
        "nodes",
        "failure",
        "taint team is not tolerated",
    ),
    (
        "no device plugin",
        {"nodes": (node("a", gpus="0"),)},
        {},
        "device-plugin",
        "failure",
        "1 of 1 node of pool v100-32gb offers no nvidia.com/gpu: a",
    ),
    (
        "one node without",
        {"nodes": (node("a"), node("b", gpus="0"))},
        {},
        "device-plugin",
        "warning",
        "1 of 2 nodes",
    ),
    (
        "nodes that are too small",
        {"nodes": (node("a", cpu="32"),)},
        {},
        "node-size",
        "failure",
        "a offers 8 of nvidia.com/gpu, 32 of cpu, 502Gi of memory",
    ),
    (
        "fewer nodes than replicas",
        {},
        {"replicas": 3},
        "node-size",
        "failure",
        "2 nodes are large enough for a replica",
    ),
    (
        "GPUs that our own jobs hold",
        {"pods": (pod("gpu-0", 8), pod("gpu-1", 4), pod("elsewhere", 8))},
        {},
        "gpus",
        "warning",
        "has 16 GPUs; k8sbench's jobs in team-a hold 12 of them",
    ),
    (
        "nothing has GPU metrics",
        {"prometheus": None, "exporters": (), "exporter": None},
        {},
        "gpu-metrics",
        "warning",
        "they come from the trainers alone",
    ),
    (
        "a Prometheus without DCGM",
        {"prometheus": prometheus(())},
        {},
        "prometheus",
        "warning",
        "it scrapes no DCGM exporter",
    ),
    (
        "a Prometheus that may not be asked",
        {"prometheus": refused("Prometheus")},
        {},
        "prometheus",
        "warning",
        "You may not list pods.",
    ),
    (
        "exporters that may not be listed",
        {"prometheus": None, "exporters": (), "exporter": refused()},
        {},
        "gpu-metrics",
        "warning",
        "DCGM exporters: You may not list pods.",
    ),
    (
        "exporters not seen",
        {"exporters": FORBIDDEN},
        {},
        "gpu-metrics",
        "warning",
        "Not looked at: DCGM exporters",
    ),
    (
        "the default counters",
        {"prometheus": None, "exporter": read(DEFAULT)},
        {},
        "gpu-metrics-fields",
        "warning",
        "lacks DCGM_FI_PROF_SM_ACTIVE, ",
    ),
    (
        "an exporter that names no pods",
        {"prometheus": None, "exporters": (exporter(),), "exporter": read(names_pods=False)},
        {},
        "gpu-metrics-pods",
        "warning",
        "does not say which pod has a GPU: only",
    ),
    (
        "a Prometheus of exporters that name no pods",
        {"exporters": (exporter("-k=false"),)},
        {},
        "gpu-metrics-pods",
        "warning",
        "Prometheus monitoring/prometheus:web does not say which pod has a GPU: only",
    ),
    (
        "a Prometheus of exporters that are not seen",
        {"exporters": (), "exporter": None},
        {},
        "gpu-metrics-pods",
        "warning",
        "as far as is seen",
    ),
    (
        "no such claim",
        {"claims": {"imagenet": None}},
        {},
        "data",
        "failure",
        "no volume claim imagenet",
    ),
    (
        "a claim of a class that is not there",
        {"claims": {"imagenet": PENDING}},
        {},
        "data",
        "failure",
        "is Pending, not Bound: there is no storage class fast",
    ),
    (
        "a claim that is bound when it is used",
        {
            "claims": {"imagenet": PENDING},
            "storage_classes": {"fast": {"volumeBindingMode": "WaitForFirstConsumer"}},
        },
        {},
        "data",
        "ok",
        "is bound when the first pod comes (fast)",
    ),
    (
        "a claim for one node",
        {
            "claims": {
                "imagenet": {
                    "spec": {"accessModes": ["ReadWriteOnce"]},
                    "status": {"phase": "Bound"},
                }
            }
        },
        {"replicas": 2},
        "data",
        "failure",
        "is ReadWriteOnce: 2 replicas on nodes of their own cannot share it",
    ),
    (
        "a claim that is bound at once",
        {"claims": {"imagenet": PENDING}, "storage_classes": {"fast": {}}},
        {},
        "data",
        "failure",
        "is Pending, not Bound, though fast binds at once",
    ),
    (
        "a claim whose class may not be looked at",
        {"claims": {"imagenet": PENDING}, "storage_classes": {"fast": FORBIDDEN}},
        {},
        "data",
        "warning",
        "whether fast binds it when the first pod comes is not known",
    ),
    (
        "a claim that is being deleted",
        {"claims": {"imagenet": claim("ReadOnlyMany", deleted=True)}},
        {},
        "data",
        "failure",
        "is being deleted",
    ),
    (
        "a claim for many to read, of checkpoints",
        {"claims": {"imagenet": claim("ReadOnlyMany")}},
        {"written": ("imagenet",)},
        "data",
        "failure",
        "is ReadOnlyMany: checkpoints cannot be written to it",
    ),
    (
        "a claim for one node, of checkpoints of one replica",
        {"claims": {"imagenet": claim("ReadWriteOnce")}},
        {"written": ("imagenet",)},
        "data",
        "ok",
        "is bound",
    ),
    (
        "a claim for one node, of checkpoints of two",
        {"claims": {"imagenet": claim("ReadOnlyMany", "ReadWriteOnce")}},
        {"written": ("imagenet",), "replicas": 2},
        "data",
        "failure",
        "2 replicas on nodes of their own cannot share it",
    ),
    *(
        (
            f"a volume that is read-only by its {why}",
            {
                "claims": {"imagenet": claim("ReadWriteMany")},
                "volumes": {"volume-1": {"spec": spec}},
            },
            {"written": ("imagenet",)},
            "data",
            "failure",
            f"The volume of claim imagenet is read-only ({why})",
        )
        for why, spec in (
            ("mountOptions: ro", {"mountOptions": ["hard", "ro"]}),
            ("nfs.readOnly", {"nfs": {"server": "s", "path": "/", "readOnly": True}}),
            (
                "csi.volumeAttributes.readOnly",
                {"csi": {"driver": "d", "volumeAttributes": {"readOnly": "true"}}},
            ),
        )
    ),
    (
        "a volume that may not be looked at",
        {
            "claims": {"imagenet": claim("ReadWriteMany")},
            "volumes": {"volume-1": FORBIDDEN},
        },
        {"written": ("imagenet",), "replicas": 2},
        "data",
        "ok",
        "is bound",
    ),
    (
        "a claim that is bound",
        {
            "claims": {
                "imagenet": {
                    "spec": {"accessModes": ["ReadOnlyMany"]},
                    "status": {"phase": "Bound"},
                }
            }
        },
        {"replicas": 2},
        "data",
        "ok",
        "is bound",
    ),
    ("a queue without Kueue", {}, {"queue": "q"}, "queue", "failure", "Kueue is not installed"),
    (
        "no such queue",
        {"groups": {"kubeflow.org": ("v1",), "kueue.x-k8s.io": ("v1beta1",)}},
        {"queue": "q"},
        "queue",
        "failure",
        "no LocalQueue q in team-a",
    ),
    (
        "a stopped queue",
        {
            "groups": {"kubeflow.org": ("v1",), "kueue.x-k8s.io": ("v1beta1",)},
            "queue": {
                "status": {
                    "conditions": [{"type": "Active", "status": "False", "message": "Stopped."}]
                }
            },
        },
        {"queue": "q"},
        "queue",
        "failure",
        "admits nothing: Stopped.",
    ),
    (
        "a gang, and an operator that makes none",
        {},
        {"gang": True},
        "gang",
        "failure",
        "without --gang-scheduler-name",
    ),
    (
        "a gang, and an operator that makes them",
        {"operator": deployment("--gang-scheduler-name", "volcano")},
        {"gang": True},
        "gang",
        "ok",
        "for the scheduler volcano",
    ),
    (
        "a gang, and an operator that may not be looked at",
        {"operator": FORBIDDEN},
        {"gang": True},
        "gang",
        "warning",
        "cannot be seen",
    ),
    (
        "an image without kernels for the pool's GPUs",
        {},
        {"image": "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime"},
        "kernels",
        "warning",
        "no kernels for Tesla-V100-SXM2-32GB",
    ),
    (
        "nodes with other GPUs than the pools file says",
        {"nodes": (node("a", product="NVIDIA-H100-80GB-HBM3"),)},
        {"frameworks": ("paddle",)},
        "kernels",
        "warning",
        "no kernels for NVIDIA-H100-80GB-HBM3",
    ),
    (
        "an image of which nothing is known",
        {},
        {"image": "example.com/mine:1"},
        "kernels",
        "ok",
        "is not known",
    ),
]


@pytest.mark.parametrize(
    ("changed", "wanted", "identifier", "level", "words"),
    [pytest.param(*case[1:], id=case[0].replace(" ", "-")) for case in CASES],
)
def test_what_is_found_gets_its_line(
    changed: dict[str, Any], wanted: dict[str, Any], identifier: str, level: str, words: str
) -> None:
    line = of(lines(asked(**wanted), **changed), identifier)
    assert (line.level, words in line.message) == (level, True), line
    assert level == "ok" or line.action or "kernels" in identifier


def test_each_resource_that_is_not_allowed_has_a_line_with_its_verbs() -> None:
    found = lines(
        access=(
            access("create", "pytorchjobs.kubeflow.org", allowed=False),
            access("delete", "pytorchjobs.kubeflow.org", allowed=False),
            access("get", "pods/log", allowed=False),
            access("get", "pods"),
            access("list", "nodes", allowed=False, namespaced=False),
        )
    )
    assert [(line.level, line.message) for line in found if line.id == "permissions"] == [
        (
            "failure",
            "You may not create, delete pytorchjobs.kubeflow.org in the namespace team-a.",
        ),
        ("failure", "You may not get pods/log in the namespace team-a."),
        ("warning", "You may not list nodes of the cluster."),
    ]


def test_what_is_missing_is_reported_once() -> None:
    forbidden = Refusal(
        status=403,
        message='pytorchjobs is forbidden: User "me" cannot create resource "pytorchjobs"',
    )
    found = lines(
        own_jobs={"PyTorchJob": forbidden},
        access=(access("create", "pytorchjobs.kubeflow.org", allowed=False),),
    )
    assert [line.id for line in found if line.level == "failure"] == ["permissions"]


def test_paddle_alone_does_not_mind_the_init_container() -> None:
    found = lines(asked(frameworks=("paddle",)), init_template=None)
    assert "operator-init-container" not in {line.id for line in found}


def test_a_pool_without_gpus_is_asked_nothing_about_them() -> None:
    found = lines(asked(pool=CPU_POOL, gpus=0), nodes=(node("a", gpus="0"),), quotas=())
    about = {"device-plugin", "gpus", "node-size", "prometheus"}
    assert not [line.id for line in found if line.id in about or "metrics" in line.id]


def test_of_nodes_only_those_count_that_take_a_whole_replica() -> None:
    nodes = (node("a"), node("b", ready="False"), node("c", gpus="4"), node("d"))
    assert capacity_checks.usable_nodes(facts(nodes=nodes), asked()) == 2
    assert capacity_checks.usable_nodes(facts(nodes=nodes), asked(gpus=4)) == 3


def test_the_webhook_of_the_kind_itself_must_answer() -> None:
    line = of(lines(wrong_jobs={"PaddleJob": denied("PyTorchJob")}), "operator-webhook")
    assert line.level == "warning"


def test_what_is_installed_for_queues_is_named() -> None:
    groups = {"kubeflow.org": ("v1",), "scheduling.volcano.sh": ("v1beta1",)}
    assert of(lines(groups=groups), "queueing").message == (
        "Installed: Volcano (scheduling.volcano.sh)."
    )


def test_the_page_lists_every_line_that_there_is() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text()
    table = text.partition("## The lines")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    reported = {line.id for line in lines()}
    reported |= {line.id for case in CASES for line in lines(asked(**case[2]), **case[1])}
    assert len(listed) == len(set(listed))
    assert set(listed) == reported


def test_of_gpu_metrics_it_says_what_they_are_and_how_often() -> None:
    found = of(lines(), "prometheus").message
    assert found.startswith("Prometheus monitoring/prometheus:web has gpu_utilization, gr_engine_")
    assert found.endswith("pcie_received, every 15 s.")
    found = of(lines(prometheus=None), "gpu-metrics").message
    assert found.startswith(
        "1 DCGM exporter, read directly: DCGM exporter gpu-operator/dcgm-x1 has"
    )
    assert found.endswith("every 30 s.")


def test_whoever_needs_no_exporter_is_not_asked_to_get_at_one() -> None:
    for changes in ({"exporter": refused(), "exporters": ()}, {"exporter": None, "exporters": ()}):
        assert of(lines(**changes), "gpu-metrics").level == "ok"


def test_what_an_administrator_may_apply_is_given_with_the_line() -> None:
    role = of(lines(prometheus=refused("Prometheus")), "prometheus")
    assert role.manifest == "kind: Role\n"
    found = of(lines(prometheus=prometheus(DEFAULT)), "gpu-metrics-fields")
    given = yaml.safe_load(found.manifest or "")
    assert given["data"]["metrics"] == given["data"]["dcgm-metrics.csv"]
    rows = [line.split(", ", 2) for line in given["data"]["metrics"].splitlines()]
    assert {name for name, *_ in rows} == {m.dcgm[0].name for m in METRICS if m.dcgm}
    assert {name for name, kind, _ in rows if kind == "counter"} == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    }
    assert {len(row) for row in rows} == {3}
    assert not any("," in title for *_, title in rows)


@pytest.mark.parametrize(
    ("pod", "seconds", "mapped"),
    [
        (exporter(), 30.0, False),
        (exporter(DCGM_EXPORTER_INTERVAL="10000", DCGM_EXPORTER_KUBERNETES="true"), 10.0, True),
        (exporter("-f", "x.csv", "-c", "1000", "--kubernetes"), 1.0, True),
        (exporter("--collect-interval=5000", "-k=false"), 5.0, False),
        (exporter("-k", "-c", "2000"), 2.0, True),
        (exporter(DCGM_EXPORTER_INTERVAL="soon", DCGM_EXPORTER_KUBERNETES="false"), 30.0, False),
    ],
)
def test_an_exporters_settings_are_read(pod: dict[str, Any], seconds: float, mapped: bool) -> None:
    assert metrics_checks.interval(pod) == seconds
    assert metrics_checks.names_pods(pod) is mapped
