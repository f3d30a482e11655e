"""A network namespace for a cluster.

One pair of links joins it to the host, with the addresses of both ends in both, so that tests,
``kubectl`` and a browser reach the API server directly: a dead one refuses connections, and no
forwarder is between. The namespace has no way out. The pair is gone when the last process in the
namespace is.
"""

import contextlib
import ipaddress
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
# RFC 2544's addresses for benchmarks: no network in use has them. The third octet is the cluster's.
_NETWORK = ipaddress.IPv4Network("198.18.0.0/16")
LINK = "k8sbench-{}"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""Address of the service ``kubernetes``, by which pods reach the API server.

Nothing forwards it here, so the API server itself listens on it, at the service's port.
"""
PORTS = {
    "api": 443,
    "etcd": 2379,
    "etcd-peer": 2380,
    "controller-manager": 10257,
    "scheduler": 10259,
    "operator-health": 8081,
    "webhook": 9443,
    "kwok": 10247,
    "jobset-health": 8451,
    "jobset-webhook": 9451,
    "trainer-health": 8452,
    "trainer-webhook": 9452,
    "kueue-health": 8453,
    "kueue-webhook": 9453,
}
"""The servers, and their ports."""


class NoNetwork(Exception):
    """A private network cannot be connected; the message says why."""


@dataclass(frozen=True)
class Place:
    """Address and ports of one cluster."""

    address: str
    ports: dict[str, int]
    link: str
    """The host's end of the pair."""


def connect(pid: int) -> Place:
    """Link the network namespace of a process with ours; raises NoNetwork."""
    for number, block in enumerate(_NETWORK.subnets(new_prefix=24)):
        if any(block.overlaps(taken) for taken in _routes()):
            continue
        ours, theirs = (f"{block[index]}/30" for index in (1, 2))
        link = LINK.format(number)
        try:
            # The kernel refuses a name twice: so the name reserves the addresses, too.
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        except NoNetwork as wrong:
            if "exists" in str(wrong):
                continue
            raise
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
        try:
            _ip("address", "add", ours, "dev", link)
            _ip("link", "set", link, "up")
            _ip("address", "add", theirs, "dev", "eth0", within=inside)
            _ip("address", "add", f"{API_SERVICE}/32", "dev", "eth0", within=inside)
            _ip("link", "set", "eth0", "up", within=inside)
        except NoNetwork:
            disconnect(link)
            raise
        return Place(str(block[2]), PORTS, link)
    raise NoNetwork(f"all of {_NETWORK} is in use")


def disconnect(link: str) -> None:
    """Remove the pair now, before the kernel does; it may be removed already."""
    with contextlib.suppress(NoNetwork):
        _ip("link", "delete", link)


def bypass_proxies(environment: Mapping[str, str], address: str) -> dict[str, str]:
    """Return the variables that keep programs from asking a proxy for this address."""
    found = {}
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(name, "").split(",") if host]
        found[name] = ",".join([*hosts, *({address} - set(hosts))])
    return found


def _routes() -> Iterator[ipaddress.IPv4Network]:
    for route in json.loads(_ip("-4", "-json", "route", "show", "table", "all") or "[]"):
        with contextlib.suppress(ValueError):  # "default", which is no network
            yield ipaddress.IPv4Network(route["dst"])


def _ip(*words: str, within: tuple[str, ...] = ()) -> str:
    try:
        done = subprocess.run(
            [*within, "ip", *words],
            env=dict(os.environ, LC_ALL="C"),
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as wrong:
        raise NoNetwork(f"there is no program {wrong.filename}") from wrong
    if done.returncode != 0:
        raise NoNetwork(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
