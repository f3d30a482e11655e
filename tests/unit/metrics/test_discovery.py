"""Access to a Prometheus address, and the reported one of several faults."""

import pytest

from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way


def test_an_address_without_a_cluster_is_reached_itself() -> None:
    (way,) = prometheus_api.named("http://prometheus.monitoring.svc:9090/prom/", None)
    assert way.api.place.server == "http://prometheus.monitoring.svc:9090/prom"
    assert (way.path, way.service) == ("/api/v1/query", None)


@pytest.mark.parametrize(
    ("statuses", "told"),
    [((404, 403, 503), "403"), ((404, 503, 404), "503"), ((404, 404), "none of the usual")],
)
def test_the_most_specific_fault_is_reported(statuses: tuple[int, ...], told: str) -> None:
    (way,) = prometheus_api.named("http://prometheus.test", None)
    left = iter(statuses)

    def ask(_: Way) -> None:
        status = next(left)
        raise PrometheusFault(f"It answers {status}.", status)

    with pytest.raises(PrometheusFault, match=told):
        prometheus_api.first((way,) * len(statuses), ask, bool)
