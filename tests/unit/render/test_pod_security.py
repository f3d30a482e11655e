"""Exceptions from the restricted Pod Security Standard are a pool's named opt-in.

In ``tests/cluster`` the API server itself enforces the standard; goldens show the contexts.
"""

import re
from typing import Any

import pytest

from k8sbench.model.pool import Rdma
from tests.unit.render.plans import plan, pod, pool

REASONS = "k8sbench.io/pod-security-reasons"
LEVEL = "k8sbench.io/pod-security"


def rdma(*capabilities: str) -> dict[str, Any]:
    return {"rdma": Rdma(resource="rdma/hca", capabilities=capabilities)}


@pytest.mark.parametrize(
    ("changes", "level", "reasons"),
    [
        ({}, "restricted", None),
        (rdma(), "restricted", None),
        ({"ipc_lock": True}, "privileged", "capability IPC_LOCK, root user"),
        (
            rdma("SYS_RESOURCE", "IPC_LOCK"),
            "privileged",
            "capability IPC_LOCK, capability SYS_RESOURCE, root user",
        ),
        (rdma("CHOWN"), "baseline", "capability CHOWN, root user"),
        ({"host_network": True}, "privileged", "host network"),
    ],
    ids=["plain", "rdma alone", "ipc_lock", "rdma with two", "baseline", "host network"],
)
def test_opt_ins_are_named(changes: dict[str, Any], level: str, reasons: str | None) -> None:
    found = pod(plan(checkpoints="pvc:kept", pool=pool(**changes)))
    spec, (container,) = found["spec"], found["spec"]["containers"]
    is_root = "root user" in (reasons or "")
    # Root without capabilities shares the files' group.
    assert (spec["securityContext"]["runAsUser"] == 0) is is_root
    assert spec["securityContext"]["fsGroup"] == 1000
    assert spec.get("hostNetwork", False) is ("host_network" in changes)
    added = container["securityContext"]["capabilities"].get("add", [])
    assert [f"capability {name}" for name in added] == re.findall(r"capability \w+", reasons or "")
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert found["metadata"]["annotations"][LEVEL] == level
    assert found["metadata"]["annotations"].get(REASONS) == reasons
