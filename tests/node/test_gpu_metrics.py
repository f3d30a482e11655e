"""From a DCGM exporter to a row, without Prometheus: submit, watch and top read it by pod proxy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.model.gpu_metrics import Fetched
from tests import tiers
from tests.harness import prometheus
from tests.harness.cluster import page_roles
from tests.harness.cluster.manifests import pod, service
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import faults, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.frameworks import GPU_PRODUCT
from tests.harness.node.programs import GATE, POOL, Programs, variant
from tests.prometheus.examples import PODS, UUIDS, labels, renamed, utilization, wanted

RUN, NODE, UUID = "trains", "node-0", "GPU-0"
EXPORTER = "nvidia-dcgm-exporter-x1"
EXPOSES = """
import os, signal
from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import GaugeMetricFamily
labels = {"gpu": "0", "UUID": os.environ["UUID"], "hostname": "any", "pod": os.environ["POD"],
          "namespace": os.environ["NAMESPACE"], "container": "pytorch"}
class Gpu:
    scrapes = 0
    def collect(self):
        self.scrapes += 1
        print("scraped", flush=True)
        values = {"DCGM_FI_DEV_GPU_UTIL": 90 + self.scrapes / 100,
                  "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.41}
        for name, value in values.items():
            found = GaugeMetricFamily(name, "", labels=[*labels])
            found.add_metric([*labels.values()], value)
            yield found
REGISTRY.register(Gpu())
start_http_server(9400)
signal.pause()
"""
"""An exporter of default counters: each scrape has a new utilization, and none tells of clocks."""
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
"""A program that goes on until the gate is opened, and prints samples as our trainers do."""
EVERY_HALF_SECOND = """
import runpy
from k8sbench.adapters.metrics.dcgm import DcgmSource
DcgmSource.__init__.__kwdefaults__["interval"] = 0.5
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""
"""k8sbench that reads an exporter twice a second, so that seconds are many of its intervals."""
READ = 8
"""Times that the exporter is read after the run was seen to go on, before the program ends."""


def exporter(namespace: Namespace) -> dict[str, Any]:
    values = {"UUID": UUID, "POD": f"{RUN}-master-0", "NAMESPACE": namespace.name}
    given = str(Path(prometheus_client.__file__).parent)
    mount = {"name": "client", "mountPath": "/given/prometheus_client", "readOnly": True}
    container = {
        "name": "main",
        "image": image.PYTHON,
        "command": ["python3", "-c", EXPOSES],
        "env": [
            {"name": name, "value": value}
            for name, value in {**values, "PYTHONPATH": "/given"}.items()
        ],
        "ports": [{"name": "metrics", "containerPort": 9400}],
        "readinessProbe": {"tcpSocket": {"port": 9400}, "periodSeconds": 1},
        "volumeMounts": [mount],
    }
    return pod(
        EXPORTER,
        container,
        labels={"app": "nvidia-dcgm-exporter"},
        nodeName=NODE,
        volumes=[{"name": "client", "hostPath": {"path": given, "type": "Directory"}}],
        terminationGracePeriodSeconds=0,
    )


@pytest.fixture
def programs(node_cluster: NodeCluster, namespace: Namespace, tmp_path: Path) -> Iterator[Programs]:
    """A node with a GPU and its exporter, which the user may read by the Role of the page."""
    shell = Shell(namespace, namespace.user(tmp_path), tmp_path / "shell")
    shell.program = ("-c", EVERY_HALF_SECOND)
    found = Programs(shell, **{RUN: variant(TRAINS)})
    selector = {"nvidia.com/gpu.product": GPU_PRODUCT}
    pool = {**POOL, "name": "gpu", "gpus_per_node": 1, "gpu_model": "Tesla T4"}
    pools = {"default": "gpu", "pools": [{**pool, "selector": selector}]}
    shell.pools.write_text(json.dumps(pools))
    page_roles.grant(page_roles.EXPORTERS, namespace)
    with faults.gpus(node_cluster, NODE, count=1):
        namespace.create(exporter(namespace))
        namespace.wait("condition=Ready", f"pod/{EXPORTER}")
        yield found


def test_what_an_exporter_tells_is_in_the_row_and_seen_by_whoever_looks(
    programs: Programs,
) -> None:
    shell = programs.shell

    def scrapes() -> int:
        return shell.namespace.kubectl("logs", EXPORTER).count("scraped")

    with shell.started(*programs.words(RUN, "--accept=gpu-throttled")) as submit:
        submit.until("step 2")
        with shell.started("watch", RUN) as watch:
            with shell.started("watch", RUN, "--gpu") as looking:
                # The tensor cores by the exporter, the temperature by the program.
                both = re.compile(r"master-0 .* 41 % .* 61°C")
                until(lambda: both.search(looking.out), "it has both sources")
                looking.interrupt().ends(130)
            before = scrapes()
            until(lambda: scrapes() >= before + READ, "the exporter to be read")
            programs.open_gate(RUN)
            submit.ends()
            watch.ends()

    (row,) = shell.json("results")["rows"]
    assert 0.9 < row["gpu_utilization"] < 1
    assert (row["tensor_active"], row["throttled"]) == (pytest.approx(0.41), 1.0)
    figures = row["members"][0]["gpu"]
    assert figures["gpu_utilization"]["source"] == "dcgm"
    assert figures["gpu_utilization"]["samples"] >= READ
    assert 0.5 < figures["gpu_utilization"]["coverage"] <= 1
    # What the exporter does not tell the program's own samples do.
    assert (figures["throttled"]["source"], figures["throttled"]["codes"]) == ("trainer", [0x40])

    assert re.search(r" 9\d\.\d % .* 41\.0 % .* 100\.0 % ", shell.run("results", "-o", "wide").out)


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
    opened = PrometheusSource(partial(prometheus_api.ways, place, api))
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
