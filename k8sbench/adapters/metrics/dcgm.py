"""The port ``MetricSource`` over DCGM exporters themselves, where no Prometheus scrapes them.

Exporters keep nothing: they are read while a run is followed, one request every
:data:`INTERVAL` seconds to those of the nodes that hold its pods, however many runs are there. Each
node has a thread, so that an exporter that hangs holds up no other. What was read is kept in
memory until some time after the run was released.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics import attribution, exporters
from k8sbench.adapters.metrics.attribution import Labelled, Target
from k8sbench.adapters.metrics.exporters import ExporterFault, Sample
from k8sbench.adapters.metrics.promql import HOST_LABELS, POD_LABELS, UUID_LABELS
from k8sbench.model.gpu_metrics import Fetched, SourceName, Wanted
from k8sbench.model.kube import RUN_LABEL, name_of
from k8sbench.model.run import Run
from k8sbench.ports import MetricSource

INTERVAL = 15.0
"""Seconds between two requests to one exporter, which takes new values every 30 s."""
ANSWER_SECONDS = 5.0
"""For one answer."""
MOST = 960
"""Samples of one series that are kept: four hours; then every second one, at twice the distance."""
KEPT_SECONDS = 900.0
"""How long samples are kept after the run was released."""
_CHECKS = frozenset(2**power for power in range(2, 12))
"""After how many intervals it is looked whether Prometheus has the run's GPUs."""
LOOK_BACK_SECONDS = 120.0
_LABELS = frozenset(
    {"__name__", "gpu", "modelName", "GPU_I_ID", "GPU_I_PROFILE", *UUID_LABELS, *HOST_LABELS}
    | {label for style in POD_LABELS for label in style}
)
"""Labels that attribution reads. Others may change from pod to pod, and are not kept."""


class _Fault(NamedTuple):
    at: float
    exporter: str
    why: str


class NodeReadings:
    """What was read on one node."""

    def __init__(self, pods: Sequence[KubeObject]) -> None:
        self.pods = pods
        """Of its exporters."""
        self.users: set[str] = set()
        """Runs that are followed."""
        self.is_read = False
        """Whether a thread reads it."""
        self.thinned = 1
        """Intervals between two samples that are kept."""
        self.series: dict[frozenset[tuple[str, str]], tuple[array[float], array[float]]] = {}
        self.answers: deque[float] = deque(maxlen=MOST)
        """When exporters did answer."""
        self.faults: deque[_Fault] = deque(maxlen=MOST)

    def take(self, at: float, exporter: str, found: Iterable[Sample]) -> None:
        """Keep the values of one answer."""
        self.answers.append(at)
        longest = 0
        for labels, value in found:
            kept = {name: text for name, text in labels.items() if name in _LABELS}
            key = frozenset({**kept, "job": "", "instance": exporter}.items())
            stamps, values = self.series.setdefault(key, (array("d"), array("d")))
            if not stamps or at > stamps[-1]:
                stamps.append(at)
                values.append(value)
            longest = max(longest, len(stamps))
        if longest > MOST:
            self.thinned *= 2
            for stamps, values in self.series.values():
                del stamps[::2], values[::2]

    def drop(self, before: float) -> None:
        """Drop what is older."""
        for key, (stamps, values) in list(self.series.items()):
            first = bisect_left(stamps, before)
            del stamps[:first], values[:first]
            if not stamps:
                del self.series[key]
        if max((len(stamps) for stamps, _ in self.series.values()), default=0) < MOST // 2:
            self.thinned = 1


class _Followed:
    """A run, as long as its samples are kept."""

    def __init__(self, run: Run, since: float) -> None:
        self.run, self.since = run, since
        self.over = threading.Event()
        self.released_at: float | None = None
        self.nodes: dict[str, str | None] = {}
        """Its pods, and where they are."""
        self.why = "The run ended before a DCGM exporter was found on its nodes."
        """Why nothing was read, where that is so."""
        self.has_other = False
        """Whether Prometheus has its GPUs."""


class DcgmSource:
    """GPU metrics read from DCGM exporters while runs are followed."""

    name: SourceName = "dcgm"

    def __init__(
        self,
        api: Api,
        *,
        other: MetricSource | None = None,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL,
    ) -> None:
        self._api, self._other = api, other
        self._clock = clock
        """The cluster's, Unix seconds."""
        self._interval = interval
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._found: exporters.Found | None = None
        self._followed: dict[str, _Followed] = {}
        self._nodes: dict[str, NodeReadings] = {}
        self._closed = threading.Event()

    def follow(self, run: Run) -> None:
        """Read the exporters of the run's nodes from now on, in threads."""
        with self._lock:
            self._forget()
            known = self._followed.get(run.run_id)
            if known is not None and known.released_at is None:
                return
            one = self._followed[run.run_id] = _Followed(run, self._clock())
            if known is not None:
                one.nodes, one.since = known.nodes, known.since
        self._in_thread(lambda: self._accompany(one))

    def release(self, run_id: str) -> None:
        """Read them no more for this run."""
        with self._lock:
            one = self._followed.get(run_id)
            if one is not None and one.released_at is None:
                one.released_at = self._clock()
                self._leave(one)
            self._forget()

    def settles_in(self, wanted: Wanted) -> float:  # noqa: ARG002
        """0: what was read is there."""
        return 0.0

    def fetch(self, wanted: Wanted) -> Fetched:
        """Return what was read of the run's GPUs, or why that is nothing."""
        with self._lock:
            one = self._followed.get(wanted.run_id)
            known = {pod: node for pod, node in wanted.nodes.items() if node}
            places = wanted.nodes | (one.nodes if one else {}) | known
            names = {node for node in places.values() if node}
            nodes = {name: self._nodes[name] for name in sorted(names) if name in self._nodes}
            rows = [row for node in nodes.values() for row in _clipped(node, wanted)]
            targets = {_target(pod) for node in nodes.values() for pod in node.pods}
            faults = [
                fault
                for node in nodes.values()
                for fault in node.faults
                if wanted.start <= fault.at <= wanted.end
            ]
            answers = sum(
                wanted.start <= at <= wanted.end for node in nodes.values() for at in node.answers
            )
        why = _why(one, answers)
        if why:
            return Fetched(source=self.name, missing={"*": why})
        wanted = msgspec.structs.replace(wanted, nodes=places)
        notes = _notes(faults, names - set(nodes))
        found = attribution.attribute(rows, wanted, self.name, targets)
        missing = found.missing
        if not found.series and "*" not in missing:
            missing = {"*": _nothing(nodes, answers, notes)}
        warnings = (*notes, *found.warnings)
        return msgspec.structs.replace(found, missing=missing, warnings=warnings)

    def close(self) -> None:
        """End the threads; one that waits for an answer ends with it."""
        self._closed.set()
        for one in list(self._followed.values()):
            one.over.set()

    # -- threads --------------------------------------------------------------------------------

    def _in_thread(self, call: Callable[[], None]) -> None:
        # A daemon: nothing that it waits for may keep the program.
        threading.Thread(target=call, name="dcgm", daemon=True).start()

    def _accompany(self, one: _Followed) -> None:
        """Find the exporters beside a run's pods, and have them read until it is over."""
        is_placed = False
        for turn in itertools.count():
            try:
                found = self._exporters()
                if not found.pods:
                    one.why = found.why
                    return
                is_placed = is_placed or self._place(one, found.pods)
            except ApiFault as fault:
                one.why = f"No DCGM exporter can be looked for: {fault.message.rstrip('.')}."
            if turn in _CHECKS and self._other_has(one):
                with self._lock:
                    one.has_other = True
                    self._leave(one)
            if one.over.wait(self._interval):
                return

    def _exporters(self) -> exporters.Found:
        """Find them once, for all runs."""
        with self._finding:
            if self._found is None:
                self._found = exporters.find(self._api)
            return self._found

    def _place(self, one: _Followed, pods: Sequence[KubeObject]) -> bool:
        """Begin to read where the run's pods are; return whether all of them are somewhere."""
        path = kinds.path("Pod", self._api.place.namespace)
        chosen = f"{RUN_LABEL}={one.run.run_id}"
        listed, _ = self._api.list(path, labels=chosen, keep=_placed, retry_s=0)
        places = {name_of(pod): pod["node"] for pod in listed}
        there = set(filter(None, places.values()))
        beside = {name: [pod for pod in pods if _node(pod) == name] for name in sorted(there)}
        with self._lock:
            one.nodes |= places
            if one.over.is_set():
                return True
            for name, its in beside.items():
                if its:
                    node = self._nodes.setdefault(name, NodeReadings(its))
                    node.users.add(one.run.run_id)
                    if not node.is_read:
                        node.is_read = True
                        self._in_thread(partial(self._read_all, name, node))
        if there:
            some = ", ".join(sorted(there)[:3])
            one.why = "" if any(beside.values()) else f"There is no DCGM exporter on {some}."
        return (
            len(there) > 0 and len(listed) >= one.run.plan.replicas and None not in places.values()
        )

    def _other_has(self, one: _Followed) -> bool:
        if self._other is None:
            return False
        now = self._clock()
        wanted = Wanted(
            run_id=one.run.run_id,
            namespace=self._api.place.namespace,
            nodes=one.nodes,
            start=now - LOOK_BACK_SECONDS,
            end=now,
        )
        return self._other.settles_in(wanted) > 0

    def _read_all(self, name: str, node: NodeReadings) -> None:
        """Read a node's exporters for as long as a run there is followed."""
        while not self._closed.is_set():
            began = time.monotonic()
            with self._lock:
                node.is_read = bool(node.users)
                if not node.is_read:
                    return
            is_gone = False
            for pod in node.pods:
                at = self._clock()
                try:
                    found = exporters.scrape(self._api, pod, ANSWER_SECONDS)
                except ExporterFault as fault:
                    is_gone = is_gone or fault.status == 404
                    with self._lock:
                        node.faults.append(_Fault(at, exporters.called(pod), str(fault)))
                    continue
                with self._lock:
                    node.take(at, exporters.called(pod), found)
            if is_gone:
                # It may have been replaced by another, of another name.
                with contextlib.suppress(ApiFault):
                    node.pods = exporters.find(self._api, name).pods or node.pods
            self._closed.wait(max(0.0, began + self._interval * node.thinned - time.monotonic()))

    # -- under the lock -------------------------------------------------------------------------

    def _leave(self, one: _Followed) -> None:
        one.over.set()
        for node in self._nodes.values():
            node.users.discard(one.run.run_id)

    def _forget(self) -> None:
        """Drop what nobody will fetch any more."""
        now = self._clock()
        for run_id, one in list(self._followed.items()):
            if one.released_at is not None and now > one.released_at + KEPT_SECONDS:
                del self._followed[run_id]
        since: dict[str | None, float] = {}
        for one in self._followed.values():
            for name in one.nodes.values():
                since[name] = min(since.get(name, one.since), one.since)
        for name, node in list(self._nodes.items()):
            if name in since:
                node.drop(since[name])
            elif not node.is_read:
                del self._nodes[name]


def _placed(pod: KubeObject) -> KubeObject:
    return {"metadata": {"name": name_of(pod)}, "node": pod["spec"].get("nodeName")}


def _node(exporter: KubeObject) -> str | None:
    node: str | None = exporter["spec"]["nodeName"]
    return node


def _target(pod: KubeObject) -> Target:
    about = pod["metadata"]
    return Target("", exporters.called(pod), about["namespace"], about["name"])


def _clipped(node: NodeReadings, wanted: Wanted) -> Iterator[Labelled]:
    for labels, (at, values) in node.series.items():
        first, end = bisect_left(at, wanted.start), bisect_right(at, wanted.end)
        if first < end:
            yield Labelled(dict(labels), tuple(at[first:end]), tuple(values[first:end]))


def _why(one: _Followed | None, answers: int) -> str:
    """Say why nothing was read; empty: something was."""
    if one is None:
        return (
            "No DCGM exporter was asked: that is done while k8sbench follows the run, and they keep"
            " nothing."
        )
    if one.has_other:
        return "No DCGM exporter was asked: Prometheus has the run's GPUs."
    return "" if answers else one.why


def _notes(faults: Sequence[_Fault], without: Iterable[str]) -> list[str]:
    """Say which samples are not there, and why."""
    notes = [
        f"There is no DCGM exporter on {name}, where the run had pods." for name in sorted(without)
    ]
    counted: dict[str, Counter[str]] = {}
    for fault in faults:
        counted.setdefault(fault.exporter, Counter())[fault.why] += 1
    for exporter, why in sorted(counted.items()):
        ((most, _),) = why.most_common(1)
        notes.append(f"The DCGM exporter {exporter} failed {why.total()} times: {most}.")
    return notes


def _nothing(nodes: Iterable[str], answers: int, notes: Sequence[str]) -> str:
    if not answers:
        return notes[0] if notes else "No DCGM exporter was read within the run's window."
    return (
        f"The DCGM exporters of {', '.join(list(nodes)[:3])} name neither the run's pods nor a GPU"
        " that its log names: start them with DCGM_EXPORTER_KUBERNETES=true."
    )
