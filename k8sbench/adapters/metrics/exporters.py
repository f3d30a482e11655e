"""The DCGM exporters of a cluster: finds their pods, and reads them by the pod proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.promql import FIELDS
from k8sbench.model.kube import name_of

SELECTORS = (
    "app.kubernetes.io/name in (dcgm-exporter,nvidia-dcgm-exporter,gke-managed-dcgm-exporter)",
    "app in (nvidia-dcgm-exporter,dcgm-exporter)",
)
"""Labels of their pods: the exporter's own chart and Google's, then the GPU operator's."""
NAMESPACES = (
    *("gpu-operator", "nvidia-gpu-operator", "gke-managed-system"),
    *("dcgm-exporter", "monitoring", "kube-system"),
)
"""Where they usually are, for users who may not list the pods of all namespaces."""
PORT = 9400
_PORT_NAMES = ("metrics", "https-metrics", "dcgm-metrics")
RUNNING = "status.phase=Running"


class ExposedValue(NamedTuple):
    """One value of an exposition."""

    labels: Mapping[str, str]
    """With ``__name__``."""
    value: float


class VisibleExporters(msgspec.Struct, frozen=True, kw_only=True):
    """The exporters that the user may see."""

    pods: tuple[KubeObject, ...] = ()
    why: str = ""
    """Where there are none: one sentence."""
    is_refused: bool = False
    """Whether the user may not look everywhere, and none is seen."""


class ExporterFault(Exception):
    """An exporter could not be read: why, without a full stop."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def find(api: Api) -> VisibleExporters:
    """Find those of the cluster; raises :class:`ApiFault`.

    Requests are sent once, so that a refusal is known at once.
    """
    for namespace in dict.fromkeys((None, api.place.namespace, *NAMESPACES)):
        try:
            pods = _listed(api, namespace)
        except ApiFault as fault:
            if fault.status != 403:
                raise
            continue
        if pods or namespace is None:
            return VisibleExporters(
                pods=pods, why="" if pods else "The cluster has no DCGM exporter."
            )
    return VisibleExporters(
        why="You may not list the pods of all namespaces to find DCGM exporters, and there is none"
        " in the usual ones that you may look into.",
        is_refused=True,
    )


def called(pod: KubeObject) -> str:
    """Return its namespace and name."""
    return f"{pod['metadata']['namespace']}/{name_of(pod)}"


def scrape(api: Api, pod: KubeObject, seconds: float) -> list[ExposedValue]:
    """Return the values of the fields that count; raises :class:`ExporterFault`.

    Ends within the time given, whatever is at the other end.
    """
    scheme, port = _port(pod)
    about = pod["metadata"]
    path = kinds.path("Pod", about["namespace"], f"{scheme}{about['name']}:{port}", "proxy/metrics")
    try:
        answer = api.read(path, seconds, retry_s=0.0)
    except ApiFault as fault:
        status = f" ({fault.status})" if fault.status is not None else ""
        message = prometheus_api.shortened(fault.message).rstrip(".")
        raise ExporterFault(f"{message}{status}", fault.status) from fault
    return list(read(answer.decode(errors="replace")))


def read(text: str) -> Iterator[ExposedValue]:
    """Read an exposition; raises :class:`ExporterFault` where it is none, such as a page."""
    from prometheus_client.parser import text_string_to_metric_families

    if text.lstrip().startswith("<"):
        raise ExporterFault("it answers with a page of HTML")
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # The parser gives counters OpenMetrics' suffix.
                name = sample.name.removesuffix("_total")
                if name in FIELDS:
                    yield ExposedValue({"__name__": name, **sample.labels}, sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ExporterFault("its answer is not a metrics page") from error


def _listed(api: Api, namespace: str | None) -> tuple[KubeObject, ...]:
    path, pods = kinds.path("Pod", namespace), dict[str, KubeObject]()
    for selector in SELECTORS:
        listed, _ = api.list(path, labels=selector, fields=RUNNING, keep=_kept, retry_s=0)
        pods |= {called(pod): pod for pod in listed}
    return tuple(pods.values())


def _kept(pod: KubeObject) -> KubeObject:
    about, spec = pod["metadata"], pod["spec"]
    keys = ("name", "env", "args", "command", "ports")
    return {
        "metadata": {key: about[key] for key in ("namespace", "name")},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [
                {key: container[key] for key in keys if key in container}
                for container in spec["containers"]
            ],
        },
    }


def _port(pod: KubeObject) -> tuple[str, int]:
    """Return the scheme that the proxy is to use, and the port by its number."""
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if (name := port.get("name")) in _PORT_NAMES:
                return "https:" if name.startswith("https") else "", port["containerPort"]
    return "", PORT
