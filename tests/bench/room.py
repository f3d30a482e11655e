"""A cluster of a benchmark's own, with room for its jobs of four pods."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster import bringup, nodes
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.readings import wait_for_nodes

REPLICAS, GPUS, SPARE = 4, 32, 4
"""Pods of a job; GPUs of a node; spare nodes."""


@contextlib.contextmanager
def cluster_for(jobs: int, *, has_kueue: bool = False) -> Iterator[tuple[OwnCluster, Path]]:
    """Start a cluster with enough nodes; yields it and a folder, and ends it."""
    options = bringup.Options(has_kueue=has_kueue)
    count = bringup.NODES + math.ceil(jobs * REPLICAS / GPUS) + SPARE
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
        own = bringup.start(Path(name) / "k", options, say=lambda _: None)
        try:
            room = nodes.fake_nodes(count, GPUS)[bringup.NODES :]
            own.create(*room)
            wait_for_nodes(own, *(node["metadata"]["name"] for node in room))
            yield own, Path(name)
        finally:
            own.end()
