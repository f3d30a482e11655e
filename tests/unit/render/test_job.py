"""The job: kind, replicas, policies and its plan."""

import re
from typing import Any

import msgspec
import pytest

from k8sbench.model import names
from k8sbench.model.kinds import default_kind
from k8sbench.model.plan import RunPlan
from k8sbench.render.manifest import to_yaml
from k8sbench.render.trainer_sources import mounted_by
from tests.unit.render.plans import (
    POOLS,
    PROGRAMS,
    SOURCES,
    Objects,
    plan,
    pod,
    rendered,
    replicas,
)


def test_the_operator_never_deletes_pods(everything: list[tuple[RunPlan, Objects]]) -> None:
    for _, objects in everything:
        policy = objects[-1]["spec"]["runPolicy"]
        assert policy["cleanPodPolicy"] == "None"
        assert not {"backoffLimit", "activeDeadlineSeconds"} & set(policy)
        # Nobody collects it then.
        assert policy["ttlSecondsAfterFinished"] == 30 * 86400
        assert {each["restartPolicy"] for each in replicas(objects[-1]).values()} == {"Never"}


def test_the_job_carries_the_whole_plan(everything: list[tuple[RunPlan, Objects]]) -> None:
    for wanted, objects in everything:
        text = objects[-1]["metadata"]["annotations"][names.PLAN_ANNOTATION]
        assert msgspec.json.decode(text, type=RunPlan) == wanted


def ports(run: str, pool: str, **settings: Any) -> set[str]:
    """The ports that a run's manifest names, in its pods and in their variables."""
    text = to_yaml(rendered(plan("2x8", run_id=run, pool=POOLS[pool], **settings)))
    return set(re.findall(r"(?:containerPort: |MASTER_PORT\n *value: \"|-0:)(\d+)", text))


@pytest.mark.parametrize(
    ("framework", "kind"), [("pytorch", None), ("paddle", None), ("paddle", "TrainJob")]
)
def test_runs_on_the_nodes_network_have_a_port_each(framework: str, kind: str | None) -> None:
    settings = {"framework": framework, "kind": kind}
    usual = {str(default_kind(framework, kind).port)}
    assert ports("run-a", "plain", **settings) == ports("run-b", "plain", **settings) == usual
    drawn = [ports(run, "rdma", **settings) for run in ("run-a", "run-b", "run-a")]
    assert len({port for found in drawn for port in found} | usual) == 3
    assert drawn[0] == drawn[2]


def test_the_config_map_holds_a_package(everything: list[tuple[RunPlan, Objects]]) -> None:
    for wanted, objects in everything:
        if wanted.trainers_by != "configmap":
            continue
        config, found = objects
        assert config["immutable"] is True
        assert config["metadata"]["name"] == f"k8sbench-trainers-{SOURCES.digest}"
        assert mounted_by(found) == config["metadata"]["name"]
        for replica in replicas(found).values():
            volume = by_name(replica["template"]["spec"]["volumes"])["trainers"]["configMap"]
            assert mounted_by(replica["template"]) == volume["name"]
            assert volume["name"] == config["metadata"]["name"]
            shown = {item["path"]: config["data"][item["key"]] for item in volume["items"]}
            assert shown == SOURCES.files


@pytest.mark.parametrize("program", ["ours in an image", "upstream", "user"])
def test_an_image_that_has_its_program_gets_nothing_mounted(program: str) -> None:
    wanted = plan(**PROGRAMS[program])
    (found,) = rendered(wanted)
    assert found["kind"] == "PyTorchJob"
    assert set(by_name(pod(wanted)["spec"]["volumes"])) == {"shm", "tmp"}
    # What the image has was not looked at, so nothing is said of it.
    assert "k8sbench.io/trainers-digest" not in found["metadata"]["annotations"]


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in entries}
