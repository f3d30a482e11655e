"""A Prometheus that scrapes during the run: labels and a vanishing exporter."""

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from k8sbench.model.gpu_metrics import SeriesQuery
from tests.harness.prometheus import Exporter, Server, wait
from tests.prometheus.conftest import Expose, Start
from tests.prometheus.examples import NAMESPACE, PODS, UUIDS, fetch, of, wanted

GPU = {
    "gpu": "0",
    "UUID": UUIDS[0],
    "modelName": "Tesla V100-SXM2-32GB",
    "Hostname": "node-0",
    "pod": PODS[0],
    "namespace": NAMESPACE,
}
UTILIZATION, ENERGY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


class Gpus(Collector):
    """Exposed metrics; tests change them."""

    def __init__(self, labels: Mapping[str, str] = GPU) -> None:
        self.labels = dict(labels)
        self.values: dict[str, float] = {UTILIZATION: 90.0}
        self.at: float | None = None
        """Stamp that the exporter gives its values."""

    def collect(self) -> Any:
        for name, value in self.values.items():
            family = CounterMetricFamily if name == ENERGY else GaugeMetricFamily
            found = family(name, "", labels=[*self.labels])
            found.add_metric([*self.labels.values()], value, timestamp=self.at)
            found.samples = [sample._replace(name=name) for sample in found.samples]
            yield found


def exposed(exporter: Exporter, gpus: Gpus) -> Exporter:
    exporter.registry = CollectorRegistry()
    exporter.registry.register(gpus)
    return exporter


def scraping(*exporters: Exporter, **more: Any) -> list[dict[str, Any]]:
    targets = [exporter.address for exporter in exporters]
    static = {"targets": targets, "labels": {"pod": "dcgm-exporter-x1", "namespace": "mon"}}
    return [{"job_name": "dcgm", "static_configs": [static], **more}]


def since(began: float) -> SeriesQuery:
    return wanted({PODS[0]: "node-0"}, start=began, end=time.time())


def samples(server: Server, began: float, metric: str = "gpu_utilization") -> tuple[float, ...]:
    found = of(fetch(server.url, since(began)), metric)
    return found[0].at if found else ()


def answer(server: Server, query: str) -> list[Any]:
    """Ask for the present, as a user does."""
    with urllib.request.urlopen(f"{server.url}/api/v1/query?query={query}", timeout=30) as found:
        result: list[Any] = json.load(found)["data"]["result"]
    return result


def until(server: Server, began: float, number: int) -> None:
    wait(lambda: len(samples(server, began)) >= number, f"{number} samples")


def away(
    server: Server, began: float, gone: Exporter, back: Callable[[], None]
) -> tuple[float, float]:
    """Have an exporter be away for some scrapes; returns from when until when."""
    until(server, began, 4)
    gone.stop()
    left = time.time()
    up = f'up{{instance="{gone.address}"}}'
    missed = quote(f"timestamp({up} == 0) > {left + 1.0}")
    wait(lambda: bool(answer(server, missed)), "it was missed for a second")
    came_back = time.time()
    back()
    wait(lambda: any(at > came_back for at in samples(server, began)), "it is back")
    return left, came_back


def test_an_exporter_that_moves_leaves_a_hole(start: Start, expose: Expose) -> None:
    gpus = Gpus()
    first, second = exposed(expose(), gpus), exposed(expose(), gpus)
    second.hold()
    began = time.time()
    server = start(scrape=scraping(first, second))
    left, came_back = away(server, began, first, second.go_on)
    # Prometheus may move a stamp by 2 ms to where it is due.
    assert not [at for at in samples(server, began) if left + 0.002 < at < came_back]
    found = fetch(server.url, since(began))
    assert len(found.series) == 1
    assert found.warnings == ()
