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


def test_our_trainers_have_a_read_only_root_and_a_place_for_what_they_write() -> None:
    container = plans.container(plan())
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    paths = {mount["mountPath"]: mount.get("readOnly") for mount in container["volumeMounts"]}
    assert paths == {"/dev/shm": None, "/tmp": None, "/opt/k8sbench": True}
    assert plans.variables(plan())["HOME"] == "/tmp"
    assert plans.variables(plan())["TMPDIR"] == "/tmp"
    assert plans.variables(plan())["USER"]


def test_programs_that_are_not_ours_may_write_where_they_please() -> None:
    container = plans.container(plan(impl="upstream"))
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    assert violations(pod(plan(impl="upstream"))["spec"]) == []


def test_a_group_owns_what_checkpoints_are_written_to_and_the_pod_stays_restricted() -> None:
    keeping = pod(plan(checkpoints="pvc:kept"))["spec"]
    assert keeping["securityContext"]["fsGroup"] == 1000
    assert keeping["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert violations(keeping) == []
    assert "fsGroup" not in pod(plan(data="pvc:imagenet"))["spec"]["securityContext"]


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


def test_capabilities_come_with_the_root_user_for_whom_alone_they_work() -> None:
    locking = pod(plan(pool=pool(ipc_lock=True)))["spec"]
    assert locking["securityContext"]["runAsUser"] == 0
    capabilities = locking["containers"][0]["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert pod(plan())["spec"]["securityContext"]["runAsUser"] == 1000
