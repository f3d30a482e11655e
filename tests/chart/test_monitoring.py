"""Alerts fire on time; a real Prometheus answers the dashboard."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from k8sbench.model.phase import Phase
from k8sbench.operator import metrics
from k8sbench.operator.controller import Look, OperatorSettings, OperatorState, PlaceLook
from k8sbench.operator.metrics import Metrics
from k8sbench.results.groups import comparison
from tests.chart import examples
from tests.harness.helm import CHART, NAMESPACE, Helm, find, merged
from tests.harness.prometheus import Samples, Server
from tests.unit.model.measurements import measurement
from tests.unit.operator.scraped import at, run

OPERATOR = "dlperf-operator"
TARGET = {"job": OPERATOR, "namespace": NAMESPACE}
BENCHMARK = "resnet50"
LEADER, READY = "k8sbench_operator_leader", "k8sbench_operator_ready"
SUCCESS = "k8sbench_last_success_timestamp_seconds"
SCHEDULED = "kube_cronjob_status_last_schedule_time"
BACKED_UP = "kube_cronjob_status_last_successful_time"
NOW = time.time()
"""Fixed time of the dashboard's queries, Unix seconds."""


@functools.cache
def exposed() -> Sequence[tuple[str, dict[str, str]]]:
    """Return name and labels of every series an operator can expose."""
    made = Metrics()
    ran, ended = at(Phase.RUNNING, 130.0), at(Phase.SUCCEEDED, 200.0)
    over = run("over", ran, ended, measured=measurement(), benchmark=BENCHMARK)
    made.closed(over)
    look = Look(
        now=1.0,
        listed_time=1.0,
        runs=[run("goes-on", ran)],
        api_errors={"429": 1},
        places={"team-a": PlaceLook(listed_at=1.0)},
    )
    # Any folder: the files in it are counted.
    store = OperatorSettings(store=str(CHART), baseline="release")
    made.state = OperatorState(settings=store, is_leader=True, look=look, succeeded_at=1.0)
    labels = comparison.labels(over.facts, over.group_key)
    held = {labels: comparison.Held(ratio=1.0, is_separated=False)}
    with (
        mock.patch.object(metrics, "held_against", return_value=held),
        mock.patch.object(
            metrics, "changed_cases", return_value={kind: {labels: 1.0} for kind in metrics.CHANGES}
        ),
    ):
        families = text_string_to_metric_families(generate_latest(made.registry).decode())
    # An empty label is none for Prometheus.
    return [
        (each.name, {name: value for name, value in each.labels.items() if value})
        for family in families
        for each in family.samples
    ]


def names() -> set[str]:
    """Names of the operator's series."""
    return {name for name, _ in exposed()}


def labels_of(name: str) -> dict[str, str]:
    """Labels of one series of a name; `up` is Prometheus' own."""
    if name == "up":
        return {}
    if name in {SCHEDULED, BACKED_UP}:
        return {"cronjob": "dlperf-backup"}
    return next(labels for known, labels in exposed() if known == name)


NAME = re.compile(r"\bk8sbench_\w+")
ENABLED = {"monitoring": {"prometheusRule": {"enabled": True}}}
BACKUP = {"backup": {"enabled": True, "claim": "archives"}}
VALUES: dict[str, Any] = merged(
    examples.OPERATOR, ENABLED, BACKUP, {"baseline": {"name": "release"}}
)


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text())
    return found


def queries(*titles: str) -> list[str]:
    """Return the dashboard's queries as Grafana sends them.

    ``titles`` restricts them to some panels. All values of each variable are selected.
    """
    panels = [each for each in dashboard()["panels"] if not titles or each["title"] in titles]
    asked = [each["expr"] for panel in panels for each in panel["targets"]]
    chosen = {"$namespace": ".*", "$benchmark": ".*", "$__rate_interval": "2m", "$__range": "1h"}
    for name, value in chosen.items():
        asked = [each.replace(name, value) for each in asked]
    assert not [each for each in asked if "$" in each]
    return asked


def labelled(name: str) -> str:
    labels = {**TARGET, **labels_of(name)}
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inside}}}"


# -- alerts ---------------------------------------------------------------------------------------

HEALTHY = {
    "up": "1x600",
    "k8sbench_stuck_jobs": "0x600",
    "k8sbench_operator_ready": "1x600",
    "k8sbench_namespace_ready": "1x600",
    "k8sbench_operator_start_time_seconds": "5x600",
    "k8sbench_last_success_timestamp_seconds": "0+60x600",
    "k8sbench_store_bytes": "600x600",
    "k8sbench_store_free_bytes": "400x600",
    "k8sbench_store_disk_bytes": "1000x600",
    "k8sbench_baseline_ratio": "1x600",
    "k8sbench_baseline_separated": "0x600",
    "k8sbench_open_change_ratio": "1x600",
    SCHEDULED: "100x600",
    BACKED_UP: "160x600",
}
"""Series → one sample a minute, in promtool's notation (value, repetitions)."""
ALERTS: dict[str, tuple[dict[str, str], int, int]] = {
    "K8sbenchStuckJob": ({"k8sbench_stuck_jobs": "0x4 2x55"}, 19, 20),
    "K8sbenchOperatorDown": ({"up": "1x4 0x55"}, 9, 10),
    # It lists until the 5th minute; five minutes later that is too long ago, for five more.
    "K8sbenchNotCollecting": (
        {"k8sbench_last_success_timestamp_seconds": "0+60x5 300x55"},
        15,
        16,
    ),
    "K8sbenchNamespaceNotReady": ({"k8sbench_namespace_ready": "1x4 0x55"}, 9, 10),
    "K8sbenchOperatorRestarts": (
        {"k8sbench_operator_start_time_seconds": "5x4 10 20 30x54"},
        6,
        7,
    ),
    # Others fill the disk.
    "K8sbenchStoreFull": ({"k8sbench_store_free_bytes": "400x4 90x55"}, 9, 10),
    "K8sbenchBackupFailed": ({SCHEDULED: "100x4 300x500"}, 424, 425),
    "K8sbenchOpenChange": ({"k8sbench_open_change_ratio": "1x4 0.95x55"}, 4, 5),
    "K8sbenchRegression": (
        {"k8sbench_baseline_ratio": "1x4 0.95x55", "k8sbench_baseline_separated": "0x4 1x55"},
        4,
        5,
    ),
}
"""Alert → abnormal series, last quiet minute, first firing minute.

The series become abnormal in the 5th minute.
"""


@pytest.fixture
def rules(newest: Helm, tmp_path: pathlib.Path) -> pathlib.Path:
    """The rules as the chart renders them, in a file for promtool."""
    spec = find(newest.template(VALUES), "PrometheusRule")["spec"]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(spec))
    return file


def check(
    rules: pathlib.Path,
    series: dict[str, str],
    fires: dict[str, list[int]],
    silent: list[int],
    *,
    only: Collection[str] = (),
) -> None:
    """Run promtool: which alerts fire in which minutes, and in which none does.

    ``only`` names the alerts that are looked at, by default all.
    """
    alerts = _alerts(rules)
    expected = [
        {
            "alertname": name,
            "eval_time": f"{minute}m",
            "exp_alerts": [_fired(alerts[name], name, series)] if minute in minutes else [],
        }
        for name in only or alerts
        for minutes in (fires.get(name, []),)
        for minute in sorted({*silent, *minutes})
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": labelled(k), "values": v} for k, v in series.items()],
        "alert_rule_test": expected,
    }
    file = rules.with_name("test.yaml")
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]},
            sort_keys=False,
        )
    )
    done = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _alerts(rules: pathlib.Path) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(rules.read_text())["groups"]
    return {each["alert"]: each for each in group["rules"]}


def _fired(alert: dict[str, Any], name: str, series: dict[str, str]) -> dict[str, Any]:
    values = {"K8sbenchStuckJob": "2", "K8sbenchStoreFull": "9.0"}
    of_cases = {
        "K8sbenchRegression": "k8sbench_baseline_ratio",
        "K8sbenchOpenChange": "k8sbench_open_change_ratio",
    }
    with_labels = of_cases | {"K8sbenchNamespaceNotReady": "k8sbench_namespace_ready"}
    of = labels_of(with_labels[name]) if name in with_labels else {}
    values |= dict.fromkeys(of_cases, "95%")

    def filled(match: re.Match[str]) -> str:
        label = re.search(r"\$labels\.(\w+)", match[0])
        return of[label[1]] if label else values.get(name, "")

    texts = {key: re.sub(r"\{\{.*?\}\}", filled, t) for key, t in alert["annotations"].items()}
    return {"exp_labels": {**TARGET, **of, **alert["labels"]}, "exp_annotations": texts}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_once_its_time_is_over(rules: pathlib.Path, name: str) -> None:
    changes, silent, fires = ALERTS[name]
    check(rules, {**HEALTHY, **changes}, {name: [fires]}, [0, silent])


LISTS: dict[str, Any] = {"failure": ""}
FAILS = {"failure": "The disk is full."}
SEEN = {"problem", "refusal", "objects_problem"}
"""Fields of a look; others are of the state."""
OUTAGES: dict[str, tuple[Sequence[dict[str, Any]], int]] = {
    "the training operator refuses": ([LISTS | {"refusal": "The webhook does not answer."}], 10),
    "Benchmarks cannot be listed": ([LISTS | {"objects_problem": "You may not."}], 10),
    "the store is gone": ([{"failure": "The store was deleted or replaced."}], 10),
    "its index is being built": ([{"failure": "indexing the store: 0 of 9000 runs"}], 10),
    "no jobs listed in a namespace": ([{"problem": "You may not."}], 11),
    "the RoleBinding is gone": ([{}], 11),  # the last list counts for 90 s
    "the Lease's binding is gone": ([{"is_leader": False, "waits_for": "You may not."}], 10),
    "the disk is full": ([FAILS], 10),
    "... from the start": ([FAILS | {"succeeded_at": None}], 10),
    "the disk has room now and then": ([LISTS, FAILS], 10),
    "the API server is away": ([{"is_leader": False, "waits_for": "No answer."}], 10),
}
"""Outage → states that alternate, and the first minute with an alert.

The outage begins in the 5th minute.
"""


def during(turns: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the series of readiness as an operator exposes them, a sample a minute."""
    made, values = Metrics(), dict[str, list[str]]({READY: [], SUCCESS: []})
    store, listed_at = OperatorSettings(store=str(CHART)), 0.0
    for now in range(0, 3600, 60):
        changes = LISTS if now < 300 else turns[now // 60 % len(turns)]
        listed_at = float(now) if changes.items() >= LISTS.items() else listed_at
        seen: dict[str, Any] = {name: changes[name] for name in SEEN & changes.keys()}
        look = Look(
            now=now,
            listed_time=listed_at,
            runs=(),
            api_errors={},
            places={"team-a": PlaceLook(listed_at=listed_at, **seen)},
        )
        known: dict[str, Any] = {"is_leader": True, "succeeded_at": listed_at, "look": look}
        others = {name: changes[name] for name in changes.keys() - SEEN}
        made.state = OperatorState(settings=store, **(known | LISTS | others))
        with mock.patch("time.monotonic", return_value=float(now)):
            found = {each.name: each.samples[0].value for each in made.collect() if each.samples}
        for name, samples in values.items():
            samples.append(str(found.get(name, "_")))
    return {name: " ".join(samples) for name, samples in values.items()}


@pytest.mark.parametrize("name", OUTAGES)
def test_every_outage_of_an_operator_that_runs_raises_an_alert(
    rules: pathlib.Path, name: str
) -> None:
    turns, first = OUTAGES[name]
    series = HEALTHY | during(turns)
    check(rules, series, {"K8sbenchNotCollecting": [first, 59]}, [0, first - 1])


UP, NOT_READY, DOWN, GONE = "1", "u", "0", "-"
"""States of an operator during a minute; one that is gone is no target."""
BACKOFF = "10100100001" + 30 * "000001"
"""One that needs more memory than it may, and the growing pauses of the kubelet."""
LIVES: dict[str, tuple[str, str, int]] = {
    "killed again and again": ("11000", "K8sbenchOperatorDown", 22),
    "its pod is gone meanwhile": ("11---", "K8sbenchOperatorDown", 22),
    "out of memory": (BACKOFF, "K8sbenchOperatorDown", 16),
    "never ready": ("u0000", "K8sbenchOperatorDown", 16),
    "not ready, and killed": ("uuuu0", "K8sbenchNotCollecting", 5),
    "half of each life not ready": ("uuu111110", "K8sbenchNotCollecting", 23),
    "killed each five minutes": ("11110", "K8sbenchOperatorRestarts", 15),
    "killed each nine minutes": ("111111110", "K8sbenchOperatorRestarts", 27),
}
"""World → minutes of an operator, which repeat, its alert, and from when on."""
CRITICAL = {"K8sbenchOperatorDown", "K8sbenchNotCollecting"}
MINUTES = 200
"""Length of these worlds."""


def lived(minutes: str, *, killed: bool = True) -> dict[str, str]:
    """Return the series of an operator, a sample a minute; with ``killed`` each is a new life."""
    series: dict[str, list[str]] = {name: [] for name in HEALTHY}
    began = 0
    for now, state in enumerate(minutes):
        if killed and now and minutes[now - 1] in {DOWN, GONE} and state in {UP, NOT_READY}:
            began = now
        values = {
            "k8sbench_operator_ready": str(int(state == UP)),
            "k8sbench_operator_start_time_seconds": str(60 * began),
            "k8sbench_last_success_timestamp_seconds": str(60 * now if state == UP else "_"),
        }
        for name, samples in series.items():
            usual = HEALTHY[name].partition("x")[0]
            value = values.get(name, usual) if state in {UP, NOT_READY} else "stale"
            samples.append(value)
        series["up"][-1] = {DOWN: "0", GONE: "stale"}.get(state, "1")
    return {name: " ".join(samples) for name, samples in series.items()}


@pytest.mark.parametrize("name", LIVES)
def test_an_operator_that_lives_and_dies_raises_one_alert_that_stays(
    rules: pathlib.Path, name: str
) -> None:
    cycle, alert, first = LIVES[name]
    series = lived((MINUTES * cycle)[:MINUTES])
    check(rules, series, {alert: [*range(first, MINUTES)]}, [first - 1], only={alert})
    check(rules, series, {}, [*range(MINUTES)], only=CRITICAL - {alert})


QUIET: dict[str, str] = {
    "an upgrade": f"{30 * UP}--uu{30 * UP}",
    "two upgrades": f"{30 * UP}--uu{9 * UP}-u{30 * UP}",
    "a node that starts again": f"{30 * UP}0000u{40 * UP}",
    "a slow first image": f"0000{60 * UP}",
}
"""World that raises no alert → minutes of an operator."""


@pytest.mark.parametrize("name", QUIET)
def test_what_happens_now_and_then_raises_no_alert(rules: pathlib.Path, name: str) -> None:
    check(rules, lived(QUIET[name]), {}, [*range(len(QUIET[name]))])


def test_a_scrape_that_fails_each_ten_minutes_changes_no_alert(rules: pathlib.Path) -> None:
    series = lived(12 * f"{9 * UP}{DOWN}", killed=False)
    check(rules, series, {}, [*range(120)])
    stuck = " ".join(12 * ["2 2 2 2 2 2 2 2 2 stale"])
    stays = {"K8sbenchStuckJob": [*range(15, 120)]}
    check(rules, series | {"k8sbench_stuck_jobs": stuck}, stays, [14])
    full = stuck.replace("2", "90")
    stays = {"K8sbenchStoreFull": [*range(5, 120)]}
    check(rules, series | {"k8sbench_store_free_bytes": full}, stays, [4])
    slow, apart = stuck.replace("2", "0.95"), stuck.replace("2", "1")
    stays = {"K8sbenchOpenChange": [*range(120)]}
    check(rules, series | {"k8sbench_open_change_ratio": slow}, stays, [])
    stays = {"K8sbenchRegression": [*range(120)]}
    changes = {"k8sbench_baseline_ratio": slow, "k8sbench_baseline_separated": apart}
    check(rules, series | changes, stays, [])


def test_a_store_fills_its_disk_where_little_of_the_disk_is_free(rules: pathlib.Path) -> None:
    large = {"k8sbench_store_bytes": "880x60", "k8sbench_store_free_bytes": "110x60"}
    check(rules, HEALTHY | large, {}, [0, 30, 60])


def test_a_backup_may_take_its_time_and_the_next_one_ends_the_alert(rules: pathlib.Path) -> None:
    late = {SCHEDULED: "100x4 300x595", BACKED_UP: "160x400 700x199"}
    check(rules, HEALTHY | late, {}, [*range(0, 600, 10)])
    never = {SCHEDULED: "100x450 300x149", BACKED_UP: "_x500 700x99"}
    check(rules, HEALTHY | never, {"K8sbenchBackupFailed": [420, 499]}, [419, 501])


def test_every_alert_has_its_case_and_none_fires_while_all_is_well(rules: pathlib.Path) -> None:
    assert set(_alerts(rules)) == set(ALERTS)
    check(rules, HEALTHY, {}, [0, 30, 60])


def test_a_regression_takes_a_ratio_beyond_the_limit_and_separation(rules: pathlib.Path) -> None:
    slow = {"k8sbench_baseline_ratio": "0.9x60"}
    check(rules, HEALTHY | slow, {}, [0, 30, 60])
    apart = {"k8sbench_baseline_separated": "1x60"}
    check(rules, HEALTHY | apart | {"k8sbench_baseline_ratio": "0.971x60"}, {}, [0, 30, 60])
    check(rules, HEALTHY | apart | {"k8sbench_baseline_ratio": "1.1x60"}, {}, [0, 30, 60])


NOTES = {
    "an odd set": "k8sbench_unconfirmed_change_ratio",
    "a case that alternates": "k8sbench_alternating_ratio",
}
"""Change that is not confirmed → its series."""


@pytest.mark.parametrize("name", NOTES)
def test_only_a_confirmed_change_fires(rules: pathlib.Path, name: str) -> None:
    noted = {NOTES[name]: "_x5 0.9x55"}
    check(rules, HEALTHY | noted, {}, [0, 5, 30, 60])
    slow = {"k8sbench_baseline_ratio": "0.95x60", "k8sbench_baseline_separated": "1x60"}
    confirmed = {"k8sbench_open_change_ratio": "0.95x60"}
    check(rules, HEALTHY | slow | noted, {"K8sbenchRegression": [4]}, [6, 30])
    # Its next set confirms the drop: the note ends, and the alerts begin.
    over = {NOTES[name]: "0.9x4 stale _x55"}
    both = {"K8sbenchOpenChange": [30], "K8sbenchRegression": [30]}
    check(rules, HEALTHY | slow | confirmed | over, both, [])


def test_commands_of_alerts_name_a_namespace_that_the_operator_serves(newest: Helm) -> None:
    rule = find(newest.template(merged(VALUES, {"namespaces": ["jobs"]})), "PrometheusRule")
    texts = [each["annotations"]["description"] for each in rule["spec"]["groups"][0]["rules"]]
    words = [command.split() for text in texts for command in re.findall("'([^']+)'", text)]
    by_operator = [each for each in words if "cluster" in each]
    assert {each[1] for each in by_operator} == {"list", "status", "history", "compare"}
    for each in words:
        if "-n" in each:
            place = "jobs" if each[0] == "k8sbench" else NAMESPACE
            assert each[each.index("-n") + 1] == place
        else:
            assert each[0] != "k8sbench"


# -- dashboard ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that has scraped an operator for ten minutes."""
    points = [(NOW - 600 + 15 * number, 1.0 + number) for number in range(41)]
    states = {LEADER: 1.0, READY: 1.0, SUCCESS: NOW}
    samples = [
        Samples(name, {**TARGET, **labels}, [(at, states.get(name, value)) for at, value in points])
        for name, labels in exposed()
    ]
    invalid = [(moment, 0.0) for moment, _ in points]
    other = {**TARGET, **labels_of("k8sbench_run_valid"), "case": "other"}
    samples.append(Samples("k8sbench_run_valid", other, invalid))
    # An operator of team-b is not ready, and that of team-c is gone.
    others = {"team-b": (points, {READY: 0.0}), "team-c": (points[:9], {})}
    for team, (seen, its) in others.items():
        of = TARGET | {"namespace": team}
        for name, value in (states | {SUCCESS: NOW - 900} | its).items():
            samples.append(Samples(name, of, [(at, value) for at, _ in seen]))
    server = Server(tmp_path_factory.mktemp("prometheus"), samples=samples)
    yield server
    server.stop()


def answer(server: Server, path: str, **query: str) -> Any:
    url = f"{server.url}/api/v1/{path}?{urllib.parse.urlencode(query | {'time': NOW})}"
    with urllib.request.urlopen(url, timeout=30) as read:
        return json.load(read)["data"]


def test_a_real_prometheus_answers_every_query(prometheus: Server) -> None:
    asked = queries()
    assert len(asked) > 10
    for query in asked:
        assert answer(prometheus, "query", query=query)["result"], query


@pytest.mark.parametrize(("panel", "is_well"), [("Operator", 1), ("Since the last success", 0)])
def test_a_namespace_that_is_not_collected_is_not_hidden_by_one_that_is(
    prometheus: Server, panel: str, is_well: float
) -> None:
    (query,) = queries(panel)
    found = answer(prometheus, "query", query=query)["result"]
    values = {each["metric"]["namespace"]: float(each["value"][1]) for each in found}
    assert values.keys() == {NAMESPACE, "team-b", "team-c"}
    assert values.pop(NAMESPACE) == pytest.approx(is_well, abs=0.1)
    assert all(value == 0 if is_well else value > 800 for value in values.values())


def test_rules_and_dashboard_use_all_series_and_no_others(newest: Helm) -> None:
    rules = yaml.safe_dump(find(newest.template(VALUES), "PrometheusRule"))
    asked = " ".join([*queries(), *re.findall(r"expr: (.*(?:\n {6,}.*)*)", rules)])
    assert set(NAME.findall(asked)) == names()
