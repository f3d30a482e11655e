"""Reading a rendered job back: it is carried out, or refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from k8sbench.adapters.local import manifest
from k8sbench.model.errors import UsageError
from tests.unit.local import examples

FILES = {"little.py": "print('×')\n"}


def objects(**changes: Any) -> examples.Objects:
    return copy.deepcopy(examples.rendered(examples.plan(files=FILES, **changes), FILES))


def container(given: examples.Objects, kind: str = "Master") -> dict[str, Any]:
    pod = given[-1]["spec"]["pytorchReplicaSpecs"][kind]["template"]["spec"]
    found = pod["containers"][0]
    assert isinstance(found, dict)
    return found


def volumes(given: examples.Objects) -> list[dict[str, Any]]:
    pod = given[-1]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    found = pod["volumes"]
    assert isinstance(found, list)
    return found


def test_command_and_variables_are_the_manifests_own() -> None:
    plan = examples.plan("--data", "a b", "$HOME;`x`", files=FILES, env={"A": "'\"\\"})
    job = manifest.read(examples.rendered(plan, FILES), node="box")
    assert all(replica.command == plan.command for replica in job.replicas)
    assert dict(job.replicas[0].env)["A"] == "'\"\\"


def test_the_trainers_come_out_of_the_configmap_as_they_went_in() -> None:
    (files,) = manifest.read(objects(), node="box").files.values()
    assert files["k8sbench/trainers/little.py"] == FILES["little.py"].encode()
    assert "k8sbench/__init__.py" in files


def test_arguments_follow_the_command() -> None:
    given = objects()
    container(given)["args"] = ["--last"]
    assert manifest.read(given, node="box").replicas[0].command[-1] == "--last"


def test_a_field_of_the_pod_is_this_machines() -> None:
    given = objects()
    container(given)["env"] += [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    env = dict(manifest.read(given, node="box").replicas[0].env)
    assert env["POD"] == f"{examples.RUN_ID}-master-0"
    assert env["IP"] == "127.0.0.1"
    assert env["NODE"] == "box"


def change(given: examples.Objects, what: str) -> None:
    """Turn a good job into one that must be refused."""
    ours = container(given)
    match what:
        case "a secret":
            ours["env"].append({"name": "S", "valueFrom": {"secretKeyRef": {"name": "s"}}})
        case "a claim in the command":
            volumes(given).append({"name": "d", "persistentVolumeClaim": {"claimName": "c"}})
            ours["volumeMounts"].append({"name": "d", "mountPath": "/data"})
            ours["command"] += ["--data", "/data/train"]
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("a secret", "Variable S"),
        ("a claim in the command", "/data/train"),
    ],
)
def test_what_would_run_otherwise_than_on_a_cluster_is_refused(what: str, said: str) -> None:
    given = objects()
    change(given, what)
    with pytest.raises(UsageError, match=said):
        manifest.read(given, node="box")
