"""The check of a Benchmark object; ``tests/cluster`` gives the same examples to the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.catalog import packaged
from k8sbench.model import object_schema
from k8sbench.model.benchmark_object import ObjectSpec
from k8sbench.model.errors import UsageError
from k8sbench.model.object_schema import ObjectSchema
from k8sbench.store.benchmark_objects import merge_patch
from tests.unit.model import object_examples

CRD = yaml.safe_load(packaged.read_crd())
ROOT = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC = ROOT["properties"]["spec"]
SCHEMA = ObjectSchema(CRD)


def _name(asked: Mapping[str, Any]) -> str:
    return str(asked["metadata"]["name"])


@pytest.mark.parametrize("asked", object_examples.accepted(), ids=_name)
def test_a_right_object_is_taken_without_nulls_and_status(asked: dict[str, Any]) -> None:
    taken = SCHEMA.check(asked)
    assert set(taken) == {"apiVersion", "kind", "metadata", "spec"}
    assert all(value is not None for value in taken["spec"].values())
    assert taken["metadata"].keys() <= object_schema.NAMES
    msgspec.convert(taken["spec"], ObjectSpec)


@pytest.mark.parametrize("asked", object_examples.refused(), ids=_name)
def test_a_wrong_object_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SCHEMA.check(asked)


@pytest.mark.parametrize("change", object_examples.changes(), ids=str)
def test_a_change_is_taken_or_refused(change: dict[str, Any]) -> None:
    head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark", "metadata": {"name": "a"}}
    before = SCHEMA.check({**head, "spec": change["before"]})
    after = {**head, "spec": merge_patch(change["before"], change["patch"])}
    try:
        SCHEMA.check(after, before["spec"])
    except UsageError:
        is_taken = False
    else:
        is_taken = True
    assert is_taken == change["is_taken"]


def test_every_rule_of_the_crd_stands_here() -> None:
    messages = {one["message"] for one in SPEC["x-kubernetes-validations"]}
    assert messages == {
        *object_schema.RULES,
        *object_schema.CHANGES,
        object_schema.CHANGE,
    }
    (of_name,) = ROOT["x-kubernetes-validations"]
    assert of_name["message"] == object_schema.NAME
    inner = [rule for one in _schemas(SPEC) if one is not SPEC for rule in _rules(one)]
    assert inner
    for rule in inner:
        assert rule == object_schema.IMMUTABLE or object_schema.KEYS.fullmatch(rule), rule


def test_every_keyword_of_the_crd_is_understood() -> None:
    used = {keyword for one in _schemas(SPEC) for keyword in one}
    assert used == object_schema.KEYWORDS


def _rules(schema: Mapping[str, Any]) -> list[str]:
    return [one["rule"] for one in schema.get("x-kubernetes-validations", ())]


def _schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all that it holds."""
    yield schema
    inner = list(schema.get("properties", {}).values())
    inner += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    for one in inner:
        yield from _schemas(one)
