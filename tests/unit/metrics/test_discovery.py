"""What a Prometheus looks like among a cluster's services."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.adapters.metrics import discovery


def service(name: str, *ports: Any, space: str = "monitoring", **labels: str) -> dict[str, Any]:
    listed = [
        {"port": port} if isinstance(port, int) else {"port": 9000 + place, "name": port}
        for place, port in enumerate(ports)
    ]
    given = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "namespace": space, "labels": given},
        "spec": {"ports": listed},
    }


OPERATED = service("prometheus-operated", "http-web")
OPERATED["metadata"]["labels"] = {"operated-prometheus": "true"}


@pytest.mark.parametrize(
    ("found", "as_path"),
    [
        (
            service("prometheus-k8s", "web", "reloader-web", app_kubernetes_io__name="prometheus"),
            "prometheus-k8s:web",
        ),
        (
            service("kps-prometheus", "http-web", app="kube-prometheus-stack-prometheus"),
            "kps-prometheus:http-web",
        ),
        (
            service("p", "http", app_kubernetes_io__name="prometheus"),
            "p:http",
        ),
        (OPERATED, "prometheus-operated:http-web"),
        (service("prometheus-server", 80), "prometheus-server:80"),
        (service("prometheus", "grpc", 9090), "prometheus:9090"),
        (service("p", "https-web", app="prometheus"), "https:p:https-web"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_known_by_the_labels_and_ports_of_those_who_install_it(
    found: dict[str, Any], as_path: str
) -> None:
    assert discovery.candidates([found]) == [("monitoring", as_path)]


@pytest.mark.parametrize(
    "other",
    [
        service("prometheus-operator", "https", app_kubernetes_io__name="prometheus-operator"),
        service("alertmanager", "web", app="prometheus", component="alertmanager"),
        service("node-exporter", 9100, app_kubernetes_io__name="node-exporter"),
        service("prometheus", "grpc", 8080),
        {**service("prometheus", 9090), "spec": {"type": "ExternalName", "ports": []}},
        {"metadata": {"name": "x", "namespace": "y"}, "spec": {}},
    ],
    ids=lambda value: str(value["metadata"]["name"]),
)
def test_what_comes_with_it_is_none(other: dict[str, Any]) -> None:
    assert discovery.candidates([other]) == []


def test_the_service_of_a_chart_comes_before_that_of_its_operator() -> None:
    others = [service("prometheus", 9090, space="a"), OPERATED]
    chart = service("prometheus-k8s", "web", app_kubernetes_io__name="prometheus")
    assert [name for _, name in discovery.candidates([*others, chart])] == [
        "prometheus-k8s:web",
        "prometheus-operated:http-web",
        "prometheus:9090",
    ]


def test_an_address_without_a_cluster_is_reached_itself() -> None:
    (way,) = discovery.named("http://prometheus.monitoring.svc:9090/prom/", None).ways
    assert way.api.place.server == "http://prometheus.monitoring.svc:9090/prom"
    assert (way.path, way.service) == ("/api/v1/query", None)
