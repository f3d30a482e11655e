"""Benchmark objects as their watch reports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from k8sbench.adapters.kubernetes import benchmark_objects
from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.watch_events import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchFailed,
    WatchWorks,
)
from k8sbench.model.errors import Unreachable
from tests.harness.cluster.limits import shorten
from tests.unit.kubernetes.servers import answer, reached, saying, serving


def changed(**spec: Any) -> ObjectChanged:
    metadata = {"name": "a", "uid": "u", "generation": 1}
    return ObjectChanged("Benchmark", {"metadata": metadata, "spec": {"benchmark": "seg", **spec}})


LISTED = ObjectsListed("Benchmark", frozenset({"a"}), 0.0)
MISSING = ApiFault(404, "NotFound", "the server could not find the requested resource")


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> BenchmarkObjects:
    monkeypatch.setattr(benchmark_objects, "Reflector", lambda *_: None)
    return BenchmarkObjects(cast("Api", None))


def test_objects_are_known_after_the_first_complete_list(objects: BenchmarkObjects) -> None:
    objects.take(changed())
    assert objects.current() is None
    objects.take(LISTED)
    (found,) = (objects.current() or {}).values()
    assert found is not None
    assert found.spec.benchmark == "seg"
    objects.take(ObjectDeleted("Benchmark", "a", "u", None))
    assert objects.current() == {}


def test_an_object_of_a_newer_schema_is_as_it_was_read_before(objects: BenchmarkObjects) -> None:
    objects.take(LISTED)
    objects.take(changed(newer=1))
    assert objects.current() == {"u": None}
    assert "Benchmark a cannot be read" in objects.problem
    objects.take(changed(parallel=2))
    before = objects.current()
    objects.take(changed(newer=1))
    assert objects.current() == before
    objects.take(changed())
    assert objects.problem == ""


def test_a_pool_that_cannot_be_read_is_no_reason_not_to_read_the_object(
    objects: BenchmarkObjects,
) -> None:
    objects.take(LISTED)
    objects.take(changed(pool={"name": "a", "cpu_per_gpu": "lots"}))
    assert (objects.current() or {})["u"] is not None
    assert objects.problem == ""


@pytest.mark.parametrize("spec", [{"keep": True}, {"newer": 1}])
def test_an_object_that_a_finalizer_holds_wants_nothing_any_more(
    objects: BenchmarkObjects, spec: dict[str, Any]
) -> None:
    objects.take(LISTED)
    objects.take(changed())
    found = changed(**spec).object
    held = {"deletionTimestamp": "2026-11-27T00:00:00Z", "finalizers": ["a.b/c"]}
    objects.take(ObjectChanged("Benchmark", {**found, "metadata": found["metadata"] | held}))
    left = [one for one in (objects.current() or {}).values() if one is not None]
    assert [(one.spec.cancel, one.spec.keep) for one in left] == [(True, False)] * len(left)
    assert (len(left), objects.problem) == (int("keep" in spec), "")


def test_a_watch_that_works_again_at_once_is_no_problem(objects: BenchmarkObjects) -> None:
    objects.take(LISTED)
    objects.take(WatchFailed("Benchmark", MISSING))
    assert objects.problem == ""


def test_a_cluster_without_the_type_is_a_problem_until_it_has_it(
    objects: BenchmarkObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, fault_note=0.0)
    objects.take(WatchFailed("Benchmark", MISSING))
    assert objects.problem == benchmark_objects.MISSING
    assert objects.current() is None
    objects.take(WatchWorks("Benchmark"))
    assert objects.problem == ""


def test_without_the_crd_a_creation_names_it_and_no_operator_of_jobs(tmp_path: Path) -> None:
    said = answer(404, b"404 page not found")
    with (
        serving(saying(said)) as address,
        reached(tmp_path, f"http://{address}") as api,
        pytest.raises(Unreachable) as raised,
    ):
        benchmark_objects.create(api, {"metadata": {"name": "a"}})
    assert benchmark_objects.MISSING in raised.value.message
    assert benchmark_objects.APPLY in raised.value.action
