"""Rendered chart: goldens and edge cases.

Edge cases are false, 0, empty, null and long names. Renew the goldens with ``make golden``.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from starlette.routing import Route

from k8sbench import __version__
from k8sbench.operator import http
from k8sbench.operator.controller import OperatorSettings, OperatorState
from tests.chart import examples
from tests.harness.helm import (
    NAMESPACE,
    Helm,
    HelmFailed,
    find,
    merged,
    named,
    nested,
)
from tests.unit import goldens
from tests.unit.chart import values

PODS = {"Deployment", "CronJob", "Job", "StatefulSet", "DaemonSet", "Pod"}
LONGEST_RELEASE = "a" * 53
"""As long as Helm takes it."""
MONITORING, TURNED_OFF = ("serviceMonitor", "prometheusRule", "dashboard"), {"enabled": False}
LONGEST = {"CronJob": 52, "Service": 63, "Deployment": 63}
"""Kind → characters that its controller leaves to a name."""


def test_without_an_image_there_is_nothing_that_runs_or_waits(newest: Helm) -> None:
    off: dict[str, Any] = {"operator": {"image": {"repository": ""}}}
    off |= {"nightly": TURNED_OFF, "monitoring": dict.fromkeys(MONITORING, TURNED_OFF)}
    off |= {"backup": TURNED_OFF}
    everything_else = merged(examples.ALL, off)
    for given in ({}, everything_else):
        kinds = {each["kind"] for each in newest.template(given)}
        assert not kinds & {*PODS, "Service", "PersistentVolumeClaim", "NetworkPolicy"}
        assert {"ServiceAccount", "Role", "RoleBinding"} <= kinds


def test_every_object_says_whose_it_is_and_is_in_the_release_s_namespace(newest: Helm) -> None:
    # These are texts that YAML takes for a number and for false.
    named_so = merged(examples.ALL, {"fullnameOverride": "bench"})
    for each in newest.template(named_so, release="2024", namespace="no"):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "dlperf"
        assert labels["app.kubernetes.io/instance"] == "2024"
        assert isinstance(each["metadata"].get("namespace", ""), str)
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert ("namespace" in each["metadata"]) != each["kind"].startswith("ClusterRole")


def test_users_of_other_namespaces_may_read_the_operator_and_find_it(newest: Helm) -> None:
    teams = ("team-b", "team-c")
    subjects = [{"kind": "Group", "name": name, "namespaces": [name]} for name in teams]
    given = merged(examples.OPERATOR, {"namespaces": [*teams], "users": {"subjects": subjects}})
    objects = newest.template(given)
    bound = {
        (each["metadata"]["name"], each["metadata"]["namespace"]): [
            subject["name"] for subject in each["subjects"] if subject["kind"] == "Group"
        ]
        for each in named(objects, "RoleBinding")
    }
    assert bound["dlperf-user", "team-b"] == ["team-b"]
    assert bound["dlperf-user", "team-c"] == ["team-c"]
    assert bound["dlperf-user-reads", NAMESPACE] == [*teams]
    role = find(objects, "Role", "dlperf-user-reads")
    assert [rule["verbs"] for rule in role["rules"]] == [["get"], ["get"]]
    assert all(len(rule["resourceNames"]) == 1 for rule in role["rules"])
    for name, verbs in (
        ("dlperf-user", [["get"]]),
        ("dlperf-operator", [["create"], ["get", "patch"]]),
    ):
        for each in named(objects, "Role", name):
            leases = [rule["verbs"] for rule in each["rules"] if rule["resources"] == ["leases"]]
            assert (each["metadata"]["namespace"] in teams, leases) == (True, verbs)
    at_home = newest.template(examples.OPERATOR)
    assert not named(at_home, "Role", "dlperf-user-reads")
    nightly = newest.template(merged(given, {"nightly": {"enabled": True}}))
    (container,) = find(nightly, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert "--namespace=team-b" in container["args"]
    subjects[0]["namespaces"] = ["team-d"]
    with pytest.raises(HelmFailed, match="team-d"):
        newest.template(given)


def test_names_stay_within_what_kubernetes_takes_and_tell_two_releases_apart(newest: Helm) -> None:
    objects = newest.template(examples.ALL, release=LONGEST_RELEASE)
    for each in objects:
        assert len(each["metadata"]["name"]) <= LONGEST.get(each["kind"], 253)
        assert all(len(str(value)) <= 63 for value in each["metadata"]["labels"].values())
        assert not each["metadata"]["name"].endswith("-")
    other = {each["metadata"]["name"] for each in newest.template(examples.ALL, release="b")}
    same = other & {each["metadata"]["name"] for each in objects}
    # By these names the command line finds them.
    assert same == {"dlperf-pools", "dlperf-prometheus"}


NO_IMAGES = {
    "repository": ("r.io/Team/image", "image:1", "https://r/i", " "),
    "tag": (":1", "a:b", "@sha256", "a/b"),
    "registry": ("https://registry.example",),
}
"""Parts that no kubelet takes."""
BACKUP = merged(examples.OPERATOR, {"backup": {"enabled": True, "claim": "archives"}})
ONE_POD = nested("operator.persistence.accessModes", ["ReadWriteOncePod"])
SCRAPED = merged(
    examples.OPERATOR,
    nested("monitoring.serviceMonitor", {"enabled": True, "interval": "60s"}),
)
TIMEOUT = "monitoring.serviceMonitor.scrapeTimeout"
NIGHTLY = merged(examples.OPERATOR, {"nightly": {"enabled": True}})
BESIDE = {"networkPolicy.apiServerCIDRs", "nodePools", "nightly.image.repository", "backup.claim"}
REQUIRED = {*values.required(), *BESIDE}
"""The last ones because of what else is turned on."""


OPTIONAL = {value.path for value in values.described()} - REQUIRED


@pytest.mark.parametrize("path", sorted({value.path for value in values.described()} & REQUIRED))
def test_null_is_refused_by_name_where_there_must_be_a_value(newest: Helm, path: str) -> None:
    with pytest.raises(HelmFailed, match=path.rpartition(".")[2]):
        newest.template(merged(examples.ALL, nested(path, None)))


def test_null_leaves_no_field_empty_where_there_need_be_no_value(newest: Helm) -> None:
    # Without an image there is no operator.
    nothing = (nested(path, None) for path in OPTIONAL - {"operator.image.repository"})
    objects = newest.template(merged(examples.ALL, *nothing))
    assert {"Deployment", "CronJob"} <= {each["kind"] for each in objects}
    assert all(_whole(each) for each in objects)


def _whole(thing: Any) -> bool:
    """Return True if no field is null.

    Templates render a missing value as null.
    """
    if isinstance(thing, dict):
        return all(_whole(each) for each in thing.values())
    if isinstance(thing, list):
        return all(_whole(each) for each in thing)
    return thing is not None


@pytest.mark.parametrize(
    ("parts", "image"),
    [
        ({"repository": "k8sbench-operator"}, f"k8sbench-operator:{__version__}"),
        ({**examples.PARTS, "tag": "a-1_b"}, "registry.example/team/k8sbench-operator:a-1_b"),
        (
            {"repository": "registry.example:5000/sub/k8s_operator", "tag": f"@sha256:{64 * 'a'}"},
            f"registry.example:5000/sub/k8s_operator@sha256:{64 * 'a'}",
        ),
        (
            {"registry": "[fd00::1]:5000", "repository": "a/b", "tag": f"1@sha256:{64 * '0'}"},
            f"[fd00::1]:5000/a/b:1@sha256:{64 * '0'}",
        ),
    ],
)
def test_an_image_may_be_named_in_every_way_of_a_registry(
    newest: Helm, parts: dict[str, str], image: str
) -> None:
    pod = find(newest.template({"operator": {"image": parts}}), "Deployment")
    assert pod["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_the_probes_ask_what_the_operator_serves(newest: Helm) -> None:
    (container,) = find(newest.template(examples.OPERATOR), "Deployment")["spec"]["template"][
        "spec"
    ]["containers"]
    asked = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    routes = http.probes(OperatorState(settings=OperatorSettings())).routes
    served = [route.path for route in routes if isinstance(route, Route)]
    assert [each["path"] for each in asked] == served
    assert {each["port"] for each in asked} == {"probes"}


READS = {"get", "list", "watch"}
WRITES = {"create", "patch", "delete"}


@pytest.mark.parametrize("operated", [False, True])
def test_where_an_operator_is_users_write_objects_and_no_jobs(newest: Helm, operated: bool) -> None:
    rules = find(newest.template(examples.OPERATOR if operated else {}), "Role", "dlperf-user")

    def may(resource: str) -> set[str]:
        of = [rule["verbs"] for rule in rules["rules"] if resource in rule["resources"]]
        return set().union(*of)

    assert may("pytorchjobs") == (READS if operated else READS | WRITES)
    assert bool(may("trainjobs") & WRITES) is not operated
    assert may("configmaps") == ({"get"} if operated else {"get", "create"})
    assert may("benchmarks") == READS | WRITES
    assert may("leases") == {"get"}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (
            {"nodePools": [examples.POOL], "defaultNodePool": "a100"},
            "defaultNodePool is a100, which nodePools does not have. Name one of its pools: h100.",
        ),
        ({"nodePools": [examples.POOL, examples.POOL]}, "two pools named h100. Rename one"),
        ({"colector": {}}, "colector"),
        ({"collector": {"keepLogsFor": "90d"}}, "are those of operator"),
        ({"operator": {"image": {"sha": "x"}}}, "sha"),
        *(
            (nested(f"operator.image.{part}", text), f"/operator/image/{part}")
            for part, texts in NO_IMAGES.items()
            for text in texts
        ),
        ({"operator": {"image": "a:1"}}, "image"),
        ({"operator": {"terminationGracePeriodSeconds": "60"}}, "terminationGracePeriodSeconds"),
        ({"operator": {"keepLogsFor": "3 months"}}, "keepLogsFor"),
        ({"operator": {"persistence": {"size": -1}}}, "size"),
        ({"users": {"create": "yes"}}, "create"),
        ({"users": {"subjects": [{"kind": "Robot", "name": "x"}]}}, "kind"),
        ({"namespaces": ["Team A"]}, "namespaces"),
        ({"nodePools": [{"name": "a", "gpus_per_node": 1}]}, "gpu_model"),
        ({"prometheus": {"url": "prometheus:9090"}}, "url"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "apiServerPorts"),
        ({"nightly": {"schedule": "at one"}}, "schedule"),
        ({"nightly": {"schedule": "61 1 * * *"}}, "nightly.schedule is .*61 is no minute"),
        ({"backup": {"schedule": "1 24 0 13 7"}}, "24 is no hour, 0 is no day of the month, 13"),
        ({"backup": {"schedule": "*/0 1-x * * *"}}, "[*]/0 is no minute, 1-x is no hour"),
        ({"backup": {"schedule": "@often"}}, "backup.schedule is .*@often"),
        ({"nightly": {"timeZone": "Europe/Berlinn"}}, "nightly.timeZone is Europe/Berlinn"),
        ({"operator": {"keepLogsFor": "0d"}}, "operator.keepLogsFor is 0d"),
        ({"operator": {"resources": {"limits": {"memory": "lots"}}}}, "/operator/.*/memory"),
        ({"nightly": {"resources": {"requests": {"cpu": -1}}}}, "/nightly/.*/cpu"),
        (merged(BACKUP, ONE_POD), "accessModes has ReadWriteOncePod"),
        (merged(SCRAPED, nested(TIMEOUT, "1m1s")), "scrapeTimeout is 1m1s, longer .* of 60s"),
        ({"baseline": {"name": "night 1"}}, "name"),
        ({"baseline": {"percent": 0}}, "percent"),
        ({"monitoring": {"prometheusRule": {"freePercent": 101}}}, "freePercent"),
        (nested("monitoring.prometheusRule.runbookUrl", 'https://a/"'), "runbookUrl"),
        ({"prometheus": {"url": "http://ann:hemmelig@prometheus:9090"}}, "url"),
        ({"operator": {"livenessProbe": {"httpGet": {}}}}, "livenessProbe"),
        ({"operator": {"extraEnv": [{"name": "HOME", "value": "/"}]}}, "extraEnv/0/name"),
        (merged(examples.OPERATOR, {"networkPolicy": {"enabled": True}}), "apiServerCIDRs"),
        *(
            (nested(f"monitoring.{name}.enabled", True), f"monitoring.{name} needs the operator")
            for name in MONITORING
        ),
        ({"nightly": {"enabled": True}}, "nightly.image.repository"),
        (merged(examples.OPERATOR, nested("backup.enabled", True)), "backup.claim"),
        (merged(BACKUP, nested("operator.persistence.enabled", False)), "persistence.enabled"),
        (merged(BACKUP, nested("operator.image.repository", "")), "operator.image.repository"),
        (merged(NIGHTLY, nested("nightly.image.tag", "1")), "nightly.image.repository"),
        (merged(NIGHTLY, {"users": {"create": False}}), "users.create"),
        ({"baseline": None}, "baseline"),
        (nested("operator.image", None), "image"),
        (nested("operator.extraVolumes", [{"name": "data"}]), "extraVolumes/0/name"),
        (nested("monitoring.prometheusRule.alertLabels", {"a-b": "c"}), "a-b"),
        ({"users": {"subjects": [{"kind": "ServiceAccount", "name": "x"}]}}, "namespace"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_right_is_refused_by_its_name(
    newest: Helm, given: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(HelmFailed, match=wrong):
        newest.template(given)


@pytest.mark.parametrize("release", ["my.release", "1x", "dlperf.1"])
def test_a_release_whose_names_no_service_may_have_is_refused_first(
    newest: Helm, release: str
) -> None:
    with pytest.raises(HelmFailed, match=f"Release {release} .* or set fullnameOverride"):
        newest.template(examples.OPERATOR, release=release)
    other = merged(examples.OPERATOR, {"fullnameOverride": "bench"})
    assert find(newest.template(other, release=release), "Service")


SCHEDULES = ("*/5 0-23/2 1,15 jan-MAR mon-fri", "? 00 ? * 0", "59  23 31 12 Sun", "@daily")
ZONES = (
    "",
    "UTC",
    "Etc/UTC",
    "GMT",
    "Europe/Berlin",
    "America/Argentina/Buenos_Aires",
    "Etc/GMT+1",
)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_of_a_cron_job_is_taken(helm: Helm, schedule: str) -> None:
    given = merged(
        NIGHTLY, BACKUP, {part: {"schedule": schedule} for part in ("nightly", "backup")}
    )
    jobs = named(helm.template(given), "CronJob")
    assert [each["spec"]["schedule"] for each in jobs] == [schedule, schedule]


@pytest.mark.parametrize("zone", ZONES)
def test_every_time_zone_is_taken(helm: Helm, zone: str) -> None:
    job = find(helm.template(merged(NIGHTLY, nested("nightly.timeZone", zone))), "CronJob")
    assert job["spec"].get("timeZone", "") == zone


def test_a_scrape_may_take_its_interval_and_a_given_claim_its_modes(newest: Helm) -> None:
    taken = find(newest.template(merged(SCRAPED, nested(TIMEOUT, "1m"))), "ServiceMonitor")
    assert taken["spec"]["endpoints"][0]["scrapeTimeout"] == "1m"
    given = nested("operator.persistence.existingClaim", "mine")
    (job,) = named(newest.template(merged(BACKUP, ONE_POD, given)), "CronJob")
    assert job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] > 0


NO_CLAIM = {"enabled": False}
POD = "kubectl --namespace team-a exec deployment/dlperf-operator -- k8sbench"
DATABASES: dict[str, dict[str, Any]] = {
    "Remove operator.postgresql from your values"
    " (with --reset-then-reuse-values: --set operator.postgresql=null).": nested(
        "operator.postgresql", {"secretName": "k8sbench-store", "secretKey": "uri"}
    ),
    "Remove K8SBENCH_STORE in operator.extraEnv from your values.": nested(
        "operator.extraEnv", [{"name": "K8SBENCH_STORE", "value": "postgresql://db/k8sbench"}]
    ),
}


@pytest.mark.parametrize("remedy", DATABASES)
def test_an_upgrade_with_a_database_stops_and_says_where_the_runs_are(
    helm: Helm, remedy: str
) -> None:
    given = merged(examples.OPERATOR, DATABASES[remedy])
    with pytest.raises(HelmFailed, match="only in its store folder") as caught:
        helm.template(given)
    assert remedy in str(caught.value)
    assert "baselines and run folders are on the claim dlperf-operator already" in str(caught.value)
    assert f"{POD} results --all --output json > results.json" in str(caught.value)


def test_an_upgrade_with_a_database_and_no_claim_asks_for_an_export(newest: Helm) -> None:
    given = nested("operator", {"postgresql": {"secretName": "a"}, "persistence": NO_CLAIM})
    with pytest.raises(HelmFailed, match="The store folder has no claim") as caught:
        newest.template(given)
    assert "set operator.persistence.enabled=true" in str(caught.value)
    assert f"{POD} store export - > runs.tar.gz" in str(caught.value)


@pytest.mark.parametrize("left", [None, {}, {"secretName": "", "secretKey": "url"}])
def test_the_defaults_of_a_database_that_reuse_values_keeps_change_nothing(
    newest: Helm, left: dict[str, str] | None
) -> None:
    given = merged(examples.OPERATOR, nested("operator.postgresql", left))
    assert newest.template(given) == newest.template(examples.OPERATOR)


def test_the_claims_and_secrets_of_the_release_are_reserved(newest: Helm) -> None:
    key = {"secretKeyRef": {"name": "proxy", "key": "url"}}
    own = {
        "extraEnv": [{"name": "HTTPS_PROXY", "valueFrom": key}, {"name": "TZ", "value": "UTC"}],
        "extraVolumes": [
            {"name": "ca", "secret": {"secretName": "ca"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "part"}}]}},
            {"name": "free", "emptyDir": {}},
        ],
    }
    backup = {"enabled": True, "claim": "archives"}
    given = merged(examples.OPERATOR, {"operator": own, "backup": backup})
    (container,) = find(newest.template(given), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    env = {each["name"]: each.get("value") for each in container["env"]}
    names = ("dlperf-operator-token", "dlperf-operator", "proxy", "ca", "disk", "part", "archives")
    assert env["K8SBENCH_RESERVED"].split(",") == [f"{NAMESPACE}/{name}" for name in names]
    assert "K8SBENCH_ALLOW_OWN_POOLS" not in env


GOLDEN = pathlib.Path(__file__).parent / "golden"
DASHBOARD = "k8sbench.json"


@pytest.mark.parametrize("name", examples.INSTALLS)
def test_helm_finds_nothing_to_complain_of(helm: Helm, name: str) -> None:
    told = helm.lint(examples.INSTALLS[name])
    assert "1 chart(s) linted, 0 chart(s) failed" in told.out
    assert "WARNING" not in told.out


@pytest.mark.parametrize("name", ["without-operator", "operator", "all"])
def test_what_an_install_makes_golden(helm: Helm, name: str) -> None:
    objects = helm.template(examples.INSTALLS[name])
    for each in objects:
        if DASHBOARD in each.get("data", {}):
            # Tests of its own hold it.
            assert json.loads(each["data"].pop(DASHBOARD))["title"] == "k8sbench team-a/dlperf"
    # The majors order objects of a kind by different rules.
    objects.sort(key=lambda each: (each["kind"], each["metadata"]["name"]))
    goldens.check(GOLDEN / f"{name}.yaml", goldens.objects(objects))
