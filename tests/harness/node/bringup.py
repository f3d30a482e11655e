"""Starts a cluster with real nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.harness.cluster import bringup, tools
from tests.harness.node import frameworks, image
from tests.harness.node.cluster import Node, NodeCluster

NODES = 2


def start(
    folder: Path,
    count: int = NODES,
    fake: int = 0,
    say: Callable[[str], None] = print,
    **options: bool,
) -> NodeCluster:
    """Start a cluster of real and fake nodes in a new folder.

    It ends with this process. ``options`` are further fields of
    :class:`~tests.harness.cluster.bringup.Options`.
    """
    programs = tools.built(tools.NODE, say=say)
    kind = partial(NodeCluster, programs=programs, count=count)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        # The image is made while the API server starts, which mostly waits.
        images = [
            pool.submit(image.pause, Path(scratch), programs.program("pause")),
            pool.submit(image.python, Path(scratch)),
        ]
        wanted = bringup.Options(nodes=fake, **options)
        cluster = bringup.start(folder, wanted, say, kind)
        assert isinstance(cluster, NodeCluster)
        try:
            cluster.write_dns_file()
            cluster.start("coredns")
            list(pool.map(partial(_begin, cluster), cluster.nodes))
            archives = [one.result() for one in images]
            list(pool.map(partial(_fill, cluster, archives), cluster.nodes))
            cluster.wait_for(*cluster.components)
            cluster.pools.write_text(frameworks.pools())
        except BaseException:
            cluster.end()
            raise
    return cluster


def _begin(cluster: NodeCluster, node: Node) -> None:
    node.write_files()
    cluster.start(node.name)
    cluster.until(node.is_up, lambda: node.name)
    node.start("containerd")


def _fill(cluster: NodeCluster, archives: list[Path], node: Node) -> None:
    """Give a node its images, before anything runs there, and its kubelet."""
    cluster.until(lambda: node.ctr("version") is not None, lambda: node.name)
    node.load(*archives)
    node.start("kubelet")
