"""An operator's HTTP server behind a Service of the API server."""

from __future__ import annotations

import re
import socket

from tests.harness.cluster import operator_process
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Running, Shell, until


def expose(
    own_cluster: OwnCluster, shell: Shell, running: Running, home: Namespace | None = None
) -> None:
    """Let the API server reach the operator, which runs beside the cluster.

    ``home`` is its namespace, if that is not the one of the shell, which waits until it reads it.
    """
    running.until("Others read it at port ")
    found = re.search(r"at port (\d+)", running.err)
    assert found is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((own_cluster.layout.place.address, 9))
        address = probe.getsockname()[0]
    operator_process.expose(home or shell.namespace, int(found[1]), address)

    read = ("list", "--store=cluster")
    until(lambda: shell.run(*read, code=None).code == 0, "the API server to know the way")
