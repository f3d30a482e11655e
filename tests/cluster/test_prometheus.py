"""Discovery of a cluster's Prometheus with the user's rights; missing rights are reported."""

import contextlib
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.adapters.metrics.prometheus_api import WELL_KNOWN
from k8sbench.model.gpu_metrics import SeriesQuery
from k8sbench.model.missing import written
from tests.harness.cluster import fault_proxy, following, manifests
from tests.harness.cluster.limits import shorten
from tests.harness.cluster.namespace import Namespace
from tests.tiers import ROOT

PROMETHEUS = "k8sbench-prometheus"


def grant(namespace: Namespace, service: str) -> None:
    """Apply the Role that docs/gpu-metrics.md prints, for a service of the namespace."""
    page = (ROOT / "docs/gpu-metrics.md").read_text()
    blocks = re.findall(r"^```text\n(apiVersion: .*?)^```", page, re.MULTILINE | re.DOTALL)
    printed = [list(yaml.safe_load_all(block)) for block in blocks]
    role, binding = next(each for each in printed if each[0]["metadata"]["name"] == PROMETHEUS)
    for document in (role, binding):
        document["metadata"]["namespace"] = namespace.name
    role["rules"][0]["resourceNames"] = [service]
    (subject,) = binding["subjects"]
    subject["name"] = f"system:serviceaccount:{namespace.name}:user"
    namespace.kubectl("apply", "--filename=-", given=yaml.safe_dump_all([role, binding]))


WANTED = SeriesQuery(
    run_id="r",
    namespace="team",
    nodes={"r-master-0": None},
    start=time.time() - 600,
    end=time.time(),
)


@contextlib.contextmanager
def found_by(kubeconfig: Path, place: str = "auto") -> Iterator[PrometheusSource]:
    with contextlib.closing(connection.connect(kubeconfig=str(kubeconfig))) as api:
        yield PrometheusSource(partial(prometheus_api.ways, place, api))


def why(source: PrometheusSource) -> str:
    found = source.fetch(WANTED)
    assert found.series == ()
    return written(found.missing)["*"]


def service(namespace: Namespace) -> None:
    """One that is known as a Prometheus, of pods that are not there."""
    namespace.create(
        manifests.service(
            "prometheus-k8s",
            {"name": "web", "port": 9090},
            {"app.kubernetes.io/name": "prometheus"},
            selector={"app": "none"},
        )
    )


def test_without_rights_each_place_is_asked_once(namespace: Namespace, user: Path) -> None:
    with fault_proxy.before(user) as (proxy, path), found_by(path) as source:
        said = why(source)
        assert len(proxy.requests("/services/")) == len(WELL_KNOWN)
        account = f"system:serviceaccount:{namespace.name}:user"
        assert f"User {account} may not get services/proxy in namespace" in said
        assert said.startswith("Prometheus monitoring/prometheus-operated:9090 ")
        assert source.settles_in(WANTED) == 0.0


def test_the_role_of_the_page_is_enough(
    namespace: Namespace, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, prometheus_known=0.0)
    service(namespace)
    url = f"http://prometheus-k8s.{namespace.name}.svc.cluster.local:9090"
    with found_by(user, url) as source:
        assert "may not get services/proxy" in why(source)
        grant(namespace, "prometheus-k8s:9090")
        following.until(lambda: "services/proxy" not in why(source))
        assert "no endpoints available for service" in why(source)
