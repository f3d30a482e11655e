"""Doctor's findings by facts: severities, and sentences in a golden file."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from k8sbench import __version__
from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.facts import (
    ENFORCE,
    ObserverFacts,
    PreflightFacts,
    Unknown,
    permissions,
)
from k8sbench.model.benchmark_object import SCHEMA
from k8sbench.model.kube import ServingOperator
from k8sbench.model.operators import TRAINER
from k8sbench.model.pool import CPU_POOL, PRODUCT, Rdma, Toleration
from tests import packaged
from tests.unit import goldens
from tests.unit.chart import values
from tests.unit.doctor.clusters import (
    DEFAULT,
    POOL,
    access,
    deployed,
    deployment,
    findings,
    namespace,
    node,
    prometheus,
    quota,
    refused,
    request,
    v2,
    without_template,
)

FORBIDDEN = Unknown("nodes is forbidden (403)")
PENDING = {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}
KUEUE = ("kubeflow.org", "kueue.x-k8s.io")
ENDING = {**namespace(), "status": {"phase": "Terminating"}}
STOPPED = {"type": "Active", "status": "False", "message": "Stopped."}
DEAD = 'Internal error: failed calling webhook "v.training-operator.kubeflow.org": refused'
FULL = 'pytorchjobs "x" is forbidden: exceeded quota: jobs'
OF_V100 = msgspec.structs.replace(POOL, selector={"pool": "v100", "other": "x"})


def claim(*modes: str) -> dict[str, Any]:
    """A claim that is bound to a volume."""
    return {
        "spec": {"accessModes": [*modes], "volumeName": "volume-1"},
        "status": {"phase": "Bound", "accessModes": [*modes]},
    }


def tainted(effect: str) -> dict[str, Any]:
    return node("a", taints=[{"key": "team", "value": "x", "effect": effect}])


def job(message: str) -> dict[str, Any]:
    return {"refusals": {"PyTorchJob": message}}


def mounted(found: Any, case: str = "1x8", **changes: Any) -> dict[str, Any]:
    """The facts of a run with data on the claim ``c``."""
    return {"claims": {"c": found}, "plan": request(case, data="pvc:c", **changes)}


def kept(found: Any, case: str) -> dict[str, Any]:
    """The facts of a run with checkpoints on the claim ``c``."""
    return {"claims": {"c": found}, "plan": request(case, checkpoints="pvc:c")}


def queued(**changes: Any) -> dict[str, Any]:
    return {"groups": KUEUE, "plan": request(queue="q", pool=OF_V100), **changes}


def pool(**changes: Any) -> dict[str, Any]:
    return {"plan": request(pool=msgspec.structs.replace(POOL, **changes))}


def of_amd(**changes: Any) -> dict[str, Any]:
    return {"plan": msgspec.structs.replace(pool(gpu_resource="amd.com/gpu")["plan"], **changes)}


def quotas(**used_and_hard: tuple[str, str]) -> dict[str, Any]:
    return {"quotas": (quota(**used_and_hard),)}


def served(*, schema: object = SCHEMA, **changes: Any) -> dict[str, Any]:
    """The facts of a namespace that an operator serves."""
    alive: dict[str, Any] = {"version": __version__, "age_s": 3.0, "is_alive": True}
    found = ServingOperator(namespace="bench", name="dlperf-operator", **(alive | changes))
    return {"serving": found, "crd_schema": schema}


GPUS = "requests__nvidia__com/gpu"
SILENT = {"age_s": 7260.0, "is_alive": False}
NO_OBJECTS = {"access": access("create", "benchmarks.k8sbench.io", allowed=False)}
PLAIN = without_template(deployment())
JOBSET_DOWN = v2()
JOBSET_DOWN["deployments"]["JobSet"]["status"] = {}
TAINTED = {"nodes": (tainted("NoExecute"),)}
ANY = {"tolerations": (Toleration(key="team", operator="Exists"),)}
WISH = {"tolerations": (Toleration(key="team", operator="Exists", effect="NoSchedule"),)}
THREE = {"plan": request("3x8")}
SLICED = node("a", product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")
OTHERS = {"a": {"pool": "a100"}, "spot": {"zone": "b"}}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("a provider's Kubernetes", "ok api-server", {"version": "v1.30.1-gke.5"}),
    ("no namespace", "fail namespace", {"namespace": None}),
    ("a namespace that ends", "fail namespace", {"namespace": ENDING}),
    ("no operator of ours", "ok k8sbench-operator", {}),
    ("an operator of ours", "ok k8sbench-operator", served()),
    ("a silent operator of ours", "fail k8sbench-operator", served(**SILENT)),
    ("another version", "warn k8sbench-operator", served(version="0.2.0")),
    ("no CRD of ours", "fail k8sbench-operator", served(schema=None)),
    ("an old CRD of ours", "fail k8sbench-operator", served(schema=SCHEMA - 1)),
    ("a CRD that is not read", "warn k8sbench-operator", served(schema=FORBIDDEN)),
    ("no right to objects", "fail permissions", served() | NO_OBJECTS),
    ("a right that nobody needs", "ok permissions", NO_OBJECTS),
    ("no operator", "fail job-kinds", {"groups": ("apps",), "kinds": ()}),
    ("Trainer v2 alone", "ok job-kinds", v2()),
    ("Trainer v2 alone runs", "ok operator", v2()),
    ("Trainer v2 without JobSet", "fail job-kinds", v2() | {"groups": (TRAINER.group,)}),
    ("Trainer v2 does not run", "fail operator", v2(available=0)),
    ("JobSet alone does not run", "fail operator", JOBSET_DOWN),
    ("an older Trainer v2", "warn operator", v2("2.1.0")),
    ("one kind", "warn job-kinds", {"kinds": ("pytorchjobs",)}),
    ("another kind", "fail job-kinds", {"kinds": ("pytorchjobs",), "asked": ("PaddleJob",)}),
    ("a dead operator", "fail job-admission", job(DEAD)),
    ("a policy", "fail job-admission", job("denied: no team label")),
    ("a quota of jobs", "fail job-admission", job(FULL)),
    ("an operator without pods", "fail operator", deployed(deployment() | {"status": {}})),
    ("an old operator", "warn operator", deployed(deployment(image="o:v1.7.0"))),
    ("upstream's init container", "fail operator-init-container", deployed(PLAIN)),
    ("restricted, and RDMA", "fail pod-security", pool(rdma=Rdma(resource="rdma/hca"))),
    ("a quota that is used up", "fail quota", quotas(**{GPUS: ("16", "32")}) | THREE),
    ("a quota of memory", "fail quota", quotas(limits__memory=("0", "300Gi"))),
    ("a quota with room", "ok quota", quotas(**{GPUS: ("24", "32")})),
    ("a quota of other things", "ok quota", quotas(secrets=("1", "1"))),
    ("no nodes", "fail nodes", {"nodes": ()}),
    ("nodes that are not seen", "warn nodes", {"nodes": FORBIDDEN}),
    ("a node not ready", "warn nodes", {"nodes": (node("a"), node("b", ready="Unknown"))}),
    ("a cordoned node alone", "fail nodes", {"nodes": (node("a", unschedulable=True),)}),
    ("a taint", "fail nodes", TAINTED),
    ("a taint that the pool tolerates whatever its effect", "ok nodes", pool(**ANY) | TAINTED),
    ("a taint of another effect than the pool tolerates", "fail nodes", pool(**WISH) | TAINTED),
    ("a taint that is a wish", "ok nodes", {"nodes": (tainted("PreferNoSchedule"),)}),
    ("no GPU plugin", "fail nodes", {"nodes": [node(n, gpus="0") for n in "abcdef"]}),
    ("nodes that are too small", "fail nodes", {"nodes": (node("a", cpu="32"),)}),
    ("fewer nodes than replicas", "fail nodes", THREE),
    ("GPUs of AMD", "fail gpu-resource", of_amd(image_reason="public framework image")),
    ("GPUs of AMD and an image", "warn gpu-resource", of_amd()),
    ("slices of GPUs", "warn gpu-resource", pool(gpu_resource="nvidia.com/mig-1g.10gb")),
    ("shared GPUs", "warn gpu-resource", pool(gpu_resource="nvidia.com/gpu.shared")),
    ("shared GPUs by the selector", "warn gpu-resource", pool(selector={PRODUCT: "T4-SHARED"})),
    ("a node with slices of GPUs", "warn gpu-resource", {"nodes": (SLICED, node("b"))}),
    ("no Prometheus asked", "warn gpu-metrics", {"prometheus": None}),
    ("a Prometheus that is refused", "warn gpu-metrics", {"prometheus": refused()}),
    ("a Prometheus without DCGM", "warn gpu-metrics", {"prometheus": prometheus(())}),
    ("a Prometheus", "ok gpu-metrics", {}),
    ("the default counters", "warn gpu-metrics", {"prometheus": prometheus(DEFAULT)}),
    ("no such claim", "fail data", mounted(None)),
    ("a claim that is not seen", "warn data", mounted(FORBIDDEN)),
    ("a claim that is not bound yet", "warn data", mounted(PENDING)),
    ("a claim that was lost", "fail data", mounted({**PENDING, "status": {"phase": "Lost"}})),
    ("a claim for one, of two", "fail data", mounted(claim("ReadWriteOnce"), "2x8")),
    ("a claim for many, of two", "ok data", mounted(claim("ReadOnlyMany"), "2x8")),
    ("a claim to read, of checkpoints", "fail data", kept(claim("ReadOnlyMany"), "1x8")),
    ("a claim for one, of checkpoints", "ok data", kept(claim("ReadWriteOnce"), "1x8")),
    ("a claim for one, of checkpoints of two", "fail data", kept(claim("ReadWriteOnce"), "2x8")),
    ("a queue without Kueue", "fail queue", {"plan": request(queue="q")}),
    ("no such queue", "fail queue", queued()),
    ("a queue that is not seen", "warn queue", queued(queue=FORBIDDEN)),
    ("a stopped queue", "fail queue", queued(queue={"status": {"conditions": [STOPPED]}})),
    ("a queue of other nodes", "fail queue-nodes", queued(flavors=OTHERS)),
    ("a queue of nodes that are not seen", "warn queue-nodes", queued(flavors=FORBIDDEN)),
)
"""Name, severity and changed facts of each finding."""


def test_a_cluster_that_differs_gets_its_finding_whose_sentence_is_golden() -> None:
    blocks = []
    for name, expected, facts in CASES:
        found = [one for one in findings(**facts) if f"{one.severity} {one.id}" == expected]
        assert found, name
        for one in found:
            assert one.severity == "ok" or one.action, name
            action = f"  {one.action}\n" if one.action else ""
            blocks.append(f"# {name}\n{expected}: {one.sentence}\n{action}")
    text = "\n".join(blocks).replace(__version__, "VERSION")
    goldens.check(Path(__file__).with_name("findings.txt"), text)


def test_a_cluster_that_is_ready_is_ok_in_every_check() -> None:
    assert {finding.severity for finding in findings()} == {"ok"}


def test_what_is_not_seen_has_an_action_and_fails_where_every_user_may_see_it() -> None:
    unseen: dict[str, Any] = {
        field.name: FORBIDDEN
        for field in msgspec.structs.fields(PreflightFacts)
        if Unknown in get_args(field.type)
    }
    unseen |= {"claims": {"c": FORBIDDEN}, **deployed(FORBIDDEN)}
    found = findings(plan=request(queue="q"), **unseen)
    assert not [one.id for one in found if one.severity == "warn" and one.action is None]
    failed = {one.id for one in found if one.severity == "fail"}
    assert failed == {"api-server", "permissions", "job-kinds", "queue"}


def test_each_warning_of_a_default_installation_of_the_chart_names_the_value_to_set() -> None:
    roles = yaml.safe_load_all(packaged.ROLE.read_text())
    default: dict[str, Any] = {
        "access": {one: one.namespaced for one in permissions(roles)},
        "namespace": namespace(),
        "nodes": FORBIDDEN,
        "prometheus": refused(),
        **deployed(FORBIDDEN),
    }
    paths = [value.path for value in values.described()]

    def warned(**changes: Any) -> list[str]:
        found = [one for one in findings(**default | changes) if one.severity != "ok"]
        assert all(one.severity == "warn" for one in found)
        named = [[path for path in paths if path in str(one.action)] for one in found]
        return sorted("".join(each) for each in named)

    assert warned() == ["listNodes", "prometheus.url"]
    # Kueue's permissions matter where Kueue is installed.
    assert warned(groups=KUEUE) == [*["listNodes"] * 3, "prometheus.url"]
    # Where the operator's own init container would be refused, somebody else must look at it.
    restricted = findings(**default | {"namespace": namespace(**{ENFORCE: "restricted"})})
    assert "operator-init-container" in {one.id for one in restricted if one.severity == "warn"}


def test_what_is_missing_is_reported_once() -> None:
    message = 'pytorchjobs is forbidden: User "me" cannot create resource "pytorchjobs"'
    found = findings(
        **job(message), access=access("create", "pytorchjobs.kubeflow.org", allowed=False)
    )
    assert [one.id for one in found if one.severity == "fail"] == ["permissions"]
    found = findings(nodes=FORBIDDEN)
    assert [one.id for one in found if one.severity != "ok"] == ["nodes"]


def test_only_a_permission_that_each_run_needs_is_a_failure() -> None:
    denied = access("get", "resourcequotas", allowed=False) | access("get", "pods", allowed=False)
    found = [one.severity for one in findings(access=denied) if one.id == "permissions"]
    assert found == ["warn", "fail"]


def test_a_cluster_with_trainer_v2_alone_is_ready_and_wants_no_permissions_of_v1() -> None:
    found = findings(**v2())
    assert {finding.severity for finding in found} == {"ok"}
    assert "operator-init-container" not in {finding.id for finding in found}
    # Nor does Paddle alone mind the init container of v1.
    found = findings(asked=("PaddleJob",), **deployed(PLAIN))
    assert "operator-init-container" not in {one.id for one in found}


def test_a_pool_without_gpus_is_asked_nothing_about_them() -> None:
    bare = {"nodes": (node("a", gpus="0", taints=[]),), "prometheus": None}
    found = findings(plan=request("1x1-cpu", pool=CPU_POOL), **bare)
    assert "gpu-metrics" not in {one.id for one in found}
    assert {finding.severity for finding in found} == {"ok"}


def test_who_observes_needs_each_right_of_what_the_cluster_serves() -> None:
    rights = [
        *permissions(yaml.safe_load_all(packaged.OBSERVER.read_text())),
    ]

    def levels(*denied: str, groups: tuple[str, ...] = ("batch", "trainer.kubeflow.org")) -> str:
        facts = ObserverFacts(
            home="team-a",
            groups=groups,
            rights={one: one.resource not in denied for one in rights},
        )
        found = [one for one in checks.findings(facts) if one.id == "observing"]
        return " ".join(one.severity for one in found)

    assert levels() == "ok ok ok ok ok ok", "trainjobs, jobs, pods, events, logs, nodes"
    assert levels("pytorchjobs", "jobsets", "workloads") == levels()
    assert levels("pods/log", "nodes") == "ok ok ok ok fail warn"
    assert levels("workloads", groups=("batch", "kueue.x-k8s.io")) == "ok ok ok ok warn ok"
