"""Configuration of a node's programs.

Pure: paths, addresses and certificates are parameters. Two settings of containerd are for machines
with restricted root. Without CAP_SYS_RESOURCE no process may lower its out-of-memory score, and
without a controller for huge pages their limits cannot be set.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

from tests.harness.cluster.pki import Pki
from tests.harness.node.image import PAUSE
from tests.harness.node.machine import Machine

PLUGINS = Path("/usr/lib/cni")
"""Folder of Debian's CNI plugins."""
LOG_SIZE = "10Mi"
"""After which a kubelet rotates a container's log; its own default."""
_BRIDGE = "pods"


def socket(machine: Machine) -> Path:
    """Return where containerd listens."""
    return Path(machine.data, "containerd.sock")


def containerd(machine: Machine) -> str:
    """Make containerd's configuration, in TOML."""
    data = Path(machine.data)
    return f"""
version = 2
root = "{data / "containerd"}"
state = "/run/containerd/state"
[grpc]
  address = "{socket(machine)}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  stream_server_address = "127.0.0.1"
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{registries(machine)}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{data / "cni"}"
"""


def registries(machine: Machine) -> Path:
    """Return the folder in which containerd looks up how to reach a registry."""
    return Path(machine.data, "registries")


def plain_http(registry: str) -> str:
    """Make containerd's ``hosts.toml`` of a registry without TLS."""
    return f'server = "http://{registry}"\n[host."http://{registry}"]\n'


def pod_network(machine: Machine) -> str:
    """Make the plug-ins' configuration: a bridge whose pods are routed to, and not hidden."""
    gateway = next(ipaddress.ip_network(machine.pods).hosts())
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": machine.pods, "gateway": str(gateway)}]],
    }
    bridge = {
        "type": "bridge",
        "bridge": _BRIDGE,
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]})


def kubelet(machine: Machine, pki: Pki, dns: str, log_size: str) -> dict[str, Any]:
    """Make the kubelet's configuration."""
    data = Path(machine.data)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": machine.ip,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki.certificate(server_name(machine))),
        "tlsPrivateKeyFile": str(pki.key(server_name(machine))),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{machine.cgroup}",
        "containerRuntimeEndpoint": f"unix://{socket(machine)}",
        "clusterDomain": "cluster.local",
        "clusterDNS": [dns],
        "resolvConf": str(data / "resolv.conf"),
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "podLogsDir": str(data / "logs"),
        "volumePluginDir": str(data / "plugins"),
        "containerLogMaxSize": log_size,
        "containerLogMaxFiles": 3,
        "containerLogMonitorInterval": "3s",
        # The disk is the developer's, who may have filled it.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # Seconds rather than a minute until a node is known to be lost.
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "volumeStatsAggPeriod": "5s",
    }


def server_name(machine: Machine) -> str:
    """Name the certificate with which a kubelet serves."""
    return f"{machine.name}-server"
