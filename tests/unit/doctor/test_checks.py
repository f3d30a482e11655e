"""What doctor says of what it was told: each finding's severity, and in a golden its sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.facts import ENFORCE, PreflightFacts, Unknown
from k8sbench.model.finding import Finding
from k8sbench.model.pool import CPU_POOL, Rdma, Toleration
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.doctor.clusters import (
    DEFAULT,
    POOL,
    QUICK,
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
KUEUE = {"kubeflow.org": ("v1",), "kueue.x-k8s.io": ("v1beta1",)}
STOPPED = {"type": "Active", "status": "False", "message": "Stopped."}
DEAD = 'Internal error: failed calling webhook "v.training-operator.kubeflow.org": refused'
FULL = 'pytorchjobs "x" is forbidden: exceeded quota: jobs'
RDMA = msgspec.structs.replace(POOL, rdma=Rdma(resource="rdma/hca"))
OF_V100 = msgspec.structs.replace(POOL, selector={"pool": "v100", "other": "x"})


def claim(*modes: str, deleted: bool = False) -> dict[str, Any]:
    """A claim that is bound to a volume."""
    return {
        "metadata": {"deletionTimestamp": "2026-11-20T08:00:00Z"} if deleted else {},
        "spec": {"accessModes": [*modes], "volumeName": "volume-1"},
        "status": {"phase": "Bound", "accessModes": [*modes]},
    }


def tainted(effect: str) -> dict[str, Any]:
    return node("a", taints=[{"key": "team", "value": "x", "effect": effect}])


WISH = Toleration(key="team", operator="Exists", effect="NoSchedule")


class Case(msgspec.Struct, frozen=True):
    """A cluster that differs from a ready one, and the finding that says so."""

    name: str
    finding: str
    """Severity and id."""
    facts: dict[str, Any] = {}
    request: dict[str, Any] = {}

    def findings(self) -> list[Finding]:
        """The findings of the id that have the severity."""
        severity, identifier = self.finding.split()
        return [
            finding
            for finding in findings(request(**self.request), **self.facts)
            if (finding.id, finding.severity) == (identifier, severity)
        ]


def job(message: str) -> dict[str, str]:
    return {"PyTorchJob": message}


PLAIN = without_template(deployment(*QUICK))
NO_OPERATOR = {"groups": {"apps": ("v1",)}, "kinds": (), "own_jobs": {}}
BOTH = {**v2(), "groups": {"kubeflow.org": ("v1",), **v2()["groups"]}}
BOTH |= {"kinds": ("pytorchjobs", "paddlejobs", "trainjobs")}
BOTH["deployments"] = v2(available=0)["deployments"] | deployed(deployment())["deployments"]
V1_DOWN = BOTH | {"deployments": deployed({**deployment(), "status": {}})["deployments"]}
V1_DOWN["deployments"] |= v2()["deployments"]
JOBSET_DOWN = v2()
JOBSET_DOWN["deployments"]["JobSet"]["status"] = {}
CASES = (
    Case("a provider's Kubernetes", "ok api-server", {"version": "v1.30.1-gke.5"}),
    Case("a certificate that is not checked", "warn api-server", {"is_verified": False}),
    Case("no namespace", "fail namespace", {"namespace": None}),
    Case(
        "a namespace that is being deleted",
        "fail namespace",
        {"namespace": {**namespace(), "status": {"phase": "Terminating"}}},
    ),
    Case("no operator", "fail job-kinds", NO_OPERATOR),
    Case("Trainer v2 alone", "ok job-kinds", v2()),
    Case("Trainer v2 alone runs", "ok operator", v2()),
    Case("Trainer v2 alone, and v1 is asked for", "fail job-kinds", v2(), {"job_kind": "v1"}),
    Case("v1 alone, and Trainer v2 is asked for", "fail job-kinds", {}, {"job_kind": "trainjob"}),
    Case(
        "Trainer v2 without JobSet",
        "fail job-kinds",
        {**v2(), "groups": {"trainer.kubeflow.org": ("v1alpha1",)}},
    ),
    Case("Trainer v2 does not run", "fail operator", v2(available=0)),
    Case("JobSet alone does not run", "fail operator", JOBSET_DOWN),
    Case("an older Trainer v2", "warn operator", v2("2.1.0")),
    Case("a gang on Trainer v2", "fail gang", v2(), {"gang": True}),
    Case("both, and Trainer v2 does not run", "warn operator", BOTH),
    Case("both, and v1 does not run", "ok operator", V1_DOWN),
    Case("both, and v1 does not run: a warning", "warn operator", V1_DOWN),
    Case("both, and v1 does not let us in", "fail permissions", BOTH),
    Case("one kind", "warn job-kinds", {"kinds": ("pytorchjobs",)}),
    Case(
        "another kind alone",
        "fail job-kinds",
        {"kinds": ("pytorchjobs",)},
        {"frameworks": ("paddle",)},
    ),
    Case("a dead operator", "fail job-admission", {"own_jobs": job(DEAD)}),
    Case("a policy", "fail job-admission", {"own_jobs": job("denied: no team label")}),
    Case("a quota of jobs", "fail job-admission", {"own_jobs": job(FULL)}),
    Case("an operator without pods", "fail operator", deployed({**deployment(), "status": {}})),
    Case("an old operator", "warn operator", deployed(deployment(*QUICK, image="o:v1.7.0"))),
    Case("an operator without a Deployment", "warn operator", deployed(None)),
    Case("upstream's init container", "fail operator-init-container", deployed(PLAIN)),
    Case(
        "restricted, and an operator that is not seen",
        "warn operator-init-container",
        deployed(FORBIDDEN),
    ),
    Case(
        "baseline, and upstream's init container",
        "ok operator-init-container",
        {**deployed(PLAIN), "namespace": namespace(**{ENFORCE: "baseline"})},
    ),
    Case("restricted, and a pool with RDMA", "fail pod-security", {}, {"pool": RDMA}),
    Case(
        "a quota that is used up",
        "fail quota",
        {"quotas": (quota(**{"requests__nvidia__com/gpu": ("16", "32")}),)},
        {"replicas": 3},
    ),
    Case(
        "a quota with too little memory",
        "fail quota",
        {"quotas": (quota(limits__memory=("0", "300Gi")),)},
    ),
    Case(
        "a quota with room",
        "ok quota",
        {"quotas": (quota(**{"requests__nvidia__com/gpu": ("24", "32")}),)},
    ),
    Case("a quota of other things", "ok quota", {"quotas": (quota(secrets=("1", "1")),)}),
    Case("no nodes", "fail nodes", {"nodes": ()}),
    Case("nodes that are not seen", "warn nodes", {"nodes": FORBIDDEN}),
    Case(
        "a node that is not ready", "warn nodes", {"nodes": (node("a"), node("b", ready="Unknown"))}
    ),
    Case("a cordoned node alone", "fail nodes", {"nodes": (node("a", unschedulable=True),)}),
    Case("a taint that is not tolerated", "fail nodes", {"nodes": (tainted("NoExecute"),)}),
    Case(
        "a taint that the pool tolerates whatever its effect",
        "ok nodes",
        {"nodes": (tainted("NoExecute"),)},
        {
            "pool": msgspec.structs.replace(
                POOL, tolerations=(Toleration(key="team", operator="Exists"),)
            )
        },
    ),
    Case(
        "a taint of another effect than the pool tolerates",
        "fail nodes",
        {"nodes": (tainted("NoExecute"),)},
        {"pool": msgspec.structs.replace(POOL, tolerations=(WISH,))},
    ),
    Case("a taint that is a wish", "ok nodes", {"nodes": (tainted("PreferNoSchedule"),)}),
    Case("no GPU plugin", "fail device-plugin", {"nodes": [node(n, gpus="0") for n in "abcdef"]}),
    Case(
        "one node without device plugin",
        "warn device-plugin",
        {"nodes": (node("a"), node("b", gpus="0"))},
    ),
    Case("nodes that are too small", "fail node-size", {"nodes": (node("a", cpu="32"),)}),
    Case("fewer nodes than replicas", "fail node-size", {}, {"replicas": 3}),
    Case("no Prometheus asked", "warn gpu-metrics", {"prometheus": None}),
    Case("a Prometheus that is refused", "warn gpu-metrics", {"prometheus": refused()}),
    Case("a Prometheus without DCGM", "warn gpu-metrics", {"prometheus": prometheus(())}),
    Case("a Prometheus", "ok gpu-metrics", {}),
    Case("the default counters", "warn gpu-metrics", {"prometheus": prometheus(DEFAULT)}),
    Case("no such claim", "fail data", {"claims": {"c": None}}),
    Case("a claim that is not seen", "warn data", {"claims": {"c": FORBIDDEN}}),
    Case("a claim that is not bound yet", "warn data", {"claims": {"c": PENDING}}),
    Case(
        "a claim for one node, of two replicas",
        "fail data",
        {"claims": {"c": claim("ReadWriteOnce")}},
        {"replicas": 2},
    ),
    Case(
        "a claim that is being deleted",
        "fail data",
        {"claims": {"c": claim("ReadOnlyMany", deleted=True)}},
    ),
    Case(
        "a claim for many to read, of checkpoints",
        "fail data",
        {"claims": {"c": claim("ReadOnlyMany")}},
        {"written": ("c",)},
    ),
    Case(
        "a claim for one node, of checkpoints of one replica",
        "ok data",
        {"claims": {"c": claim("ReadWriteOnce")}},
        {"written": ("c",)},
    ),
    Case(
        "a claim for one node, of checkpoints of two",
        "fail data",
        {"claims": {"c": claim("ReadOnlyMany", "ReadWriteOnce")}},
        {"written": ("c",), "replicas": 2},
    ),
    Case(
        "a claim for many, of two replicas",
        "ok data",
        {"claims": {"c": claim("ReadOnlyMany")}},
        {"replicas": 2},
    ),
    Case("a queue without Kueue", "fail queue", {}, {"queue": "q"}),
    Case("no such queue", "fail queue", {"groups": KUEUE}, {"queue": "q"}),
    Case(
        "a queue that is not seen",
        "warn queue",
        {"groups": KUEUE, "queue": FORBIDDEN},
        {"queue": "q"},
    ),
    Case(
        "a stopped queue",
        "fail queue",
        {"groups": KUEUE, "queue": {"status": {"conditions": [STOPPED]}}},
        {"queue": "q"},
    ),
    Case(
        "a queue of other nodes",
        "fail queue-nodes",
        {"flavors": {"a": {"pool": "a100"}, "spot": {"zone": "b"}}},
        {"queue": "q", "pool": OF_V100},
    ),
    Case(
        "a queue that may not be looked into",
        "warn queue-nodes",
        {"flavors": FORBIDDEN},
        {"queue": "q"},
    ),
    Case("a gang, and an operator that makes none", "fail gang", {}, {"gang": True}),
    Case(
        "a gang, and an operator that makes them",
        "ok gang",
        deployed(deployment("--gang-scheduler-name", "volcano")),
        {"gang": True},
    ),
    Case(
        "a gang, and an operator that is not seen", "warn gang", deployed(FORBIDDEN), {"gang": True}
    ),
)
GOLDEN = Path(__file__).with_name("findings.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_cluster_that_differs_gets_its_finding(case: Case) -> None:
    found = case.findings()
    assert found
    assert case.finding.startswith("ok") or found[0].action


@pytest.mark.parametrize(
    "flavors",
    [{"a": {"pool": "a100"}, "v": {"pool": "v100"}}, {"any": {}}, {"zonal": {"zone": "b"}}],
    ids=["one of them", "any node", "by another label"],
)
def test_a_queue_that_may_give_nodes_of_the_pool_is_no_finding(
    flavors: dict[str, dict[str, str]],
) -> None:
    found = findings(request(queue="q", pool=OF_V100), flavors=flavors)
    assert [one for one in found if one.id == "queue-nodes"] == []


def test_the_sentences_are_those_of_the_golden_file() -> None:
    blocks = [
        f"# {case.name}\n{finding.severity} {finding.id}: {finding.sentence}\n"
        + (f"  {finding.action}\n" if finding.action else "")
        for case in CASES
        for finding in case.findings()
    ]
    text = "\n".join(blocks)
    goldens.check(GOLDEN, text)


def test_a_cluster_that_is_ready_is_ok_in_every_check() -> None:
    assert {finding.severity for finding in findings()} == {"ok"}


def test_what_is_not_seen_has_an_action_and_fails_where_every_user_may_see_it() -> None:
    unseen: dict[str, Any] = {
        field: FORBIDDEN
        for field, kind in PreflightFacts.__annotations__.items()
        if "Unknown" in str(kind)
    }
    unseen |= {"claims": {"c": FORBIDDEN}, **deployed(FORBIDDEN)}
    found = findings(request(queue="q", gang=True), **unseen)
    assert not [one.id for one in found if one.severity == "warn" and one.action is None]
    failed = {one.id for one in found if one.severity == "fail"}
    assert failed == {"api-server", "permissions", "job-kinds", "queue"}


def test_each_resource_that_is_not_allowed_is_a_finding_with_its_verbs() -> None:
    found = findings(
        access=access("create", "pytorchjobs.kubeflow.org", allowed=False)
        | access("delete", "pytorchjobs.kubeflow.org", allowed=False)
        | access("get", "pods/log", allowed=False)
        | access("get", "pods")
        | access("list", "nodes", allowed=False, namespaced=False)
    )
    assert [(one.severity, one.sentence) for one in found if one.id == "permissions"] == [
        ("fail", "You may not create, delete pytorchjobs.kubeflow.org in the namespace team-a."),
        ("fail", "You may not get pods/log in the namespace team-a."),
        ("warn", "You may not list nodes of the cluster."),
    ]


def test_what_is_missing_is_reported_once() -> None:
    message = 'pytorchjobs is forbidden: User "me" cannot create resource "pytorchjobs"'
    found = findings(
        own_jobs=job(message), access=access("create", "pytorchjobs.kubeflow.org", allowed=False)
    )
    assert [one.id for one in found if one.severity == "fail"] == ["permissions"]
    found = findings(nodes=FORBIDDEN)
    assert [one.id for one in found if one.severity != "ok"] == ["nodes"]


def test_a_cluster_with_trainer_v2_alone_is_ready_and_wants_no_permissions_of_v1() -> None:
    found = findings(**v2())
    assert {finding.severity for finding in found} == {"ok"}
    assert "operator-init-container" not in {finding.id for finding in found}


def test_paddle_alone_does_not_mind_the_init_container() -> None:
    found = findings(request(frameworks=("paddle",)), **deployed(PLAIN))
    assert "operator-init-container" not in {one.id for one in found}


def test_a_pool_without_gpus_is_asked_nothing_about_them() -> None:
    found = findings(
        request(pool=CPU_POOL, gpus=0),
        nodes=(node("a", gpus="0"),),
        quotas=(),
        prometheus=None,
    )
    about = {"device-plugin", "node-size"}
    assert not [one.id for one in found if one.id in about or "metrics" in one.id]


def test_the_page_lists_every_check_and_which_of_them_can_fail() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text()
    table = text.partition("## The checks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| (.*) \|$", table, re.MULTILINE)
    assert [check for check, _ in rows] == [check.id for check in checks.CHECKS]
    essential = {check.id for check in checks.CHECKS if check.is_essential}
    failing = {case.finding.split()[1] for case in CASES if case.finding.startswith("fail")}
    can_fail = {check for check, fails in rows if not fails.startswith("never")}
    assert can_fail == failing | essential
