"""A rendered manifest whose parts do not fit together is an error of k8sbench."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.render import manifests
from k8sbench.render.manifest import check
from k8sbench.render.templates import environment
from tests.unit.render.plans import SOURCES, Objects, plan, rendered, replicas, texts

Spoiler = Callable[[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]], Any]


def add(mapping: dict[str, Any], key: str, value: Any) -> None:
    mapping[key] = value


SPOILED: dict[str, tuple[Spoiler, str]] = {
    "wrong kind": (lambda j, p, c, _: add(j, "kind", "MPIJob"), "no kind of job"),
    "wrong version": (
        lambda j, p, c, _: add(j, "apiVersion", "kubeflow.org/v2"),
        "kubeflow.org/v2",
    ),
    "wrong container": (lambda j, p, c, _: add(c, "name", "paddle"), "called paddle"),
    "mount of nothing": (lambda j, p, c, _: p["volumes"].pop(), "no volume trainers"),
    "other ConfigMap": (
        lambda j, p, c, _: add(p["volumes"][-1]["configMap"], "name", "other"),
        "does not show its ConfigMap",
    ),
    "source that is not shown": (
        lambda j, p, c, config: add(config["data"], "new.py", ""),
        "does not show its ConfigMap",
    ),
    "two masters": (
        lambda j, p, c, _: add(replicas(j)["Master"], "replicas", 2),
        "has Master, Worker",
    ),
    "no master": (lambda j, p, c, _: replicas(j).pop("Master"), "has Worker"),
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


def test_a_template_that_is_no_yaml_stops_the_rendering() -> None:
    slipped = {"job.yaml.j2": texts()["job.yaml.j2"].replace("  template:", "    template:")}
    with pytest.raises(BenchError, match="no YAML") as error:
        manifests(plan(), templates=environment(texts() | slipped), trainers=SOURCES)
    assert not isinstance(error.value, UsageError)


def test_a_template_that_gives_no_object_stops_the_rendering() -> None:
    with pytest.raises(BenchError, match="gave list"):
        manifests(plan(), templates=environment(texts() | {"job.yaml.j2": "[]"}), trainers=SOURCES)
