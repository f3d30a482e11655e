"""A DCGM exporter in a pod of its own, read through the API server's pod proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import prometheus_client

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.metrics.dcgm import DcgmSource
from k8sbench.model.gpu_metrics import Fetched, Wanted
from k8sbench.model.kube import RUN_LABEL
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import image
from tests.harness.prometheus import wait

POD = "r50-master-0"
EXPORTER = """
import itertools, os, time
from prometheus_client import Gauge, start_http_server
labels = {"gpu": "0", "UUID": "GPU-0", "hostname": "any", "pod": os.environ["POD"],
          "namespace": os.environ["NAMESPACE"], "container": "pytorch"}
one = Gauge("DCGM_FI_DEV_GPU_UTIL", "Utilization.", list(labels)).labels(**labels)
start_http_server(9400)
for value in itertools.cycle((90, 96)):
    one.set(value)
    time.sleep(0.2)
"""


def pod(name: str, labels: dict[str, str], **container: Any) -> dict[str, Any]:
    command = ["python3", "-c", "import time; time.sleep(3600)"]
    main = {"name": "main", "image": image.PYTHON, "imagePullPolicy": "Never", "command": command}
    given = str(Path(prometheus_client.__file__).parent)
    volume = {"name": "client", "hostPath": {"path": given, "type": "Directory"}}
    spec = {
        "containers": [{**main, **container}],
        "volumes": [volume],
        "terminationGracePeriodSeconds": 0,
    }
    about = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def test_it_is_found_beside_the_runs_pod_and_read(namespace: Namespace) -> None:
    run = following.run_of(following.plan("1x1"))
    namespace.create(pod(POD, {RUN_LABEL: run.run_id}))
    namespace.wait("condition=Ready", f"pod/{POD}")
    node = namespace.get("pod", POD)["spec"]["nodeName"]
    mount = {"name": "client", "mountPath": "/given/prometheus_client", "readOnly": True}
    values = {"POD": POD, "NAMESPACE": namespace.name, "PYTHONPATH": "/given"}
    exporter = pod(
        "nvidia-dcgm-exporter-x1",
        {"app": "nvidia-dcgm-exporter"},
        command=["python3", "-c", EXPORTER],
        env=[{"name": name, "value": value} for name, value in values.items()],
        ports=[{"name": "metrics", "containerPort": 9400}],
        readinessProbe={"httpGet": {"path": "/metrics", "port": 9400}, "periodSeconds": 1},
        volumeMounts=[mount],
    )
    exporter["spec"]["nodeName"] = node
    namespace.create(exporter)
    namespace.wait("condition=Ready", "pod/nvidia-dcgm-exporter-x1")
    api = connection.connect(kubeconfig=str(namespace.cluster.kubeconfig), namespace=namespace.name)
    source = DcgmSource(api, interval=0.5)
    try:
        source.follow(run)

        def fetched() -> Fetched:
            where: dict[str, str | None] = {POD: node}
            return source.fetch(
                Wanted(run_id=run.run_id, namespace=namespace.name, nodes=where, start=0, end=1e10)
            )

        wait(lambda: any(len(one.at) > 3 for one in fetched().series), "it was read")
        (series,) = fetched().series
    finally:
        source.close()
        api.close()
    assert (series.metric, series.gpu.pod, series.gpu.node) == ("gpu_utilization", POD, node)
    assert {*series.values} <= {0.9, 0.96}
