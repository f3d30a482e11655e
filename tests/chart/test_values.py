"""Every value, set to something other than its default, changes what it says it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import yaml

from tests.chart import examples
from tests.harness.helm import NAMESPACE, NOTHING, Helm, find, merged, named, nested
from tests.unit.chart import values

Objects = Sequence[dict[str, Any]]
USER, COLLECTOR = "dlperf-user", "dlperf-collector"
OTHER_IMAGE = "registry.example/other:1"
TOLERATION = {"key": "infra", "operator": "Exists"}
AFFINITY: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
SUBJECT = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
RULE = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 5432}]}
ENV = {"name": "NO_PROXY", "value": ".svc"}
CA = {"name": "ca", "secret": {"secretName": "ca"}}
MOUNT = {"name": "ca", "mountPath": "/etc/ca", "readOnly": True}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
RELABEL = {"action": "labeldrop", "regex": "pod"}
MONITOR = {"monitoring": {"serviceMonitor": {"enabled": True}}}
CIDR = {"networkPolicy": {"apiServerCIDRs": ["10.88.0.1/32"]}}


class Case(NamedTuple):
    """A value other than the default, and where it is found in what is rendered."""

    value: Any
    seen: Callable[[Objects], Any]
    shown: Any = ...
    """What is found; by default the value itself."""
    beside: Mapping[str, Any] = NOTHING
    """Other values, without which this one has no effect."""


def deployment(objects: Objects) -> dict[str, Any]:
    return find(objects, "Deployment")


def pod(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = deployment(objects)["spec"]["template"]["spec"]
    return found


def container(objects: Objects) -> dict[str, Any]:
    (found,) = pod(objects)["containers"]
    assert isinstance(found, dict)
    return found


def endpoint(objects: Objects) -> dict[str, Any]:
    (found,) = find(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert isinstance(found, dict)
    return found


def claim(objects: Objects) -> dict[str, Any]:
    return find(objects, "PersistentVolumeClaim")


def published_pools(objects: Objects) -> dict[str, Any]:
    found = yaml.safe_load(find(objects, "ConfigMap", "dlperf-pools")["data"]["pools.yaml"])
    assert isinstance(found, dict)
    return found


def env(objects: Objects, name: str) -> Any:
    return next(each for each in container(objects)["env"] if each["name"] == name)


def volume(objects: Objects) -> Any:
    return next(each for each in pod(objects)["volumes"] if each["name"] == "data")


def night(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = find(objects, "CronJob")["spec"]
    return found


def night_pod(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = night(objects)["jobTemplate"]["spec"]["template"]["spec"]
    return found


def alerts(objects: Objects) -> list[dict[str, Any]]:
    (group,) = find(objects, "PrometheusRule")["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def alert(objects: Objects, name: str) -> dict[str, Any]:
    return next(each for each in alerts(objects) if each["alert"] == name)


def policy(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = find(objects, "NetworkPolicy")["spec"]
    return found


def labels(kind: str, name: str | None = None) -> Callable[[Objects], Any]:
    return lambda objects: find(objects, kind, name)["metadata"]["labels"]


def annotated(kind: str, name: str | None = None) -> Callable[[Objects], Any]:
    return lambda objects: find(objects, kind, name)["metadata"]["annotations"]


def count(kind: str, name: str | None = None) -> Callable[[Objects], int]:
    return lambda objects: len(named(objects, kind, name))


def subjects(objects: Objects) -> Any:
    return find(objects, "RoleBinding", USER)["subjects"]


NIGHTLY = {"nightly": {"enabled": True}}
MONITOR = {"monitoring": {"serviceMonitor": {"enabled": True}}}
RULES = {"monitoring": {"prometheusRule": {"enabled": True}}}
BASELINE = {"baseline": {"name": "release"}}
POLICY = merged({"networkPolicy": {"enabled": True}}, CIDR)
CASES: dict[str, Case] = {
    "nameOverride": Case("bench", count("Service", "dlperf-bench-collector"), 1),
    "fullnameOverride": Case("bench", count("Service", "bench-collector"), 1),
    "commonLabels": Case({"team": "a"}, labels("Service")),
    "namespaces": Case(
        ["team-b", "team-c"],
        lambda objects: (
            env(objects, "K8SBENCH_NAMESPACES")["value"],
            [each["metadata"]["namespace"] for each in named(objects, "Role", USER)],
            [each["metadata"]["namespace"] for each in named(objects, "RoleBinding", COLLECTOR)],
            find(objects, "Role", f"{COLLECTOR}-lease")["metadata"]["namespace"],
        ),
        ("team-b,team-c", ["team-b", "team-c"], ["team-b", "team-c"], NAMESPACE),
    ),
    "listNodes": Case(
        True,
        lambda objects: [each["name"] for each in find(objects, "ClusterRoleBinding")["subjects"]],
        [USER, COLLECTOR],
    ),
    "users.create": Case(
        False,
        lambda objects: [each["metadata"]["name"] for each in named(objects, "ServiceAccount")],
        [COLLECTOR],
    ),
    "users.subjects": Case([SUBJECT], lambda objects: subjects(objects)[1:]),
    "users.serviceAccount.create": Case(
        False,
        lambda objects: (
            count("ServiceAccount", USER)(objects),
            count("RoleBinding", USER)(objects),
        ),
        (0, 0),
    ),
    "users.serviceAccount.name": Case(
        "pipeline",
        lambda objects: (
            subjects(objects)[0]["name"],
            count("ServiceAccount", "pipeline")(objects),
        ),
        ("pipeline", 1),
    ),
    "users.serviceAccount.annotations": Case({"a": "b"}, annotated("ServiceAccount", USER)),
    "nodePools": Case([examples.POOL], lambda objects: published_pools(objects)["pools"]),
    "defaultNodePool": Case(
        "h100",
        lambda objects: published_pools(objects)["default"],
        beside={"nodePools": [examples.POOL]},
    ),
    "prometheus.url": Case(
        "https://prometheus.example",
        lambda objects: (
            find(objects, "ConfigMap", "dlperf-prometheus")["data"]["url"],
            env(objects, "K8SBENCH_PROMETHEUS")["value"],
        ),
        ("https://prometheus.example", "https://prometheus.example"),
    ),
    "collector.image": Case(OTHER_IMAGE, lambda objects: container(objects)["image"]),
    "collector.imagePullPolicy": Case(
        "Never", lambda objects: container(objects)["imagePullPolicy"]
    ),
    "collector.imagePullSecrets": Case(
        ["registry", {"name": "other"}],
        lambda objects: pod(objects)["imagePullSecrets"],
        [{"name": "registry"}, {"name": "other"}],
    ),
    "collector.keepLogsFor": Case(
        "90d", lambda objects: env(objects, "K8SBENCH_KEEP_LOGS_FOR")["value"]
    ),
    "collector.postgresql.secretName": Case(
        "store",
        lambda objects: env(objects, "K8SBENCH_STORE")["valueFrom"]["secretKeyRef"],
        {"name": "store", "key": "url"},
    ),
    "collector.postgresql.secretKey": Case(
        "uri",
        lambda objects: env(objects, "K8SBENCH_STORE")["valueFrom"]["secretKeyRef"]["key"],
        beside=nested("collector.postgresql.secretName", "store"),
    ),
    "collector.persistence.enabled": Case(
        False,
        lambda objects: (volume(objects), count("PersistentVolumeClaim")(objects)),
        ({"name": "data", "emptyDir": {}}, 0),
    ),
    "collector.persistence.existingClaim": Case(
        "mine",
        lambda objects: (
            volume(objects)["persistentVolumeClaim"]["claimName"],
            count("PersistentVolumeClaim")(objects),
        ),
        ("mine", 0),
    ),
    "collector.persistence.storageClass": Case(
        "fast", lambda objects: claim(objects)["spec"]["storageClassName"]
    ),
    "collector.persistence.accessModes": Case(
        ["ReadWriteMany"], lambda objects: claim(objects)["spec"]["accessModes"]
    ),
    "collector.persistence.size": Case(
        "1Ti", lambda objects: claim(objects)["spec"]["resources"]["requests"]["storage"]
    ),
    "collector.persistence.annotations": Case({"a": "b"}, annotated("PersistentVolumeClaim")),
    "collector.persistence.keep": Case(
        False, lambda objects: claim(objects)["metadata"].get("annotations"), None
    ),
    "collector.resources": Case(
        {"limits": {"memory": "2Gi"}},
        lambda objects: container(objects)["resources"]["limits"],
        {"memory": "2Gi"},
    ),
    "collector.terminationGracePeriodSeconds": Case(
        5, lambda objects: pod(objects)["terminationGracePeriodSeconds"]
    ),
    "collector.extraEnv": Case([ENV], lambda objects: env(objects, "NO_PROXY"), ENV),
    "collector.extraVolumes": Case([CA], lambda objects: pod(objects)["volumes"][2:], [CA]),
    "collector.extraVolumeMounts": Case(
        [MOUNT], lambda objects: container(objects)["volumeMounts"][2:], [MOUNT]
    ),
    "collector.podSecurityContext": Case(
        {"runAsUser": 7}, lambda objects: pod(objects)["securityContext"]
    ),
    "collector.securityContext": Case(
        {"readOnlyRootFilesystem": False}, lambda objects: container(objects)["securityContext"]
    ),
    "collector.topologySpreadConstraints": Case(
        [SPREAD], lambda objects: pod(objects)["topologySpreadConstraints"]
    ),
    "collector.podAnnotations": Case(
        {"a": "b"},
        lambda objects: deployment(objects)["spec"]["template"]["metadata"]["annotations"],
    ),
    "collector.podLabels": Case(
        {"a": "b"}, lambda objects: deployment(objects)["spec"]["template"]["metadata"]["labels"]
    ),
    "collector.nodeSelector": Case({"infra": "true"}, lambda objects: pod(objects)["nodeSelector"]),
    "collector.tolerations": Case([TOLERATION], lambda objects: pod(objects)["tolerations"]),
    "collector.affinity": Case(AFFINITY, lambda objects: pod(objects)["affinity"]),
    "collector.priorityClassName": Case("high", lambda objects: pod(objects)["priorityClassName"]),
    "collector.serviceAccount.create": Case(
        False,
        lambda objects: (pod(objects)["serviceAccountName"], count("Role", COLLECTOR)(objects)),
        ("default", 0),
    ),
    "collector.serviceAccount.name": Case(
        "watcher",
        lambda objects: (
            pod(objects)["serviceAccountName"],
            find(objects, "RoleBinding", COLLECTOR)["subjects"][0]["name"],
        ),
        ("watcher", "watcher"),
    ),
    "collector.serviceAccount.annotations": Case(
        {"a": "b"}, annotated("ServiceAccount", COLLECTOR)
    ),
    "collector.service.annotations": Case({"a": "b"}, annotated("Service")),
    "monitoring.serviceMonitor.enabled": Case(
        True,
        lambda objects: (
            find(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
            <= labels("Service")(objects).items()
        ),
    ),
    "monitoring.serviceMonitor.labels": Case(
        {"release": "p"}, labels("ServiceMonitor"), beside=MONITOR
    ),
    "monitoring.serviceMonitor.interval": Case(
        "1m",
        lambda objects: find(objects, "ServiceMonitor")["spec"]["endpoints"][0]["interval"],
        beside=MONITOR,
    ),
    "monitoring.prometheusRule.enabled": Case(True, count("PrometheusRule"), 1),
    "monitoring.prometheusRule.labels": Case(
        {"release": "p"}, labels("PrometheusRule"), beside=RULES
    ),
    "monitoring.prometheusRule.stuckFor": Case(
        "1h", lambda objects: alert(objects, "K8sbenchStuckJob")["for"], beside=RULES
    ),
    "monitoring.prometheusRule.downFor": Case(
        "1h", lambda objects: alert(objects, "K8sbenchCollectorDown")["for"], beside=RULES
    ),
    "monitoring.prometheusRule.freePercent": Case(
        20,
        lambda objects: alert(objects, "K8sbenchStoreFull")["expr"].endswith("< 20"),
        True,
        beside=RULES,
    ),
    "monitoring.dashboard.enabled": Case(False, count("ConfigMap", "dlperf-dashboard"), 0),
    "monitoring.dashboard.labels": Case({"d": "1"}, labels("ConfigMap", "dlperf-dashboard")),
    "monitoring.dashboard.annotations": Case(
        {"folder": "GPU"}, annotated("ConfigMap", "dlperf-dashboard")
    ),
    "networkPolicy.enabled": Case(
        True,
        lambda objects: (
            policy(objects)["podSelector"]["matchLabels"].items()
            <= deployment(objects)["spec"]["template"]["metadata"]["labels"].items()
        ),
        beside=CIDR,
    ),
    "networkPolicy.apiServerCIDRs": Case(
        ["10.9.0.1/32"],
        lambda objects: (
            policy(objects)["egress"][1]["to"],
            policy(objects)["ingress"][0]["from"][0],
        ),
        ([{"ipBlock": {"cidr": "10.9.0.1/32"}}], {"ipBlock": {"cidr": "10.9.0.1/32"}}),
        beside={"networkPolicy": {"enabled": True}},
    ),
    "monitoring.serviceMonitor.scrapeTimeout": Case(
        "9s", lambda objects: endpoint(objects)["scrapeTimeout"], beside=MONITOR
    ),
    "monitoring.serviceMonitor.relabelings": Case(
        [RELABEL], lambda objects: endpoint(objects)["relabelings"], beside=MONITOR
    ),
    "monitoring.serviceMonitor.metricRelabelings": Case(
        [RELABEL], lambda objects: endpoint(objects)["metricRelabelings"], beside=MONITOR
    ),
    "monitoring.prometheusRule.alertLabels": Case(
        {"severity": "page", "team": "ml"},
        lambda objects: [one["labels"] for one in alerts(objects) if "job" not in one["labels"]],
        [{"severity": "page", "team": "ml"}] * 3,
        beside=RULES,
    ),
    "monitoring.prometheusRule.runbookUrl": Case(
        "https://wiki.example/k8sbench",
        lambda objects: alert(objects, "K8sbenchStuckJob")["annotations"]["runbook_url"],
        "https://wiki.example/k8sbench#k8sbenchstuckjob",
        beside=RULES,
    ),
    "networkPolicy.apiServerPorts": Case(
        [16443],
        lambda objects: [each["port"] for each in policy(objects)["egress"][1]["ports"]],
        beside=POLICY,
    ),
    "networkPolicy.scrapeNamespaceLabels": Case(
        {"monitors": "all"},
        lambda objects: policy(objects)["ingress"][0]["from"][1]["namespaceSelector"][
            "matchLabels"
        ],
        beside=POLICY,
    ),
    "networkPolicy.extraEgress": Case(
        [RULE], lambda objects: policy(objects)["egress"][2:], beside=POLICY
    ),
    "baseline.name": Case(
        "release",
        lambda objects: (
            env(objects, "K8SBENCH_BASELINE")["value"],
            night_pod(objects)["containers"][-1]["args"],
            "K8sbenchRegression" in {each["alert"] for each in alerts(objects)},
        ),
        (
            "release",
            [
                *("compare", "baseline:release", "set:$(NIGHT)", "--store=cluster", "--wait=12h"),
                "--fail-on-regression=3%",
            ],
            True,
        ),
        beside=merged(NIGHTLY, RULES),
    ),
    "baseline.percent": Case(
        2.5,
        lambda objects: (
            night_pod(objects)["containers"][-1]["args"][-1],
            "< 0.9750" in alert(objects, "K8sbenchRegression")["expr"],
        ),
        ("--fail-on-regression=2.5%", True),
        beside=merged(NIGHTLY, RULES, BASELINE),
    ),
    "nightly.compareWithin": Case(
        "90m",
        lambda objects: night_pod(objects)["containers"][-1]["args"][-2],
        "--wait=90m",
        beside=merged(NIGHTLY, BASELINE),
    ),
    "nightly.enabled": Case(
        True,
        lambda objects: night_pod(objects)["containers"][0]["args"],
        ["submit", "resnet50", "--all-cases", "--set=$(NIGHT)", "--detach"],
    ),
    "nightly.image": Case(
        OTHER_IMAGE, lambda objects: night_pod(objects)["containers"][0]["image"], beside=NIGHTLY
    ),
    "nightly.schedule": Case(
        "30 2 * * 1-5", lambda objects: night(objects)["schedule"], beside=NIGHTLY
    ),
    "nightly.timeZone": Case(
        "Europe/Berlin", lambda objects: night(objects)["timeZone"], beside=NIGHTLY
    ),
    "nightly.submits": Case(
        [["tsm"], ["arcface", "--amp"]],
        lambda objects: [each["args"][1:-2] for each in night_pod(objects)["containers"]],
        beside=NIGHTLY,
    ),
    "nightly.suspend": Case(True, lambda objects: night(objects)["suspend"], beside=NIGHTLY),
    "nightly.nodeSelector": Case(
        {"infra": "true"}, lambda objects: night_pod(objects)["nodeSelector"], beside=NIGHTLY
    ),
    "nightly.tolerations": Case(
        [TOLERATION], lambda objects: night_pod(objects)["tolerations"], beside=NIGHTLY
    ),
    "nightly.resources": Case(
        {"limits": {"memory": "1Gi"}},
        lambda objects: night_pod(objects)["containers"][0]["resources"]["limits"],
        {"memory": "1Gi"},
        beside=NIGHTLY,
    ),
}
IN_NOTES = {"notes.lookup", "notes.podSecurity"}
"""Only an install shows them: tests/cluster/test_chart.py."""


def test_every_value_has_its_test_with_something_other_than_its_default() -> None:
    assert set(CASES) | IN_NOTES == {value.path for value in values.described()}
    for path, case in CASES.items():
        assert case.value != values.at(values.defaults(), path), path


@pytest.mark.parametrize("path", CASES)
def test_a_value_shows_in_what_is_rendered(newest: Helm, path: str) -> None:
    case = CASES[path]
    found = case.seen(
        newest.template(merged(examples.COLLECTOR, case.beside, nested(path, case.value)))
    )
    shown = case.value if case.shown is ... else case.shown
    if isinstance(shown, dict) and isinstance(found, dict):
        # Labels and annotations stand beside the chart's own.
        found = {key: found.get(key) for key in shown}
    assert found == shown
