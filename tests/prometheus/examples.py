"""Series as exporters give them, in all the styles of labels that there are."""

import time
from collections.abc import Mapping, Sequence

from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.model.gpu_metrics import Fetched, Series, SeriesQuery
from tests.harness.prometheus import Samples

START = float(int(time.time()) // 7200 * 7200 - 86_400)
"""Start of a window, yesterday: within Prometheus' retention."""
END = START + 600
NAMESPACE = "team"
PODS = ("r50-master-0", "r50-worker-0")
UUIDS = ("GPU-aaaa0000", "GPU-aaaa0001", "GPU-bbbb0000", "GPU-bbbb0001")
EXPORTERS = {"node-0": "dcgm-exporter-x1", "node-1": "dcgm-exporter-x2"}


def labels(uuid: str, *, node: str = "node-0", **more: str) -> dict[str, str]:
    """Return the labels of every exporter, with those that Prometheus adds."""
    return {
        "gpu": uuid[-1],
        "UUID": uuid,
        "device": f"nvidia{uuid[-1]}",
        "modelName": "Tesla V100-SXM2-32GB",
        "Hostname": node,
        "job": "dcgm",
        "instance": f"{node}:9400",
        **more,
    }


def renamed(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """Without honor_labels: the exporter's own pod, and the workload's with a prefix."""
    return {
        "namespace": "gpu-operator",
        "pod": EXPORTERS.get(node, f"dcgm-exporter-{node}"),
        "exported_namespace": namespace,
        "exported_pod": pod,
    }


def honored(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """With honor_labels."""
    return {"namespace": namespace, "pod": pod}


def points(
    values: Sequence[float] | float = 97.0,
    *,
    every: float = 15.0,
    start: float = START - 60,
    end: float = END + 60,
) -> list[tuple[float, float]]:
    """Samples at even distances; of several values one after the other, again and again."""
    given = [values] if isinstance(values, float) else values
    number = int((end - start) // every) + 1
    return [(start + place * every, given[place % len(given)]) for place in range(number)]


def utilization(of: Mapping[str, str], *more: float) -> Samples:
    """GPU utilization by these labels."""
    return Samples("DCGM_FI_DEV_GPU_UTIL", of, points(more or (97.0, 96.0)))


def wanted(
    nodes: Mapping[str, str | None] | None = None,
    *,
    uuids: Sequence[str] = (),
    namespace: str | None = NAMESPACE,
    start: float = START,
    end: float = END,
) -> SeriesQuery:
    """The window of a run of two pods on two nodes."""
    return SeriesQuery(
        run_id="r50",
        namespace=namespace,
        nodes=dict(nodes or {PODS[0]: "node-0", PODS[1]: "node-1"}),
        uuids=tuple(uuids),
        start=start,
        end=end,
    )


def fetch(url: str, what: SeriesQuery | None = None) -> Fetched:
    """Fetch from the Prometheus at an address."""
    return opened(url).fetch(what or wanted())


def opened(url: str) -> PrometheusSource:
    """The source that ``--prometheus URL`` makes."""
    return PrometheusSource(lambda: prometheus_api.ways(url, None))


def of(found: Fetched, metric: str) -> list[Series]:
    """The series of one metric."""
    return [series for series in found.series if series.metric == metric]
