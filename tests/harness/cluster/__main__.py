"""``python -m tests.harness.cluster up|down|status``: a test cluster to look at and to use."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.harness.cluster import bringup, needs, network
from tests.harness.cluster.own import DidNotStart, OwnCluster
from tests.harness.cluster.processes import NoCluster, ProcessTrouble
from tests.harness.cluster.tools import BuildFailed
from tests.harness.node import bringup as node_bringup
from tests.harness.node import image
from tests.harness.node import needs as node_needs
from tests.harness.node.cluster import NodeCluster


def main() -> int:
    """Parse, do, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.cluster", description=__doc__)
    parser.add_argument("--name", default="default", help="which cluster, of several")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a cluster that stays")
    up.add_argument("--nodes", type=int, default=bringup.NODES, help="fake nodes of 8 GPUs")
    up.add_argument("--real", type=int, default=0, help="real nodes, with DNS; needs containerd")
    up.add_argument("--loopback", action="store_true", help="no network namespace of its own")
    commands.add_parser("down", help="end it; nothing is left")
    commands.add_parser("status", help="show it; exit code 1 if it does not run or lacks something")
    words = parser.parse_args()
    # Below /tmp, for a socket's path is short; of one user, for it holds keys.
    folder = Path(tempfile.gettempdir(), f"k8sbench-cluster-{os.getuid()}-{words.name}")
    try:
        if words.command == "up":
            private = False if words.loopback else None
            return _up(folder, words.name, bringup.Options(private, words.nodes), words.real)
        return _down(folder) if words.command == "down" else _status(folder)
    except (BuildFailed, DidNotStart, NoCluster, ProcessTrouble) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing is left", file=sys.stderr)
        return 130


def _up(folder: Path, name: str, options: bringup.Options, real: int) -> int:
    if (reason := node_needs.missing() if real else needs.missing()) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    with _alone(folder):
        start = time.monotonic()
        with contextlib.suppress(NoCluster):
            cluster = _find(folder)
            print(f"cluster {name} is up already")
            _show_way(cluster)
            return 0
        if folder.exists():
            # Of a cluster whose subreaper was killed: its processes died with it.
            shutil.rmtree(folder)
        if real:
            cluster = node_bringup.start(folder, real, options.nodes)
        else:
            cluster = bringup.start(folder, options)
        cluster.processes.stay()
        seconds = time.monotonic() - start
        print(f"cluster {name} is up after {seconds:.1f} s: {options.nodes} nodes with 8 GPUs each")
        _show_way(cluster)
    return 0


def _find(folder: Path) -> OwnCluster:
    try:
        return node_bringup.find(folder)
    except NoCluster:
        return bringup.find(folder)


def _show_way(cluster: OwnCluster) -> None:
    place = cluster.layout.place
    print(f"  {cluster.layout.server}, {_where(cluster)}")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    if isinstance(cluster, NodeCluster):
        names = ", ".join(node.name for node in cluster.nodes)
        print(f"  real nodes {names}; k8sbench --pools {cluster.pools} --image {image.PYTHON}")
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        hosts = network.bypass_proxies(os.environ, place.address)
        print(f"  export NO_PROXY={hosts['NO_PROXY']} no_proxy={hosts['no_proxy']}")


def _where(cluster: OwnCluster) -> str:
    if cluster.layout.place.link:
        return f"in a network namespace of its own, over {cluster.layout.place.link}"
    return f"on the loopback address (no network of its own: {cluster.why_not_private})"


def _down(folder: Path) -> int:
    with _alone(folder):
        try:
            cluster = _find(folder)
        except NoCluster:
            print("no cluster is up")
            shutil.rmtree(folder, ignore_errors=True)
            return 0
        start = time.monotonic()
        cluster.end()
    print(f"the cluster is down after {time.monotonic() - start:.1f} s")
    return 0


def _status(folder: Path) -> int:
    cluster = _find(folder)
    print(f"{cluster.layout.server}, {_where(cluster)}")
    print(f"KUBECONFIG={cluster.kubeconfig}")
    states = {state.name: state for state in cluster.processes.list()}
    all_ready = True
    for name in cluster.components:
        state = states.get(name)
        ready = state is not None and state.is_running and cluster.is_ready(name)
        all_ready = all_ready and ready
        if state is None or not state.is_running:
            what = "not started" if state is None else f"ended with status {state.status}"
            print(f"{name:<24} {what}")
            continue
        memory = psutil.Process(state.pid).memory_info().rss / 2**20
        age = time.time() - state.started
        word = "ready" if ready else "NOT READY"
        print(f"{name:<24} {word:<10} pid {state.pid:<8} {age:6.0f} s {memory:6.0f} MiB")
    return 0 if all_ready else 1


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let only one process at a time start or end this cluster."""
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            # An abstract name: no file, and the kernel frees it with the process.
            lock.bind(f"\0{folder}.up")
        except OSError as wrong:
            raise ProcessTrouble(
                f"another process starts or ends the cluster in {folder}"
            ) from wrong
        yield


if __name__ == "__main__":
    sys.exit(main())
