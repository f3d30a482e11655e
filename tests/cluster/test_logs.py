"""Logs of pods on a real API server: every line once, whatever breaks.

kwok plays the kubelets with the kubelet's own code for reading logs; their files are ours to grow
and to replace. Its streams never end by themselves, as if every container went on for ever.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent
from tests.harness.cluster.jobs import ON_GPUS
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import log_object, log_text

Start = Callable[..., LogStreams]


class Reported:
    """Reported log lines by replica; tests can wait for more."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.gaps: list[LogGap] = []
        self.drained: set[str] = set()
        self._changed = threading.Condition()

    def take(self, event: JobEvent) -> None:
        with self._changed:
            if event.line is not None:
                self.lines.setdefault(event.line.replica, []).append(event.line.text)
            elif event.gap is not None:
                self.gaps.append(event.gap)
            self._changed.notify_all()

    def take_drained(self, run_id: str) -> None:
        with self._changed:
            self.drained.add(run_id)
            self._changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS), self.summary()

    def until_lines(self, replica: str, count: int) -> None:
        self.until(lambda: len(self.lines.get(replica, ())) >= count)

    def summary(self) -> str:
        counts = {replica: len(lines) for replica, lines in self.lines.items()}
        return f"lines {counts}, gaps {self.gaps}, drained {self.drained}"


class Pods:
    """Pods of a namespace whose logs are files of ours."""

    def __init__(self, namespace: Namespace, folder: Path, api: Api) -> None:
        self.namespace, self.folder, self.api = namespace, folder, api
        self.uids: dict[str, str] = {}

    def run(self, *names: str) -> None:
        """Start pods whose logs are empty."""
        logs = []
        for name in names:
            self.file(name).touch()
            logs.append(log_object(self.namespace.name, name, self.file(name)))
        self.namespace.create(*logs)
        container = {"name": "pytorch", "image": "example.invalid/trainer:1"}
        self.namespace.create(
            *(pod(name, container, restartPolicy="Never", **ON_GPUS) for name in names)
        )
        pods = self.namespace.wait_for_pods(len(self.uids) + len(names))
        self.uids = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
        for name in names:
            self._until_kwok_knows(name)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def write(self, name: str, lines: Sequence[str]) -> None:
        with self.file(name).open("a") as file:
            file.write(log_text(lines))

    def _until_kwok_knows(self, name: str) -> None:
        """Wait until the pod's log is its own file, not the default."""
        path = f"/api/v1/namespaces/{self.namespace.name}/pods/{name}/log"
        until = time.monotonic() + SECONDS
        # kwok's watch may still be coming back from a test that took the API server away.
        while b"".join(self.api.stream(path).chunks()):
            assert time.monotonic() < until, f"the log of {name} is not its file"
            time.sleep(0.03)


@pytest.fixture
def api(namespace: Namespace) -> Iterator[Api]:
    with contextlib.closing(connection.connect(namespace=namespace.name)) as found:
        yield found


@pytest.fixture
def pods(namespace: Namespace, tmp_path: Path, api: Api) -> Pods:
    return Pods(namespace, tmp_path, api)


@pytest.fixture
def reported() -> Reported:
    return Reported()


@pytest.fixture
def start(
    api: Api, namespace: Namespace, reported: Reported
) -> Iterator[Callable[..., LogStreams]]:
    made: list[LogStreams] = []

    def make(**more: Any) -> LogStreams:
        more = {"sink": reported.take, "when_drained": reported.take_drained, **more}
        made.append(LogStreams(api, namespace.name, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def follow(streams: LogStreams, pods: Pods, name: str, rank: int = 0, **more: Any) -> None:
    uid = pods.uids[name]
    streams.want("run", name, pod=name, uid=uid, container="pytorch", rank=rank, **more)


def finish(streams: LogStreams, reported: Reported, *names: str) -> None:
    for name in names:
        streams.ended("run", name)
    reported.until(lambda: "run" in reported.drained)
    assert streams.drained("run")


def numbered(first: int, last: int) -> list[str]:
    return [f"step {number}" for number in range(first, last)]


def test_logs_are_reported_as_they_grow(pods: Pods, reported: Reported, start: Start) -> None:
    pods.run("a", "b")
    streams = start()
    follow(streams, pods, "a")
    follow(streams, pods, "b", 1)
    for first in range(0, 100, 20):
        pods.write("a", numbered(first, first + 20))
        pods.write("b", numbered(first, first + 20))
        reported.until_lines("a", first + 20)
        reported.until_lines("b", first + 20)
    assert not streams.drained("run")
    # What comes just before the end is fetched then.
    pods.write("a", numbered(100, 50_000))
    finish(streams, reported, "a", "b")
    assert reported.lines == {"a": numbered(0, 50_000), "b": numbered(0, 100)}
    assert reported.gaps == []
