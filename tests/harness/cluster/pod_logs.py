"""Files that kwok serves as the logs of pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.harness.cluster.following import until
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import log_object

_OF_ALL = "a fake pod"
"""Begins the log of pods that have none of their own."""


def serve(namespace: Namespace, files: Mapping[str, Path]) -> None:
    """Make files the logs of pods that are not there yet; they may go on growing."""
    namespace.create(*(log_object(namespace.name, pod, file) for pod, file in files.items()))
    # kwok learns of logs by another watch than of pods: without this a pod could begin with the
    # log of all. The last is known when all are.
    path = f"/api/v1/nodes/gpu-0/proxy/containerLogs/{namespace.name}/{[*files][-1]}/any"
    until(lambda: not namespace.kubectl("get", f"--raw={path}").startswith(_OF_ALL))


def have_none_before(namespace: Namespace, pod: str, empty: Path) -> None:
    """Let a pod have no log of a container before its own: kwok fails to read it otherwise."""
    empty.touch()
    add = {"op": "add", "path": "/spec/logs/0/previousLogsFile", "value": str(empty)}
    namespace.kubectl("patch", "logs.kwok.x-k8s.io", pod, "--type=json", f"-p={json.dumps([add])}")
