"""The Roles that docs/gpu-metrics.md prints, granted to a namespace's user as the page says."""

from __future__ import annotations

import json
import re

import yaml

from tests.harness.cluster.namespace import Namespace
from tests.tiers import ROOT

PROMETHEUS, EXPORTERS = "k8sbench-prometheus", "k8sbench-dcgm-exporters"


def grant(name: str, namespace: Namespace, service: str | None = None) -> None:
    """Apply one of the Roles; ``service`` is that of the Prometheus in the proxy's path."""
    page = (ROOT / "docs/gpu-metrics.md").read_text()
    blocks = re.findall(r"^```text\n(apiVersion: .*?)^```", page, re.MULTILINE | re.DOTALL)
    (role,) = (role for role in map(yaml.safe_load, blocks) if role["metadata"]["name"] == name)
    role["metadata"]["namespace"] = namespace.name
    if service is not None:
        role["rules"][0]["resourceNames"] = [service]
    namespace.kubectl("apply", "--filename=-", given=json.dumps(role))
    user = f"--serviceaccount={namespace.name}:user"
    namespace.kubectl("create", "rolebinding", name, f"--role={name}", user)
