"""Access to a Prometheus address, and the reported one of several faults."""

import pytest

from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way


def test_an_address_without_a_cluster_is_reached_itself() -> None:
    (way,) = prometheus_api.named("http://prometheus.monitoring.svc:9090/prom/", None)
    assert way.api.place.server == "http://prometheus.monitoring.svc:9090/prom"
    assert (way.path, way.service) == ("/api/v1/query", None)


def test_all_faults_are_reported() -> None:
    (way,) = prometheus_api.named("http://prometheus.test", None)
    statuses = iter((404, 403))

    def ask(_: Way) -> None:
        raise PrometheusFault(f"It answers {next(statuses)}.")

    with pytest.raises(PrometheusFault, match=r"404\. It answers 403\. Name another"):
        prometheus_api.first((way, way), ask, bool)
