"""Trainers travel once: one ConfigMap of a namespace and a version, for all runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.errors import UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.ports import Manifest
from k8sbench.render.trainer_sources import CONFIG_MAP, config_map
from tests.harness.cluster import fault_proxy, following
from tests.harness.cluster.following import TRAINERS, Port
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, Shell
from tests.unit.render import plans

NAME = TRAINERS.config_map_name
CONTENT = ("data", "immutable")


@pytest.fixture
def port(user: Path) -> Iterator[Port]:
    with following.opened(user) as opened:
        yield opened


def trainers(namespace: Namespace) -> list[str]:
    """The names of the ConfigMaps with trainers."""
    found = namespace.kubectl("get", "configmaps", "--output=name").split()
    prefix = f"configmap/{CONFIG_MAP}"
    return [one.removeprefix("configmap/") for one in found if one.startswith(prefix)]


# -- made once ----------------------------------------------------------------------------------


def test_two_runs_share_one_and_the_second_costs_its_job_and_one_look_at_the_metadata(
    user: Path, namespace: Namespace
) -> None:
    with fault_proxy.before(user) as (proxy, path), following.opened(path) as port:
        port.submit(following.plan("1x1"), None)
        before = len(proxy.requests())
        port.submit(following.plan("2x1"), None)
        first, second = proxy.requests()[:before], proxy.requests()[before:]
    # Nobody follows them: what was asked for is asked for by the creations alone.
    assert [request.method for request in first] == ["GET", "POST", "POST"]
    assert [request.method for request in second] == ["GET", "POST"]
    assert second[0].path.endswith(f"/configmaps/{NAME}")
    assert "/pytorchjobs?" in second[1].path
    assert trainers(namespace) == [NAME]
    found = namespace.get("configmap", NAME)
    assert {key: found[key] for key in CONTENT} == {
        key: config_map(TRAINERS)[key] for key in CONTENT
    }
    assert "ownerReferences" not in found["metadata"]


def test_its_content_is_read_once_and_again_if_another_one_has_its_name(
    user: Path, namespace: Namespace
) -> None:
    namespace.create(config_map(TRAINERS))
    with following.opened(user) as port:
        asked = port.cluster.api.sender.requests
        for reads in (2, 3):  # the metadata each time, and the content the first time
            port.submit(following.plan("1x1"), None)
            assert (asked["get configmaps"], asked["create configmaps"]) == (reads, 0)
        namespace.kubectl("delete", "configmap", NAME)
        namespace.create(config_map(TRAINERS))
        port.submit(following.plan("1x1"), None)
        assert asked["get configmaps"] == 5


def test_it_is_made_though_the_answer_is_lost(user: Path, namespace: Namespace) -> None:
    with (
        fault_proxy.before(user) as (proxy, path),
        following.opened(path) as port,
        proxy.lose_answer("/configmaps", method="POST", times=1) as lost,
    ):
        plan = port.submit(following.plan("1x1"))
        assert lost.hits == 1
        assert port.end_of(plan).phase is Phase.SUCCEEDED
    assert trainers(namespace) == [NAME]


# -- never another's ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"data": {"k8sbench.trainers.resnet50.py": "import os"}}, "its data are not"),
        ({"immutable": False}, "it is not immutable"),
    ],
)
def test_other_content_under_its_name_is_an_error_and_stays(
    port: Port, namespace: Namespace, changed: dict[str, Any], why: str
) -> None:
    namespace.create({**config_map(TRAINERS), **changed})
    before = namespace.get("configmap", NAME)
    plan = following.plan("1x1")
    with pytest.raises(UsageError, match=why) as raised:
        port.submit(plan)
    assert raised.value.exit_code == 2
    assert NAME in raised.value.message
    assert f"kubectl -n {namespace.name} delete configmap {NAME}" in (raised.value.action or "")
    assert namespace.get("configmap", NAME) == before
    assert namespace.get("pytorchjobs") == []


def test_a_dry_run_on_the_server_takes_what_is_there_and_names_what_is_another_s(
    own_shell: Shell,
) -> None:
    dry_run = ("submit", *CASE, "--dry-run=server")
    own_shell.run(*dry_run)
    assert trainers(own_shell.namespace) == []
    ours = config_map(TRAINERS)
    own_shell.namespace.create(ours)
    own_shell.run(*dry_run)
    own_shell.namespace.kubectl("delete", "configmap", ours["metadata"]["name"])
    own_shell.namespace.create({**ours, "data": {"a": "b"}})
    refused = own_shell.run(*dry_run, code=2)
    assert f"{ours['metadata']['name']} in namespace" in refused.err
    assert "is not k8sbench's: its data are not the sources" in refused.err


def test_what_render_prints_can_be_applied_beside_other_runs(own_shell: Shell) -> None:
    for run_id in ("first", "second"):
        printed = own_shell.run("render", "--with-trainers", *CASE, f"--run-id={run_id}").out
        own_shell.namespace.kubectl("apply", "--server-side", "--filename=-", given=printed)
    assert {"first", "second"} <= set(own_shell.on_cluster())
    assert len(trainers(own_shell.namespace)) == 1


# -- made again ---------------------------------------------------------------------------------


@pytest.fixture
def older() -> tuple[RunPlan, Manifest]:
    """A run of another version of the trainers, and its job as its folder has kept it."""
    plan = following.plan("1x1", trainers_digest=plans.SOURCES.digest)
    *_, job = plans.rendered(plan)
    return plan, job


def test_a_restart_uses_the_one_that_its_manifest_names(
    port: Port, namespace: Namespace, older: tuple[RunPlan, Manifest]
) -> None:
    plan, job = older
    namespace.create(config_map(plans.SOURCES))
    port.cluster.create(plan, [config_map(TRAINERS), job], following.FOLDER)
    created = namespace.get("pytorchjob", plan.run_id)["spec"]["pytorchReplicaSpecs"]["Master"]
    (mounted,) = (
        volume["configMap"]["name"]
        for volume in created["template"]["spec"]["volumes"]
        if "configMap" in volume
    )
    assert [mounted] == trainers(namespace) == [plans.SOURCES.config_map_name]


def test_one_that_is_gone_and_that_this_version_does_not_have_is_an_error(
    port: Port, namespace: Namespace, older: tuple[RunPlan, Manifest]
) -> None:
    plan, job = older
    gone = f"{plans.SOURCES.config_map_name} in namespace {namespace.name} is gone"
    with pytest.raises(UsageError, match=gone) as raised:
        port.cluster.create(plan, [job], following.FOLDER)
    assert "Submit the run again" in (raised.value.action or "")
    assert namespace.get("pytorchjobs") == []
