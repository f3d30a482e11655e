"""Pods pass the restricted Pod Security Standard; what leaves it is a pool's opt-in, and named."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import Rdma
from tests.unit.render import plans
from tests.unit.render.plans import Objects, plan, pod, pool
from tests.unit.render.pod_security import violations

REASONS = "k8sbench.io/pod-security-reasons"
LEVEL = "k8sbench.io/pod-security"


def test_every_pod_of_every_plan_is_restricted_unless_its_pool_opted_out(
    everything: list[tuple[RunPlan, Objects]],
) -> None:
    for each, objects in everything:
        opted_out = each.pool.host_network or bool(each.pool.rdma and each.pool.rdma.capabilities)
        for replica in plans.replicas(objects[-1]).values():
            template = replica["template"]
            assert bool(violations(template["spec"])) == opted_out, each.pool.name
            level = template["metadata"]["annotations"][LEVEL]
            assert level == ("privileged" if opted_out else "restricted")


def test_root_without_capabilities_shares_the_group() -> None:
    shared = plan(checkpoints="pvc:kept", pool=pool(ipc_lock=True))
    context = pod(shared)["spec"]["securityContext"]
    assert (context["runAsUser"], context["fsGroup"]) == (0, 1000)


@pytest.mark.parametrize(
    ("changes", "level", "broken", "reasons"),
    [
        ({}, "restricted", [], None),
        ({"rdma": Rdma(resource="rdma/hca", capabilities=())}, "restricted", [], None),
        (
            {"ipc_lock": True},
            "privileged",
            ["runAsUser", "capabilities.add", "runAsNonRoot"],
            "capability IPC_LOCK, root user",
        ),
        (
            {"rdma": Rdma(resource="rdma/hca", capabilities=("SYS_RESOURCE", "IPC_LOCK"))},
            "privileged",
            ["runAsUser", "capabilities.add", "runAsNonRoot"],
            "capability IPC_LOCK, capability SYS_RESOURCE, root user",
        ),
        (
            {"rdma": Rdma(resource="rdma/hca", capabilities=("CHOWN",))},
            "baseline",
            ["runAsUser", "capabilities.add", "runAsNonRoot"],
            "capability CHOWN, root user",
        ),
        ({"host_network": True}, "privileged", ["hostNetwork"], "host network"),
    ],
    ids=["plain", "rdma alone", "ipc_lock", "rdma with two", "baseline", "host network"],
)
def test_an_opt_in_is_named_with_the_level_that_it_costs(
    changes: dict[str, Any],
    level: str,
    broken: list[str],
    reasons: str | None,
) -> None:
    found = pod(plan(pool=pool(**changes)))
    assert violations(found["spec"]) == broken
    assert found["metadata"]["annotations"][LEVEL] == level
    assert found["metadata"]["annotations"].get(REASONS) == reasons
