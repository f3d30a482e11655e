"""The Roles that docs/gpu-metrics.md prints, granted to a namespace's user as the page says."""

import re
from typing import Any

import yaml

from tests.harness.cluster.namespace import Namespace
from tests.tiers import ROOT

PROMETHEUS = "k8sbench-prometheus"


def grant(name: str, namespace: Namespace, service: str | None = None) -> None:
    """Apply a Role; ``service`` names Prometheus in the proxy's path."""
    role, binding = printed()[name]
    for document in (role, binding):
        document["metadata"]["namespace"] = namespace.name
    if service is not None:
        role["rules"][0]["resourceNames"] = [service]
    user = f"system:serviceaccount:{namespace.name}:user"
    (subject,) = binding["subjects"]
    subject["name"] = user
    namespace.kubectl("apply", "--filename=-", given=yaml.safe_dump_all([role, binding]))


def printed() -> dict[str, list[Any]]:
    """Return the page's manifests by the name of their first document."""
    page = (ROOT / "docs/gpu-metrics.md").read_text()
    blocks = re.findall(r"^```text\n(apiVersion: .*?)^```", page, re.MULTILINE | re.DOTALL)
    manifests = [list(yaml.safe_load_all(block)) for block in blocks]
    return {manifest[0]["metadata"]["name"]: manifest for manifest in manifests}
