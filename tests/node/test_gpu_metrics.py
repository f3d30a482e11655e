"""GPU metrics of a run on a node, from its program and Prometheus."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.model.gpu_metrics import Fetched
from tests import tiers
from tests.harness import prometheus
from tests.harness.cluster.manifests import pod, service
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import faults, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import GATE, POOL, Programs, variant
from tests.prometheus.examples import PODS, UUIDS, labels, renamed, utilization, wanted

RUN, NODE, UUID = "trains", "node-0", "GPU-0"
TRAINS = f"""
import itertools, json, threading, time
def say(**event):
    print("K8SBENCH " + json.dumps(event), flush=True)
{GATE}
opened = threading.Event()
threading.Thread(target=lambda: (wait_at_gate(), opened.set()), daemon=True).start()
say(event="environment", rank=0, pod="{RUN}-master-0", gpu_uuid="{UUID}", gpu_model="Tesla T4")
for number in itertools.count(1):
    print("step", number, 5.0, flush=True)
    say(event="gpu", rank=0, every=0.5, at=[time.time()], throttled=[0x40], temperature=[61])
    if opened.wait(0.5):
        break
"""
"""Program that prints our trainers' samples until its gate opens."""
STEPS = 8
"""Further steps of the program after its gate opened."""


@pytest.fixture
def programs(node_cluster: NodeCluster, namespace: Namespace, tmp_path: Path) -> Iterator[Programs]:
    """Yield a GPU node's program; its user may only run jobs."""
    shell = Shell(namespace, namespace.user(tmp_path), tmp_path / "shell")
    found = Programs(shell, **{RUN: variant(TRAINS)})
    selector = {"nvidia.com/gpu.product": faults.GPU_PRODUCT}
    pool = {**POOL, "name": "gpu", "gpus_per_node": 1, "gpu_model": "Tesla T4"}
    pools = {"default": "gpu", "pools": [{**pool, "selector": selector}]}
    shell.pools.write_text(json.dumps(pools))
    with faults.gpu(node_cluster, NODE):
        yield found


def test_the_programs_samples_are_in_the_row(programs: Programs) -> None:
    shell = programs.shell

    def steps() -> int:
        return shell.namespace.kubectl("logs", f"{RUN}-master-0").count("step ")

    with shell.started(*programs.words(RUN)) as submit:
        submit.until("step 2")
        with shell.started("watch", RUN) as watch:
            before = steps()
            until(lambda: steps() >= before + STEPS, "the program goes on")
            programs.open_gate(RUN)
            # A GPU that was held down gives no valid row, unless somebody accepts it.
            submit.ends(5)
            watch.ends(0, 5)  # 0: the run closed before `submit` had recorded the metrics

    accepted = ("results", "--accept=gpu-throttled")
    (row,) = shell.json(*accepted)["rows"]
    assert row["throttled"] == 1.0
    figure = row["members"][0]["gpu"]["throttled"]
    assert (figure["source"], figure["codes"]) == ("trainer", [0x40])
    assert figure["samples"] >= STEPS
    assert 0.5 < figure["coverage"] <= 1
    assert re.search(r" 100\.0 % ", shell.run(*accepted, "-o", "wide").out)


SAMPLES = [utilization(labels(uuid, **renamed(PODS[0]))) for uuid in UUIDS]
NAME = "prometheus"


@pytest.fixture
@tiers.needs("prometheus")
def served(namespace: Namespace, tmp_path: Path) -> Namespace:
    """Have one in the namespace, with yesterday's samples."""
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
    with contextlib.closing(connection.connect(kubeconfig=str(kubeconfig))) as api:
        return PrometheusSource(partial(prometheus_api.ways, place, api)).fetch(wanted())


def test_it_is_asked_at_its_address_in_the_cluster(served: Namespace) -> None:
    url = f"http://prometheus-k8s.{served.name}.svc:9090"
    found = fetched(served.cluster.kubeconfig, url)
    assert {series.gpu.uuid for series in found.series} == {*UUIDS}
    assert {len(series.at) for series in found.series} == {41}
