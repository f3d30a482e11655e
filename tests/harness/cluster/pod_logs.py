"""Files as the logs of pods."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.following import until
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import log_object

_OF_ALL = "a fake pod"
"""Start of the one-line log of pods without a log file."""


def serve(
    namespace: Namespace, run_id: str, files: Mapping[str, Path], proxy: FaultProxy | None = None
) -> None:
    """Assign growing log files to a run's replicas, before their pods exist.

    kwok serves them by pod names; where those end at random, ``proxy`` serves them to its clients.
    """
    if namespace.cluster.kind.makers:
        assert proxy is not None, "kwok cannot know the names of these pods"
        for replica, file in files.items():
            _serve_by_proxy(proxy, run_id, replica, file)
        return
    serve_pods(namespace, {f"{run_id}-{replica}": file for replica, file in files.items()})


def serve_pods(namespace: Namespace, pods: Mapping[str, Path]) -> None:
    """Make files the logs of pods, by their names; as :func:`serve`."""
    namespace.create(*(log_object(namespace.name, pod, file) for pod, file in pods.items()))
    # kwok learns of logs by another watch than of pods: without this a pod could begin with the
    # log of all. The last is known when all are.
    until(lambda: not _served(namespace, [*pods][-1]).startswith(_OF_ALL))


def _served(namespace: Namespace, pod: str) -> str:
    path = f"/api/v1/nodes/gpu-0/proxy/containerLogs/{namespace.name}/{pod}/any"
    return namespace.kubectl("get", f"--raw={path}")


def serve_again(namespace: Namespace, pod: str, file: Path) -> None:
    """Assign a new, empty log file to a recreated pod.

    For readers of the earlier pod's log, kwok serves the lines of the new file, where a kubelet
    would end the response. And kwok fails to read a previous container's log that does not exist.
    """
    (empty := file.with_suffix(".before")).touch()
    paths = {"logsFile": file, "previousLogsFile": empty}
    patch = [
        {"op": "add", "path": f"/spec/logs/0/{name}", "value": str(path)}
        for name, path in paths.items()
    ]
    namespace.kubectl("patch", "logs.kwok.x-k8s.io", pod, "--type=json", f"-p={json.dumps(patch)}")
    until(lambda: not _served(namespace, pod))


def _serve_by_proxy(proxy: FaultProxy, run_id: str, replica: str, file: Path) -> None:
    number = replica.rpartition("-")[2]
    requested = rf"/pods/{run_id}-node-0-{number}-[a-z0-9]+/log\?(?!.*previous=true)"
    proxy.alter(requested, lambda _: re.sub(rb"(?m)^(\S+) \w+ F ", rb"\1 ", file.read_bytes()))
