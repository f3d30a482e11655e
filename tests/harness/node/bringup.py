"""Starts a cluster with real nodes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.harness.cluster import bringup, tools
from tests.harness.cluster.processes import NoCluster
from tests.harness.node import frameworks, image
from tests.harness.node.cluster import Node, NodeCluster

NODES = 2
_NOTE = "nodes.json"


def start(
    folder: Path, count: int = NODES, fake: int = 0, say: Callable[[str], None] = print
) -> NodeCluster:
    """Start a cluster of real nodes, and fake ones, in a new folder; it ends with this process."""
    programs = tools.built(tools.NODE, say=say)
    kind = partial(NodeCluster, programs=programs, count=count)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        # The image is made while the API server starts, which mostly waits.
        images = [
            pool.submit(image.pause, Path(scratch), programs.program("pause")),
            pool.submit(image.python, Path(scratch)),
        ]
        cluster = bringup.start(folder, bringup.Options(private=True, nodes=fake), say, kind)
        assert isinstance(cluster, NodeCluster)
        try:
            cluster.write_dns_file()
            cluster.start("coredns")
            list(pool.map(partial(_begin, cluster), cluster.nodes))
            archives = [one.result() for one in images]
            list(pool.map(partial(_fill, cluster, archives), cluster.nodes))
            cluster.wait_for(*cluster.components)
            cluster.pools.write_text(frameworks.pools())
            note = {"count": count, "programs": str(programs.folder)}
            folder.joinpath(_NOTE).write_text(json.dumps(note))
        except BaseException:
            cluster.end()
            raise
    return cluster


def find(folder: Path) -> NodeCluster:
    """Find a cluster with real nodes that another process started there; raises NoCluster."""
    try:
        note = json.loads(folder.joinpath(_NOTE).read_text())
    except FileNotFoundError as wrong:
        raise NoCluster(f"no cluster with real nodes is in {folder}") from wrong
    programs = tools.Programs(Path(note["programs"]))
    kind = partial(NodeCluster, programs=programs, count=note["count"])
    found = bringup.find(folder, kind)
    assert isinstance(found, NodeCluster)
    return found


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
