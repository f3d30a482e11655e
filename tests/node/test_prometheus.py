"""A Prometheus in a pod, reached through the API server's service proxy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.metrics import prometheus as source
from k8sbench.model.gpu_metrics import Fetched
from tests import tiers
from tests.harness import prometheus
from tests.harness.cluster.manifests import pod, service
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import image
from tests.prometheus.examples import PODS, UUIDS, labels, renamed, utilization, wanted

SAMPLES = [utilization(labels(uuid, **renamed(PODS[0]))) for uuid in UUIDS]
NAME = "prometheus"


@pytest.fixture
def served(namespace: Namespace, tmp_path: Path) -> Namespace:
    """Have one in the namespace, with yesterday's samples."""
    tiers.demand("prometheus")
    prometheus.make_blocks(tmp_path, SAMPLES)
    for name in ("prometheus.yml", "web.yml"):
        (tmp_path / name).write_text("{}\n")
    program = Path(shutil.which("prometheus") or "")
    probe = {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1}
    container: dict[str, Any] = {
        "name": NAME,
        "image": image.PYTHON,
        "imagePullPolicy": "Never",
        "command": prometheus.command(Path("/given"), "0.0.0.0:9090", Path("/given/data")),
        "readinessProbe": probe,
        "volumeMounts": [
            {"name": "program", "mountPath": "/usr/bin/prometheus", "readOnly": True},
            {"name": "given", "mountPath": "/given"},
        ],
    }
    volumes = [
        {"name": "program", "hostPath": {"path": str(program), "type": "File"}},
        {"name": "given", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
    ]
    found = {"app.kubernetes.io/name": "prometheus"}
    port = {"name": "web", "port": 9090}
    namespace.create(
        pod(NAME, container, labels=found, volumes=volumes, terminationGracePeriodSeconds=0),
        service("prometheus-k8s", port, found, selector=found),
    )
    namespace.wait("condition=Ready", f"pod/{NAME}")
    return namespace


def fetched(kubeconfig: Path, place: str) -> Fetched:
    api = connection.connect(kubeconfig=str(kubeconfig))
    opened = source.source(place, api)
    try:
        return opened.fetch(wanted())
    finally:
        opened.close()
        api.close()


def test_it_is_asked_at_its_address_in_the_cluster(served: Namespace) -> None:
    url = f"http://prometheus-k8s.{served.name}.svc:9090"
    found = fetched(served.cluster.kubeconfig, url)
    assert {series.gpu.uuid for series in found.series} == {*UUIDS}
    assert {len(series.at) for series in found.series} == {41}
