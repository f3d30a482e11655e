"""Gangs, as far as API server and operator decide: neither scheduler of gangs runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.cli.main import main
from k8sbench.model import identity
from k8sbench.model.plan import RunPlan
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.pod_groups import SCHEDULER, operator_with_gangs
from tests.harness.cluster.readings import Follower

JOB = "resnet50-example"
SELECTOR = f"--selector={identity.LABEL_DOMAIN}/run={JOB}"


def submit(namespace: Namespace, capsys: pytest.CaptureFixture[str], *words: str) -> RunPlan:
    """Create what ``render`` prints for a run of two replicas; return its plan."""
    assert main(["render", "resnet50", "--framework=pytorch", "--replicas=2", *words]) == 0
    text = capsys.readouterr().out
    namespace.kubectl("create", "--validate=strict", "--filename=-", given=text)
    *_, job = yaml.safe_load_all(text)
    assert job["metadata"]["name"] == JOB
    plan = job["metadata"]["annotations"][identity.PLAN_ANNOTATION]
    return msgspec.json.decode(plan, type=RunPlan)


def held(namespace: Namespace) -> list[dict[str, Any]]:
    pods = namespace.get("pods", SELECTOR)
    assert isinstance(pods, list)
    return pods


def test_a_gang_of_the_coscheduling_plugin_is_the_whole_job(
    own_cluster: OwnCluster, namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with operator_with_gangs(own_cluster) as groups:
        follower = Follower(namespace, submit(namespace, capsys, "--gang"))
        group = namespace.until(lambda _: True, groups)
        assert (group["metadata"]["name"], group["spec"]["minMember"]) == (JOB, 2)
        # An operator whose cache lacks the gang that it has just made leaves the job until it
        # changes.
        namespace.kubectl("annotate", "pytorchjob", JOB, "changed=true")
        follower.until(lambda reading: len(held(namespace)) == 2)
        for pod in held(namespace):
            assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == JOB
            assert pod["spec"]["schedulerName"] == SCHEDULER
        assert follower.read().cause_id != "gang-ignored"
