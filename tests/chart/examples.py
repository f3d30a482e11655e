"""Values of whole installs, which several tests take."""

from __future__ import annotations

from typing import Any

IMAGE = "registry.example/team/k8sbench-collector:0.2.0"
PARTS = {"registry": "registry.example/team", "repository": "k8sbench-collector"}
COLLECTOR: dict[str, Any] = {"collector": {"image": PARTS}}
"""The least with which the collector is installed."""
POOL: dict[str, Any] = {
    "name": "h100",
    "gpus_per_node": 8,
    "gpu_model": "NVIDIA H100 80GB HBM3",
    "selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "cpu_per_gpu": "12",
    "host_network": False,
}
ALL: dict[str, Any] = {
    "listNodes": True,
    "users": {
        "subjects": [{"kind": "Group", "name": "ml", "apiGroup": "rbac.authorization.k8s.io"}]
    },
    "nodePools": [POOL, {"name": "cpu", "gpus_per_node": 0, "gpu_model": None}],
    "defaultNodePool": "h100",
    "prometheus": {"url": "http://prometheus-k8s.monitoring.svc:9090"},
    "baseline": {"name": "release-1.0", "percent": 2.5},
    "collector": {
        "image": PARTS,
        "imagePullSecrets": ["registry"],
        "keepLogsFor": "90d",
        "postgresql": {"secretName": "k8sbench-store"},
        "priorityClassName": "infrastructure",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "networkPolicy": {"enabled": True, "apiServerCIDRs": ["10.88.0.1/32", "fd00::1/128"]},
    "nightly": {
        "enabled": True,
        "timeZone": "Europe/Berlin",
        "submits": [["resnet50", "--all-cases"], ["tsm", "--replicas", "2", "--amp"]],
    },
}
"""Everything that can be turned on."""
