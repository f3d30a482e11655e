"""The port ``MetricSource`` over DCGM exporters themselves, whose pods are read by the pod proxy.

Exporters keep nothing: those of the nodes that hold pods of a run are read while it is followed,
each once in :data:`INTERVAL_SECONDS`, however many runs are there. Each node has a thread, so that
an exporter that hangs holds up no other. What was read is kept in memory until some time after the
run was released.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics import attribution, prometheus_api
from k8sbench.adapters.metrics.attribution import Labelled
from k8sbench.adapters.metrics.prometheus_api import FIELDS, HOST_LABELS, POD_LABELS, UUID_LABELS
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery, SourceName
from k8sbench.model.kube import name_of
from k8sbench.model.run import Run
from k8sbench.ports import MetricSource

INTERVAL_SECONDS = 15.0
"""Seconds between two requests to one exporter, which takes new values every 30 s."""
ANSWER_SECONDS = 5.0
"""For one answer."""
MOST = 5760
"""Samples of one series that are kept, the latest: those of a day."""
KEPT_SECONDS = 900.0
"""How long samples are kept after the run was released."""
FIND_SECONDS = 300.0
"""Until exporters are looked for again; sooner, at growing intervals, where a node lacks one."""
NOT_READ = (
    "No DCGM exporter was read: they are read only while k8sbench follows the run, and keep no "
    "history."
)
_LABELS = frozenset(
    {"__name__", "gpu", "modelName", "GPU_I_ID", "GPU_I_PROFILE", *UUID_LABELS, *HOST_LABELS}
    | {label for style in POD_LABELS for label in style}
)
"""Labels that attribution reads. Others may change from pod to pod, and are not kept."""
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


ExposedValue = tuple[Mapping[str, str], float]
"""Labels, ``__name__`` among them, and value of one line of an exposition."""


class NodeReadings:
    """What was read on one node."""

    def __init__(self) -> None:
        self.users: dict[str, float] = {}
        """Runs there, and since when they are followed, Unix seconds."""
        self.released: dict[str, float] = {}
        """Those of them that are not followed any more, and since when."""
        self.is_read = False
        """Whether a thread reads it."""
        self.exporters: Sequence[KubeObject] = ()
        """Their pods, as they were found last."""
        self.why = "The run ended before a DCGM exporter was found on its nodes."
        """Why none is read; empty where one is."""
        self.series: dict[frozenset[tuple[str, str]], tuple[array[float], array[float]]] = {}
        self.faults: dict[str, tuple[float, str]] = {}
        """By exporter: when it could not be read the last time, and why."""

    def take(self, at: float, exporter: str, samples: Iterable[ExposedValue]) -> None:
        """Keep the values of one answer."""
        for labels, value in samples:
            kept = {name: text for name, text in labels.items() if name in _LABELS}
            key = frozenset({**kept, "job": "", "instance": exporter}.items())
            stamps, values = self.series.setdefault(key, (array("d"), array("d")))
            if not stamps or at > stamps[-1]:
                stamps.append(at)
                values.append(value)
                del stamps[:-MOST], values[:-MOST]

    def forget(self, before: float) -> None:
        """Drop runs that were released before then, and the samples that no other one needs."""
        gone = [run_id for run_id, at in self.released.items() if at < before]
        for run_id in gone:
            del self.users[run_id], self.released[run_id]
        since = min(self.users.values(), default=math.inf)
        for key, (stamps, values) in list(self.series.items()) if gone else ():
            first = bisect_left(stamps, since)
            del stamps[:first], values[:first]
            if not stamps:
                del self.series[key]

    def clipped(self, wanted: SeriesQuery) -> Iterator[Labelled]:
        """Yield what lies within a window."""
        for labels, (at, values) in self.series.items():
            first, end = bisect_left(at, wanted.start), bisect_right(at, wanted.end)
            if first < end:
                yield Labelled(dict(labels), tuple(at[first:end]), tuple(values[first:end]))


class DcgmSource(MetricSource):
    """GPU metrics read from DCGM exporters while runs are followed."""

    name: SourceName = "dcgm"

    def __init__(self, api: Api, *, interval: float = INTERVAL_SECONDS) -> None:
        self._api = api
        self._interval = interval
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._found: Sequence[KubeObject] | ApiFault | None = None
        self._found_at = 0.0
        self._nodes: dict[str, NodeReadings] = {}
        self._closed = threading.Event()

    def follow(self, run: Run, nodes: Collection[str]) -> None:
        """Read the exporters of these nodes from now on, in threads."""
        before = self._api.time() - KEPT_SECONDS
        with self._lock:
            for name, node in list(self._nodes.items()):
                if not node.is_read:
                    node.forget(before)
                    if not node.users:
                        del self._nodes[name]
            for name in nodes:
                node = self._nodes.setdefault(name, NodeReadings())
                node.users.setdefault(run.run_id, self._api.time())
                node.released.pop(run.run_id, None)
                if not node.is_read:
                    node.is_read = True
                    # A daemon: nothing that it waits for may keep the program.
                    reads = threading.Thread(
                        target=self._read_all, args=(name, node), name="dcgm", daemon=True
                    )
                    reads.start()

    def release(self, run_id: str) -> None:
        """Read them no more for this run."""
        with self._lock:
            for node in self._nodes.values():
                if run_id in node.users:
                    node.released.setdefault(run_id, self._api.time())

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return what was read of the run's GPUs, or why that is nothing."""
        with self._lock:
            names = sorted({node for node in wanted.nodes.values() if node})
            nodes = {
                name: self._nodes[name]
                for name in names
                if name in self._nodes and wanted.run_id in self._nodes[name].users
            }
            rows = [row for node in nodes.values() for row in node.clipped(wanted)]
            notes = tuple(_notes(nodes, wanted))
        fetched = attribution.attribute(rows, wanted, self.name)
        if fetched.series:
            return msgspec.structs.replace(fetched, warnings=notes)
        why = notes[0] if notes else NOT_READ
        if rows:
            why = (
                f"The DCGM exporters of {', '.join(names[:3])} name neither the run's pods nor a"
                " GPU that its log names: start them with DCGM_EXPORTER_KUBERNETES=true."
            )
        return Fetched(source=self.name, missing={"*": why}, warnings=notes)

    def close(self) -> None:
        """End the threads; one that waits for an answer ends with it."""
        self._closed.set()

    # -- threads --------------------------------------------------------------------------------

    def _read_all(self, name: str, node: NodeReadings) -> None:
        """Read a node's exporters for as long as a run there is followed."""
        first = began = time.monotonic()
        while not self._closed.wait(max(0.0, began - time.monotonic())):
            began = time.monotonic() + self._interval
            with self._lock:
                node.is_read = len(node.users) > len(node.released)
                if not node.is_read:
                    return
                node.forget(self._api.time() - KEPT_SECONDS)
            there, why = self._beside(name, time.monotonic() - first)
            # One that is gone is asked on: its 404 has its successor looked for.
            node.exporters = there or node.exporters
            node.why = "" if node.exporters else why
            for pod in node.exporters:
                self._read(node, pod)

    def _read(self, node: NodeReadings, pod: KubeObject) -> None:
        at, name = self._api.time(), called(pod)
        try:
            samples = scrape(self._api, pod, ANSWER_SECONDS)
        except ApiFault as fault:
            with self._lock:
                node.faults[name] = at, fault.message
                if fault.status == 404:
                    self._found = None  # it may have been replaced by another, of another name
            return
        with self._lock:
            node.take(at, name, samples)

    def _beside(self, name: str, age: float) -> tuple[Sequence[KubeObject], str]:
        """Return the exporters of a node, or why there are none; looks once for all nodes.

        ``age`` is for how long the node was read: on a new one an exporter may start after the run.
        """
        with self._finding:
            listed, wait = self._found, FIND_SECONDS
            if isinstance(listed, ApiFault) or name not in _nodes(listed or ()):
                wait = min(wait, max(self._interval, age / 2))
            if listed is None or time.monotonic() > self._found_at + wait:
                try:
                    listed = find(self._api)
                except ApiFault as fault:
                    listed = fault
                self._found, self._found_at = listed, time.monotonic()
        if isinstance(listed, ApiFault):
            why = listed.message.rstrip(".")
            return (), f"No DCGM exporter can be looked for: {why}."
        there = [pod for pod in listed if pod["spec"]["nodeName"] == name]
        return there, "" if there else f"There is no DCGM exporter on {name}."


def _nodes(pods: Iterable[KubeObject]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods}


def _notes(nodes: Mapping[str, NodeReadings], wanted: SeriesQuery) -> Iterator[str]:
    """Say which samples are not there, and why."""
    yield from dict.fromkeys(node.why for node in nodes.values() if node.why)
    for node in nodes.values():
        for exporter, (at, why) in sorted(node.faults.items()):
            if at >= wanted.start:
                yield f"The DCGM exporter {exporter} could not be read: {why}."


# --- exporters ---------------------------------------------------------------------------------


def find(api: Api) -> Sequence[KubeObject]:
    """Find the pods of the cluster's exporters; raises :class:`ApiFault`.

    Also where the user may not look everywhere, and none is seen. Requests are sent once, so that a
    refusal is known at once.
    """
    for namespace in dict.fromkeys((None, api.place.namespace, *NAMESPACES)):
        try:
            pods = _listed(api, namespace)
        except ApiFault as fault:
            if fault.status != 403:
                raise
            continue
        if pods or namespace is None:
            return pods
    why = "you may not list the pods of all namespaces, and it is in none of the usual ones"
    raise ApiFault(403, "", why)


def called(pod: KubeObject) -> str:
    """Return its namespace and name."""
    return f"{pod['metadata']['namespace']}/{name_of(pod)}"


def scrape(api: Api, pod: KubeObject, seconds: float) -> list[ExposedValue]:
    """Return the values of the fields that count; raises :class:`ApiFault`.

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
        raise ApiFault(fault.status, "", f"{message}{status}") from fault
    return list(read(answer.decode(errors="replace")))


def read(text: str) -> Iterator[ExposedValue]:
    """Read an exposition; raises :class:`ApiFault` where it is none, such as a page."""
    from prometheus_client.parser import text_string_to_metric_families

    if text.lstrip().startswith("<"):
        raise ApiFault(None, "", "it answers with a page of HTML")
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # The parser gives counters OpenMetrics' suffix.
                name = sample.name.removesuffix("_total")
                if name in FIELDS:
                    yield {"__name__": name, **sample.labels}, sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise ApiFault(None, "", "its answer is not a metrics page") from error


def _listed(api: Api, namespace: str | None) -> tuple[KubeObject, ...]:
    path, pods = kinds.path("Pod", namespace), dict[str, KubeObject]()
    for selector in SELECTORS:
        listed, _ = api.list(path, labels=selector, fields=RUNNING, keep=_kept, retry_s=0)
        pods |= {called(pod): pod for pod in listed}
    return tuple(pods.values())


def _kept(pod: KubeObject) -> KubeObject:
    about, spec = pod["metadata"], pod["spec"]
    containers = [{"ports": container.get("ports") or ()} for container in spec["containers"]]
    return {
        "metadata": {key: about[key] for key in ("namespace", "name")},
        "spec": {"nodeName": spec.get("nodeName"), "containers": containers},
    }


def _port(pod: KubeObject) -> tuple[str, int]:
    """Return the scheme that the proxy is to use, and the port by its number."""
    for container in pod["spec"]["containers"]:
        for port in container["ports"]:
            if (name := port.get("name")) in _PORT_NAMES:
                return "https:" if name.startswith("https") else "", port["containerPort"]
    return "", PORT
