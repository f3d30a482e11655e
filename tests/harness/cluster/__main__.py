"""``python -m tests.harness.cluster``: a test cluster to look at and to use, until Ctrl-C."""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.harness.cluster import bringup, needs, network
from tests.harness.cluster.own import DidNotStart, OwnCluster
from tests.harness.cluster.tools import BuildFailed
from tests.harness.node import bringup as node_bringup
from tests.harness.node import image
from tests.harness.node import needs as node_needs
from tests.harness.node.cluster import NodeCluster


def main() -> int:
    """Start a cluster, print its access, and stop it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.cluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=bringup.NODES, help="fake nodes of 8 GPUs")
    parser.add_argument("--real", type=int, default=0, help="real nodes, with DNS")
    words = parser.parse_args()
    if (reason := node_needs.missing() if words.real else needs.missing()) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    # A short name, for a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="k8sb-", dir="/tmp") as name:
        folder = Path(name, "k")
        try:
            if words.real:
                cluster: OwnCluster = node_bringup.start(folder, words.real, words.nodes)
            else:
                cluster = bringup.start(folder, bringup.Options(nodes=words.nodes))
        except (BuildFailed, DidNotStart) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        with contextlib.suppress(KeyboardInterrupt):
            _show_way(cluster)
            signal.pause()
        cluster.end()
    return 0


def _show_way(cluster: OwnCluster) -> None:
    place = cluster.layout.place
    print(f"{cluster.layout.server}; Ctrl-C ends the cluster")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    if isinstance(cluster, NodeCluster):
        names = ", ".join(node.name for node in cluster.nodes)
        print(f"  real nodes {names}; k8sbench --pools {cluster.pools} --image {image.PYTHON}")
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        hosts = network.bypass_proxies(os.environ, place.address)
        print(f"  export NO_PROXY={hosts['NO_PROXY']} no_proxy={hosts['no_proxy']}")


if __name__ == "__main__":
    sys.exit(main())
