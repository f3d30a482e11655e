"""Preflight checks of a Prometheus."""

import pytest

from k8sbench.adapters.kubernetes import preflight
from k8sbench.diagnose.preflight.facts import MetricsEndpoint
from tests.harness.prometheus import wait
from tests.prometheus.conftest import Expose, Start

GPU = 'gpu="0",UUID="GPU-0",hostname="node-0"'
CURRENT = f"""
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{GPU}}} 0.41
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}} 0
"""


def seen(url: str) -> MetricsEndpoint:
    found = preflight.prometheus_endpoint(url, None)
    assert found.name == f"Prometheus at {url}"
    assert not found.fault
    return found


@pytest.mark.parametrize("text", [CURRENT, CURRENT.lower()], ids=["", "lower"])
def test_it_says_what_it_has(start: Start, expose: Expose, text: str) -> None:
    exporter = expose(text)
    config = {"job_name": "dcgm", "static_configs": [{"targets": [exporter.address]}]}
    server = start(scrape=[config])
    wait(lambda: bool(seen(server.url).fields), "it was scraped")
    has = seen(server.url)
    assert has.fields == ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",)
