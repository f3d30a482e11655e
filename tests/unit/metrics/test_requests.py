"""Number of Prometheus requests: shared ones once, few per run."""

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way
from k8sbench.model.gpu_metrics import SeriesQuery
from k8sbench.model.missing import written
from k8sbench.model.run import Location
from tests.harness.cluster.limits import shorten

RUNS = 1000
NOW = time.time()
LABELS = {
    "__name__": "DCGM_FI_DEV_GPU_UTIL",
    "UUID": "GPU-0",
    "Hostname": "node-0.example",
    "exported_namespace": "team",
    "exported_pod": "r-master-0",
    "job": "dcgm",
}


class Server:
    """Answers as a Prometheus that has one GPU's samples; counts what it is asked."""

    place = Location(server="https://api", namespace="team")
    samples: Sequence[int] = range(-20, 0)
    """Sample times, in quarters of a minute."""

    def __init__(self, *, is_there: bool = True, scrapes: int = 20, refusal: str = "no") -> None:
        self.is_there = is_there
        self.refusal = refusal
        self.scrapes = scrapes
        """Within five minutes."""
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def read(self, path: str, seconds: float, *, query: str, **_: Any) -> bytes:
        kinds = {"count_over_time": "nodes", "group by": "owned", "": "samples"}
        kind = next(kind for word, kind in kinds.items() if word in query)
        with self._lock:
            self.asked[kind] += 1
        if not self.is_there:
            raise ApiFault(403, "Forbidden", self.refusal)
        row: dict[str, Any] = {"metric": LABELS, "value": [time.time(), str(self.scrapes)]}
        if kind == "samples":
            row = {"metric": LABELS, "values": [[NOW + 15 * i, "97"] for i in self.samples]}
        return json.dumps({"status": "success", "data": {"result": [row]}}).encode()


class Finder:
    """Looks for a cluster's Prometheus; counts the calls."""

    def __init__(self, *ways: Way, why: str = "") -> None:
        self.ways = ways
        self.why = why
        self.calls = 0

    def __call__(self) -> tuple[Way, ...]:
        self.calls += 1
        if self.why:
            raise PrometheusFault(self.why)
        return self.ways


def way(server: Server) -> Way:
    return Way(cast("Api", server), "/query", "Prometheus mon/p:web", ("mon", "p:web"))


def wanted(number: int = 0) -> SeriesQuery:
    nodes: dict[str, str | None] = {"r-master-0": "node-0"}
    return SeriesQuery(run_id=f"r{number}", namespace="team", nodes=nodes, start=NOW - 300, end=NOW)


def test_a_thousand_runs_ask_for_nodes_once_and_three_times_for_each() -> None:
    server = Server()
    find = Finder(way(server))
    source = PrometheusSource(find)

    def one(number: int) -> int:
        assert source.settles_in(wanted(number)) == 15.0
        return len(source.fetch(wanted(number)).series)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(one, range(RUNS))) == RUNS
    assert find.calls == 1
    assert server.asked["nodes"] == 1
    assert (server.asked["owned"], server.asked["samples"]) == (2 * RUNS, RUNS)


@pytest.mark.parametrize(
    ("space", "pod"), [("pod_namespace", "pod_name"), ("NamespaceName", "PodName")]
)
def test_gpus_under_other_names_are_looked_for_and_read_as_dcgms(space: str, pod: str) -> None:
    labels = {
        "__name__": LABELS["__name__"].lower(),
        "uuid": "GPU-0",
        "hostname": "node-0.example",
        "modelname": "A100",
        space: "team",
        pod: "r-master-0",
    }

    class Lower(Server):
        def read(self, path: str, seconds: float, *, query: str, **more: Any) -> bytes:
            answer = super().read(path, seconds, query=query, **more)
            if "group by" in query and f"{pod}=" not in query:
                return b'{"status": "success", "data": {"result": []}}'
            return answer.replace(json.dumps(LABELS).encode(), json.dumps(labels).encode())

    server = Lower()
    (series,) = PrometheusSource(Finder(way(server))).fetch(wanted()).series
    assert (series.metric, series.gpu.uuid, series.gpu.model) == (
        "gpu_utilization",
        "GPU-0",
        "A100",
    )
    assert series.gpu.pod == "r-master-0"
    assert server.asked["samples"] == 1


@pytest.mark.parametrize("is_found", [False, True])
def test_where_there_is_none_a_thousand_runs_look_for_it_once(is_found: bool) -> None:
    server = Server(is_there=False)
    find = Finder(way(server)) if is_found else Finder(why="There is none.")
    source = PrometheusSource(find)
    for number in range(RUNS):
        assert source.settles_in(wanted(number)) == 0.0
        assert not source.fetch(wanted(number)).series
    assert (find.calls, server.asked.total()) == (1, int(is_found))


def test_one_that_was_away_is_asked_again_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(is_there=False)
    source = PrometheusSource(Finder(way(server)))
    assert "403" in written(source.fetch(wanted()).missing)["*"]
    server.is_there = True
    assert "403" in written(source.fetch(wanted()).missing)["*"]
    shorten(monkeypatch, prometheus_known=0.0)
    assert source.fetch(wanted()).series


@pytest.mark.parametrize(("scrapes", "seconds"), [(60, 5.0), (10, 30.0), (0, 30.0)])
def test_the_last_sample_is_awaited_no_longer_than_needed(scrapes: int, seconds: float) -> None:
    source = PrometheusSource(Finder(way(Server(scrapes=scrapes))))
    assert source.settles_in(wanted()) == seconds


def test_of_several_that_which_has_gpu_metrics_is_asked() -> None:
    class Other(Server):
        def read(self, path: str, seconds: float, *, query: str, **_: Any) -> bytes:
            self.asked["nodes"] += 1
            return b'{"status": "success", "data": {"result": [{"metric": {}, "value": [0, "0"]}]}}'

    away, other, has = Server(is_there=False), Other(), Server()
    source = PrometheusSource(Finder(way(away), way(other), way(has)))
    assert source.fetch(wanted()).series
    assert (away.asked.total(), other.asked.total(), has.asked["samples"]) == (1, 1, 1)


@pytest.mark.parametrize("name", [None, "", "DCGM_FI_DEV_FAN_SPEED", "up"])
def test_series_of_other_names_are_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    monkeypatch.delitem(LABELS, "__name__")
    if name is not None:
        monkeypatch.setitem(LABELS, "__name__", name)
    found = PrometheusSource(Finder(way(Server()))).fetch(wanted())
    assert not found.series
    assert repr(name or "") in written(found.missing)["*"]


def test_samples_in_any_order_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "samples", (-3, -9, -1, -1, -12))
    (series,) = PrometheusSource(Finder(way(Server()))).fetch(wanted()).series
    assert series.at == tuple(round(NOW + 15 * i, 3) for i in (-12, -9, -3, -1))


def test_series_without_a_sample_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "samples", ())
    found = PrometheusSource(Finder(way(Server()))).fetch(wanted())
    assert not found.series
    none = "Prometheus mon/p:web has no sample of the run's GPUs in its window."
    assert written(found.missing)["*"] == none


def test_a_refusal_of_the_api_server_is_a_whole_sentence() -> None:
    user = "system:serviceaccount:a-namespace-of-some-length:the-account-of-a-continuous-job"
    refusal = (
        f'services "p:web" is forbidden: User "{user}" cannot get resource "services/proxy" in API'
        ' group "" in the namespace "mon"'
    )
    source = PrometheusSource(Finder(way(Server(is_there=False, refusal=refusal))))
    assert written(source.fetch(wanted()).missing)["*"] == (
        "Prometheus mon/p:web cannot be asked:"
        f" User {user} may not get services/proxy in namespace mon."
    )
