"""What a template gets wrong stops at once, as our fault, and names the place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.render import manifests
from k8sbench.render.structure import check
from tests.unit.render.plans import SOURCES, Objects, plan, rendered, replicas, texts

Spoiler = Callable[[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]], Any]


def add(mapping: dict[str, Any], key: str, value: Any) -> None:
    mapping[key] = value


SPOILED: dict[str, tuple[Spoiler, str]] = {
    "unknown field of the container": (lambda j, p, c, _: add(c, "imagee", "x"), "imagee"),
    "unknown field of the pod": (lambda j, p, c, _: add(p, "restartPolicy", "x"), "restartPolicy"),
    "unknown field of the spec": (
        lambda j, p, c, _: add(j["spec"], "nproc", "1"),
        "spec has nproc",
    ),
    "no name": (lambda j, p, c, _: j["metadata"].pop("name"), "`name`"),
    "no container": (lambda j, p, c, _: p["containers"].clear(), "containers"),
    "wrong kind": (lambda j, p, c, _: add(j, "kind", "MPIJob"), "no kind of job"),
    "wrong version": (
        lambda j, p, c, _: add(j, "apiVersion", "kubeflow.org/v2"),
        "kubeflow.org/v2",
    ),
    "wrong container": (lambda j, p, c, _: add(c, "name", "paddle"), "called paddle"),
    "number for a string": (lambda j, p, c, _: add(c["env"][0], "value", 1), "Expected `str`"),
    "null": (lambda j, p, c, _: add(c, "workingDir", None), "workingDir"),
    "name with a digit first": (
        lambda j, p, c, _: add(j["metadata"], "name", "1a"),
        "metadata.name",
    ),
    "name with a newline": (lambda j, p, c, _: add(j["metadata"], "name", "a\n"), "metadata.name"),
    "long label": (
        lambda j, p, c, _: add(j["metadata"]["labels"], "a", "x" * 64),
        "metadata.labels",
    ),
    "label's key": (lambda j, p, c, _: add(j["metadata"]["labels"], "a b", "x"), "metadata.labels"),
    "quantity": (
        lambda j, p, c, _: add(c["resources"]["limits"], "memory", "8 Gi"),
        "resources.limits",
    ),
    "requests apart": (
        lambda j, p, c, _: add(c["resources"]["limits"], "cpu", "1"),
        "requests differ",
    ),
    "image": (lambda j, p, c, _: add(c, "image", "A B"), "image"),
    "variable twice": (lambda j, p, c, _: c["env"].append(c["env"][0]), "stands there 2 times"),
    "volume twice": (lambda j, p, c, _: p["volumes"].append(p["volumes"][0]), "volume shm"),
    "mount twice": (lambda j, p, c, _: c["volumeMounts"].append(c["volumeMounts"][0]), "/dev/shm"),
    "mount of nothing": (lambda j, p, c, _: p["volumes"].pop(), "no volume trainers"),
    "volume of two kinds": (lambda j, p, c, _: add(p["volumes"][-1], "emptyDir", {}), "2 sources"),
    "volume of no kind": (lambda j, p, c, _: p["volumes"][0].pop("emptyDir"), "0 sources"),
    "hostPath": (lambda j, p, c, _: add(p["volumes"][0], "hostPath", {"path": "/"}), "hostPath"),
    "other ConfigMap": (
        lambda j, p, c, _: add(p["volumes"][-1]["configMap"], "name", "other"),
        "does not show its ConfigMap",
    ),
    "source that is not shown": (
        lambda j, p, c, config: add(config["data"], "new.py", ""),
        "does not show its ConfigMap",
    ),
    "config key with a slash": (
        lambda j, p, c, config: add(config["data"], "a/b.py", ""),
        "data",
    ),
    "escalation": (
        lambda j, p, c, _: add(c["securityContext"], "allowPrivilegeEscalation", True),
        "may escalate",
    ),
    "root that is none": (
        lambda j, p, c, _: add(p["securityContext"], "runAsUser", 0),
        "runAsNonRoot contradicts",
    ),
    "no nprocPerNode": (lambda j, p, c, _: j["spec"].pop("nprocPerNode"), "nprocPerNode"),
    "nprocPerNode as a number": (lambda j, p, c, _: add(j["spec"], "nprocPerNode", 8), "is 8"),
    "two masters": (
        lambda j, p, c, _: add(replicas(j)["Master"], "replicas", 2),
        "has Master, Worker",
    ),
    "no master": (lambda j, p, c, _: replicas(j).pop("Master"), "has Worker"),
    "restarts": (
        lambda j, p, c, _: add(replicas(j)["Master"], "restartPolicy", "OnFailure"),
        "OnFailure",
    ),
    "pods cleaned": (
        lambda j, p, c, _: add(j["spec"]["runPolicy"], "cleanPodPolicy", "All"),
        "All",
    ),
    "backoffLimit": (
        lambda j, p, c, _: add(j["spec"]["runPolicy"], "backoffLimit", 0),
        "backoffLimit",
    ),
    "half a gang": (
        lambda j, p, c, _: add(j["spec"]["runPolicy"], "schedulingPolicy", {"minAvailable": 2}),
        "minAvailable is 2, with 4",
    ),
}


def spoiled(spoil: Spoiler) -> Objects:
    config, job = copy.deepcopy(rendered(plan("4x8")))
    pod = replicas(job)["Worker"]["template"]["spec"]
    spoil(job, pod, pod["containers"][0], config)
    return config, job


@pytest.mark.parametrize("what", SPOILED)
def test_a_manifest_that_is_not_sound_is_our_error(what: str) -> None:
    spoil, words = SPOILED[what]
    with pytest.raises(BenchError) as error:
        check(spoiled(spoil))
    assert words in error.value.message
    assert "is not sound" in error.value.message
    assert not isinstance(error.value, UsageError)
    assert error.value.exit_code == 1


def test_every_rendered_plan_is_sound(everything: list[tuple[RunPlan, Objects]]) -> None:
    for _, objects in everything:
        check(objects)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("runPolicy:", "runPolici:", "runPolici"),
        ("  template:", "    template:", "no YAML"),
        ("cleanPodPolicy: None", "cleanPodPolicy: null", "cleanPodPolicy"),
        ("cleanPodPolicy: None", "cleanPodPolicy: None\n    cleanPodPolicy: None", "twice"),
        ("restartPolicy: Never", "restartPolicy: Never\n      restartPolicy: Always", "twice"),
    ],
    ids=["misspelt", "indented", "null", "key twice", "another twice"],
)
def test_a_template_with_a_slip_in_it_stops_the_rendering(old: str, new: str, words: str) -> None:
    slipped = texts() | {"job.yaml.j2": texts()["job.yaml.j2"].replace(old, new)}
    assert slipped != texts()
    with pytest.raises(BenchError) as error:
        manifests(plan(), templates=slipped, trainers=SOURCES)
    assert words in error.value.message
    assert not isinstance(error.value, UsageError)


def test_a_template_that_gives_no_object_stops_the_rendering() -> None:
    with pytest.raises(BenchError, match="gave list"):
        manifests(plan(), templates=texts() | {"job.yaml.j2": "[]"}, trainers=SOURCES)
