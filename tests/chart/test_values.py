"""Every value, set to something other than its default, changes what it says it changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import yaml

from tests.chart import examples
from tests.harness.helm import NAMESPACE, NOTHING, Helm, find, merged, named, nested
from tests.unit.chart import values

Objects = Sequence[dict[str, Any]]
USER, COLLECTOR = "dlperf-user", "dlperf-collector"
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


def at(kind: str, path: str, name: str | None = None) -> Callable[[Objects], Any]:
    """What stands in an object under keys and indices that dots part."""

    def follow(objects: Objects) -> Any:
        found: Any = find(objects, kind, name)
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found

    return follow


def together(*seen: Callable[[Objects], Any]) -> Callable[[Objects], Any]:
    return lambda objects: tuple(one(objects) for one in seen)


def pod(path: str) -> Callable[[Objects], Any]:
    return at("Deployment", f"spec.template.spec.{path}")


def endpoint(path: str) -> Callable[[Objects], Any]:
    return at("ServiceMonitor", f"spec.endpoints.0.{path}")


def night(path: str) -> Callable[[Objects], Any]:
    return at("CronJob", f"spec.{path}")


def night_pod(path: str) -> Callable[[Objects], Any]:
    return night(f"jobTemplate.spec.template.spec.{path}")


def claim(path: str) -> Callable[[Objects], Any]:
    return at("PersistentVolumeClaim", path)


def policy(path: str) -> Callable[[Objects], Any]:
    return at("NetworkPolicy", f"spec.{path}")


def named_one(
    seen: Callable[[Objects], Any], name: str, path: str = ""
) -> Callable[[Objects], Any]:
    """What one of a list has, which its ``name``, or that of an alert, tells."""

    def follow(objects: Objects) -> Any:
        found = next(
            each for each in seen(objects) if name in (each.get("name"), each.get("alert"))
        )
        for key in filter(None, path.split(".")):
            found = found[key]
        return found

    return follow


def env(name: str, path: str = "value") -> Callable[[Objects], Any]:
    return named_one(pod("containers.0.env"), name, path)


def alert(name: str, path: str) -> Callable[[Objects], Any]:
    return named_one(at("PrometheusRule", "spec.groups.0.rules"), name, path)


def published_pools(key: str) -> Callable[[Objects], Any]:
    text = at("ConfigMap", "data", "dlperf-pools")
    return lambda objects: yaml.safe_load(text(objects)["pools.yaml"])[key]


def board(key: str) -> Callable[[Objects], Any]:
    """What the dashboard has under a key."""
    text = at("ConfigMap", "data", "dlperf-dashboard")
    return lambda objects: json.loads(text(objects)["k8sbench.json"])[key]


def labels(kind: str, name: str | None = None) -> Callable[[Objects], Any]:
    return at(kind, "metadata.labels", name)


def annotated(kind: str, name: str | None = None) -> Callable[[Objects], Any]:
    return at(kind, "metadata.annotations", name)


def count(kind: str, name: str | None = None) -> Callable[[Objects], int]:
    return lambda objects: len(named(objects, kind, name))


def is_within(
    some: Callable[[Objects], dict[str, Any]], every: Callable[[Objects], dict[str, Any]]
) -> Callable[[Objects], bool]:
    return lambda objects: some(objects).items() <= every(objects).items()


NIGHTLY = {"nightly": {"enabled": True}}
MONITOR = {"monitoring": {"serviceMonitor": {"enabled": True}}}
RULES = {"monitoring": {"prometheusRule": {"enabled": True}}}
BASELINE = {"baseline": {"name": "release"}}
POLICY = merged({"networkPolicy": {"enabled": True}}, CIDR)
FROM = {"ipBlock": {"cidr": "10.9.0.1/32"}}
IMAGE, NIGHT_IMAGE = pod("containers.0.image"), night_pod("containers.0.image")
X = {"repository": "x"}
VOLUME = named_one(pod("volumes"), "data")
POD_LABELS = at("Deployment", "spec.template.metadata.labels")
PROMETHEUS = "https://prometheus.example"
CASES: dict[str, Case] = {
    "nameOverride": Case("bench", count("Service", "dlperf-bench-collector"), 1),
    "fullnameOverride": Case("bench", count("Service", "bench-collector"), 1),
    "namespaces": Case(
        ["team-b", "team-c"],
        lambda objects: (
            env("K8SBENCH_NAMESPACES")(objects),
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
    "users.subjects": Case([SUBJECT], at("RoleBinding", "subjects.1", USER), SUBJECT),
    "users.serviceAccount.create": Case(
        False, together(count("ServiceAccount", USER), count("RoleBinding", USER)), (0, 0)
    ),
    "users.serviceAccount.name": Case(
        "pipeline",
        together(at("RoleBinding", "subjects.0.name", USER), count("ServiceAccount", "pipeline")),
        ("pipeline", 1),
    ),
    "users.serviceAccount.annotations": Case({"a": "b"}, annotated("ServiceAccount", USER)),
    "nodePools": Case([examples.POOL], published_pools("pools")),
    "defaultNodePool": Case(
        "h100", published_pools("default"), beside={"nodePools": [examples.POOL]}
    ),
    "prometheus.url": Case(
        PROMETHEUS,
        together(at("ConfigMap", "data.url", "dlperf-prometheus"), env("K8SBENCH_PROMETHEUS")),
        (PROMETHEUS, PROMETHEUS),
    ),
    "collector.image.registry": Case("other:5000", IMAGE, "other:5000/k8sbench-collector:0.2.0"),
    "collector.image.repository": Case("a/b", IMAGE, "registry.example/team/a/b:0.2.0"),
    "collector.image.tag": Case("1", IMAGE, "registry.example/team/k8sbench-collector:1"),
    "collector.image.pullPolicy": Case("Never", pod("containers.0.imagePullPolicy")),
    "collector.startupProbe": Case({"periodSeconds": 9}, pod("containers.0.startupProbe")),
    "collector.livenessProbe": Case({"failureThreshold": 9}, pod("containers.0.livenessProbe")),
    "collector.readinessProbe": Case({"timeoutSeconds": 9}, pod("containers.0.readinessProbe")),
    "collector.imagePullSecrets": Case(
        ["registry", {"name": "other"}],
        pod("imagePullSecrets"),
        [{"name": "registry"}, {"name": "other"}],
    ),
    "collector.logFormat": Case("json", env("K8SBENCH_LOG_FORMAT")),
    "collector.keepLogsFor": Case("90d", env("K8SBENCH_KEEP_LOGS_FOR")),
    "collector.postgresql.secretName": Case(
        "store",
        together(env("K8SBENCH_STORE_FILE"), named_one(pod("volumes"), "store-url", "secret")),
        ("/run/k8sbench/url", {"secretName": "store"}),
    ),
    "collector.postgresql.secretKey": Case(
        "uri",
        env("K8SBENCH_STORE_FILE"),
        "/run/k8sbench/uri",
        beside=nested("collector.postgresql.secretName", "store"),
    ),
    "collector.persistence.enabled": Case(
        False,
        together(VOLUME, count("PersistentVolumeClaim")),
        ({"name": "data", "emptyDir": {}}, 0),
    ),
    "collector.persistence.existingClaim": Case(
        "mine",
        together(VOLUME, count("PersistentVolumeClaim")),
        ({"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, 0),
    ),
    "collector.persistence.storageClass": Case("fast", claim("spec.storageClassName")),
    "collector.persistence.accessModes": Case(["ReadWriteMany"], claim("spec.accessModes")),
    "collector.persistence.size": Case("1Ti", claim("spec.resources.requests.storage")),
    "collector.persistence.annotations": Case({"a": "b"}, annotated("PersistentVolumeClaim")),
    "collector.persistence.keep": Case(
        False, lambda objects: claim("metadata")(objects).get("annotations"), None
    ),
    "collector.resources": Case(
        {"limits": {"memory": "2Gi"}}, pod("containers.0.resources.limits"), {"memory": "2Gi"}
    ),
    "collector.terminationGracePeriodSeconds": Case(5, pod("terminationGracePeriodSeconds")),
    "collector.extraEnv": Case([ENV], env("NO_PROXY", ""), ENV),
    "collector.extraVolumes": Case([CA], pod("volumes.2"), CA),
    "collector.extraVolumeMounts": Case([MOUNT], pod("containers.0.volumeMounts.2"), MOUNT),
    "collector.podSecurityContext": Case({"runAsUser": 7}, pod("securityContext")),
    "collector.securityContext": Case(
        {"readOnlyRootFilesystem": False}, pod("containers.0.securityContext")
    ),
    "collector.topologySpreadConstraints": Case([SPREAD], pod("topologySpreadConstraints")),
    "collector.podAnnotations": Case(
        {"a": "b"}, at("Deployment", "spec.template.metadata.annotations")
    ),
    "collector.podLabels": Case({"a": "b"}, POD_LABELS),
    "collector.nodeSelector": Case({"infra": "true"}, pod("nodeSelector")),
    "collector.tolerations": Case([TOLERATION], pod("tolerations")),
    "collector.affinity": Case(AFFINITY, pod("affinity")),
    "collector.priorityClassName": Case("high", pod("priorityClassName")),
    "collector.serviceAccount.create": Case(
        False, together(pod("serviceAccountName"), count("Role", COLLECTOR)), ("default", 0)
    ),
    "collector.serviceAccount.name": Case(
        "watcher",
        together(pod("serviceAccountName"), at("RoleBinding", "subjects.0.name", COLLECTOR)),
        ("watcher", "watcher"),
    ),
    "collector.serviceAccount.annotations": Case(
        {"a": "b"}, annotated("ServiceAccount", COLLECTOR)
    ),
    "collector.service.annotations": Case({"a": "b"}, annotated("Service")),
    "monitoring.serviceMonitor.enabled": Case(
        True, is_within(at("ServiceMonitor", "spec.selector.matchLabels"), labels("Service"))
    ),
    "monitoring.serviceMonitor.labels": Case(
        {"release": "p"}, labels("ServiceMonitor"), beside=MONITOR
    ),
    "monitoring.serviceMonitor.interval": Case(
        "1m", at("ServiceMonitor", "spec.endpoints.0.interval"), beside=MONITOR
    ),
    "monitoring.prometheusRule.enabled": Case(True, count("PrometheusRule"), 1),
    "monitoring.prometheusRule.labels": Case(
        {"release": "p"}, labels("PrometheusRule"), beside=RULES
    ),
    "monitoring.prometheusRule.stuckFor": Case(
        "1h", alert("K8sbenchStuckJob", "for"), beside=RULES
    ),
    "monitoring.prometheusRule.downFor": Case(
        "1h", alert("K8sbenchCollectorDown", "for"), beside=RULES
    ),
    "monitoring.prometheusRule.freePercent": Case(
        20,
        lambda objects: alert("K8sbenchStoreFull", "expr")(objects).endswith("< 20"),
        True,
        beside=RULES,
    ),
    "monitoring.dashboard.enabled": Case(False, count("ConfigMap", "dlperf-dashboard"), 0),
    "monitoring.dashboard.labels": Case({"d": "1"}, labels("ConfigMap", "dlperf-dashboard")),
    "monitoring.dashboard.collectorUrl": Case(
        "https://bench.example/",
        lambda objects: {
            panel["fieldConfig"]["defaults"]["links"][0]["url"]
            for panel in board("panels")(objects)
            if panel["title"] in {"Throughput of the last run", "Verdict of the last run"}
        },
        {"https://bench.example/?benchmark=${__field.labels.benchmark}&all=true"},
    ),
    "monitoring.dashboard.annotations": Case(
        {"folder": "GPU"}, annotated("ConfigMap", "dlperf-dashboard")
    ),
    "networkPolicy.enabled": Case(
        True, is_within(policy("podSelector.matchLabels"), POD_LABELS), beside=CIDR
    ),
    "networkPolicy.apiServerCIDRs": Case(
        ["10.9.0.1/32"],
        together(policy("egress.1.to"), policy("ingress.0.from.0")),
        ([FROM], FROM),
        beside={"networkPolicy": {"enabled": True}},
    ),
    "monitoring.serviceMonitor.scrapeTimeout": Case(
        "9s", endpoint("scrapeTimeout"), beside=MONITOR
    ),
    "monitoring.serviceMonitor.relabelings": Case(
        [RELABEL], endpoint("relabelings"), beside=MONITOR
    ),
    "monitoring.serviceMonitor.metricRelabelings": Case(
        [RELABEL], endpoint("metricRelabelings"), beside=MONITOR
    ),
    "monitoring.prometheusRule.alertLabels": Case(
        {"severity": "page", "team": "ml"},
        alert("K8sbenchStuckJob", "labels"),
        beside=RULES,
    ),
    "monitoring.prometheusRule.runbookUrl": Case(
        "https://wiki.example/k8sbench",
        alert("K8sbenchStuckJob", "annotations.runbook_url"),
        "https://wiki.example/k8sbench#k8sbenchstuckjob",
        beside=RULES,
    ),
    "networkPolicy.apiServerPorts": Case(
        [16443], policy("egress.1.ports.0.port"), 16443, beside=POLICY
    ),
    "networkPolicy.scrapeNamespaceLabels": Case(
        {"monitors": "all"},
        policy("ingress.0.from.1.namespaceSelector.matchLabels"),
        beside=POLICY,
    ),
    "networkPolicy.extraEgress": Case([RULE], policy("egress.2"), RULE, beside=POLICY),
    "baseline.name": Case(
        "release",
        together(env("K8SBENCH_BASELINE"), alert("K8sbenchRegression", "alert")),
        ("release", "K8sbenchRegression"),
        beside=RULES,
    ),
    "baseline.percent": Case(
        2.5,
        lambda objects: "< 0.9750" in alert("K8sbenchRegression", "expr")(objects),
        True,
        beside=merged(RULES, BASELINE),
    ),
    "nightly.enabled": Case(
        True,
        night_pod("containers.0.args"),
        ["submit", "resnet50", "--all-cases", "--set=$(NIGHT)", "--detach"],
    ),
    "nightly.image.registry": Case(
        "other", NIGHT_IMAGE, "other/x:0.2.0", merged(NIGHTLY, nested("nightly.image", X))
    ),
    "nightly.image.repository": Case("x", NIGHT_IMAGE, "x:0.2.0", beside=NIGHTLY),
    "nightly.image.tag": Case("1", NIGHT_IMAGE, "x:1", merged(NIGHTLY, nested("nightly.image", X))),
    "nightly.image.pullPolicy": Case(
        "Never",
        night_pod("containers.0.imagePullPolicy"),
        beside=merged(NIGHTLY, nested("nightly.image", X)),
    ),
    "nightly.schedule": Case("30 2 * * 1-5", night("schedule"), beside=NIGHTLY),
    "nightly.timeZone": Case("Europe/Berlin", night("timeZone"), beside=NIGHTLY),
    "nightly.submits": Case(
        [["tsm"], ["arcface", "--amp"]],
        lambda objects: [each["args"][1:-2] for each in night_pod("containers")(objects)],
        beside=NIGHTLY,
    ),
    "nightly.suspend": Case(True, night("suspend"), beside=NIGHTLY),
    "nightly.nodeSelector": Case({"infra": "true"}, night_pod("nodeSelector"), beside=NIGHTLY),
    "nightly.tolerations": Case([TOLERATION], night_pod("tolerations"), beside=NIGHTLY),
    "nightly.resources": Case(
        {"limits": {"memory": "1Gi"}},
        night_pod("containers.0.resources.limits"),
        {"memory": "1Gi"},
        beside=NIGHTLY,
    ),
}
IN_NOTES = {"notes.lookup"}
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
