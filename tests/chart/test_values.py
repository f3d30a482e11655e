"""Effect of each value when it differs from its default."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.chart import examples
from tests.harness.helm import NAMESPACE, Helm, HelmFailed, find, merged, named, nested
from tests.unit.chart import values

Objects = Sequence[dict[str, Any]]
USER, OPERATOR = "dlperf-user", "dlperf-operator"


class Case(NamedTuple):
    """A value that cannot stand beside all others, and what is rendered with it."""

    value: Any
    seen: Callable[[Objects], Any]
    shown: Any


def at(kind: str, path: str, name: str | None = None) -> Callable[[Objects], Any]:
    """Return a reader of a field by dotted keys and indices."""

    def follow(objects: Objects) -> Any:
        found: Any = find(objects, kind, name)
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found

    return follow


def together(*seen: Callable[[Objects], Any]) -> Callable[[Objects], Any]:
    return lambda objects: tuple(one(objects) for one in seen)


def count(kind: str, name: str | None = None) -> Callable[[Objects], int]:
    return lambda objects: len(named(objects, kind, name))


def places(kind: str, name: str) -> Callable[[Objects], Any]:
    """The namespaces of the objects of a name."""
    return lambda objects: [each["metadata"]["namespace"] for each in named(objects, kind, name)]


ACCOUNT = at("Deployment", "spec.template.spec.serviceAccountName")
VOLUME = at("Deployment", "spec.template.spec.volumes.0")
CLAIMS = count("PersistentVolumeClaim")
CASES: Mapping[str, Case] = {
    "nameOverride": Case("bench", count("Service", "dlperf-bench-operator"), 1),
    "fullnameOverride": Case("bench", count("Service", "bench-operator"), 1),
    "namespaces": Case(
        ["team-b", "team-c"],
        together(
            at("Deployment", "spec.template.spec.containers.0.env.1.value"),
            places("Role", USER),
            places("RoleBinding", OPERATOR),
            places("Role", f"{OPERATOR}-token"),
        ),
        ("team-b,team-c", ["team-b", "team-c"], ["team-b", "team-c"], [NAMESPACE]),
    ),
    "rbac.create": Case(
        False, together(count("Role"), count("RoleBinding"), count("Deployment")), (0, 0, 1)
    ),
    "users.create": Case(
        False, together(count("ServiceAccount", USER), count("Role", USER)), (0, 0)
    ),
    "users.serviceAccount.create": Case(
        False, together(count("ServiceAccount", USER), count("RoleBinding", USER)), (0, 0)
    ),
    "users.serviceAccount.name": Case(
        "pipeline",
        together(at("RoleBinding", "subjects.0.name", USER), count("ServiceAccount", "pipeline")),
        ("pipeline", 1),
    ),
    "operator.persistence.enabled": Case(
        False, together(VOLUME, CLAIMS), ({"name": "data", "emptyDir": {}}, 0)
    ),
    "operator.persistence.existingClaim": Case(
        "mine",
        together(VOLUME, CLAIMS),
        ({"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, 0),
    ),
    "operator.serviceAccount.create": Case(
        False, together(ACCOUNT, count("Role", OPERATOR)), ("default", 0)
    ),
    "operator.serviceAccount.name": Case(
        "watcher",
        together(ACCOUNT, at("RoleBinding", "subjects.0.name", OPERATOR)),
        ("watcher", "watcher"),
    ),
    "operator.terminationGracePeriodSeconds": Case(
        0, at("Deployment", "spec.template.spec.terminationGracePeriodSeconds"), 0
    ),
}
BESIDE_ALL = sorted({value.path for value in values.described()} - set(CASES))
IMAGES = {"operator.image.repository", "nightly.image.repository"}
NEEDED = {"nodePools", "networkPolicy.apiServerCIDRs", "backup.claim", *IMAGES}
"""Without which others of `examples.ALL` are refused."""


@pytest.fixture(scope="module")
def everything(newest: Helm) -> list[dict[str, Any]]:
    """Objects rendered with all values; golden/all.yaml shows their places."""
    return newest.template(examples.ALL)


@pytest.mark.parametrize("path", CASES)
def test_a_value_shows_in_what_is_rendered(newest: Helm, path: str) -> None:
    case = CASES[path]
    assert case.value != values.at(values.defaults(), path)
    objects = newest.template(merged(examples.OPERATOR, nested(path, case.value)))
    assert case.seen(objects) == case.shown


@pytest.mark.parametrize("path", BESIDE_ALL)
def test_each_of_all_values_has_an_effect(
    newest: Helm, everything: list[dict[str, Any]], path: str
) -> None:
    default = values.at(values.defaults(), path)
    assert values.at(examples.ALL, path) != default
    if path in NEEDED:
        with pytest.raises(HelmFailed, match=path):
            newest.template(_with_default(path, default))
    else:
        assert newest.template(_with_default(path, default)) != everything


def _with_default(path: str, default: Any) -> dict[str, Any]:
    """All values but one, which is taken out with what it holds."""
    found = copy.deepcopy(examples.ALL)
    above, _, last = path.rpartition(".")
    (values.at(found, above) if above else found)[last] = default
    return found
