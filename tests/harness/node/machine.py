"""A program that keeps one node's machine. It ends with the subreaper.

It makes the node's cgroups, starts ``inside.py`` in namespaces of its own (network, mounts,
processes) and links their network with the one that it is in, the cluster's. When it is asked to
end, it ends the machine, with its first process the kernel kills all others in it, and removes the
cgroups, which are all that would be left; after a cluster that was killed the next one does.

``python -m tests.harness.node.machine FILE``; the file is a :class:`Machine` in JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.harness.cluster import subreaper
from tests.harness.node import cgroups

# Below the subreaper's grace, so that it is never killed before the cgroups are removed.
_END_SECONDS = subreaper.GRACE - 2


@dataclass(frozen=True)
class Machine:
    """Parameters of a node's machine."""

    name: str
    socket_folder: str
    """Folder of its subreaper's socket and logs."""
    data: str
    """Folder of all other data.

    Removed with the cluster's folder once no mount is left in it.
    """
    cgroup: str
    router: str
    """Cluster's address on the link, with the prefix length."""
    address: str
    """Node's address on the link, with the prefix length."""
    pods: str
    """The network of its pods."""

    @classmethod
    def read(cls, path: str) -> Self:
        """Read it from a file."""
        return cls(**json.loads(Path(path).read_text()))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps(dataclasses.asdict(self)))

    @property
    def ip(self) -> str:
        """The node's address."""
        return self.address.split("/", maxsplit=1)[0]

    @property
    def gateway(self) -> str:
        """The address of the cluster's end."""
        return self.router.split("/", maxsplit=1)[0]


def main() -> int:
    """Set up what the file describes; see the module's docstring."""
    path = sys.argv[1]
    machine = Machine.read(path)
    alarm, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGTERM, lambda *_: None)
    with cgroups.made(machine.cgroup), contextlib.ExitStack() as stack:
        inside = stack.enter_context(_started(path))
        assert inside.stdin is not None
        assert inside.stdout is not None
        stack.callback(_end, inside)
        if not inside.stdout.readline():
            return 1
        _link(machine, inside.pid)
        inside.stdin.write(b"\n")
        inside.stdin.flush()
        ended = os.pidfd_open(inside.pid)
        ready, _, _ = select.select([alarm, ended], [], [])
    return 0 if alarm in ready else 1


def _started(path: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*subreaper.ALONE, "tests.harness.node.inside", path], stdin=pipe, stdout=pipe
    )


def _link(machine: Machine, pid: int) -> None:
    """Link the machine's network, and route between nodes and pods."""
    link = machine.name
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("address", "add", machine.router, "dev", link)
    _ip("link", "set", link, "up")
    _ip("route", "add", machine.pods, "via", machine.ip, "onlink", "dev", link)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True)


def _end(inside: subprocess.Popen[bytes]) -> None:
    assert inside.stdin is not None
    with contextlib.suppress(OSError):
        inside.stdin.close()
    try:
        inside.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        inside.kill()
        inside.wait()


if __name__ == "__main__":
    sys.exit(main())
