"""Benchmark objects as values: what they ask for, and the names of their runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.model.benchmark_object import MUTABLE, Benchmark, ObjectSpec, asks_for_same, object_of
from k8sbench.model.errors import UsageError
from k8sbench.model.request import SubmitRequest
from tests.unit.model.benchmark_objects import an_object


def test_its_request_has_all_of_its_options() -> None:
    asked = an_object(
        set="s", batchSizes=[64, 128], timeout="1h30m", target="75.9", nodePool="a", maxRestarts=2
    ).request()
    assert asked.batch_sizes == (64, 128)
    assert (asked.set_name, asked.timeout_s, asked.target) == ("s", 5400.0, 75.9)
    assert (asked.node_pool, asked.max_restarts) == ("a", 2)


def test_every_field_is_a_field_of_a_submit_or_known_to_be_none() -> None:
    own = {"set", "file", "timeout", "wait_timeout", "pool", "nodes", *MUTABLE} - {
        "parallel",
        "keep",
    }
    fields = {field.name for field in msgspec.structs.fields(ObjectSpec)}
    assert fields - {field.name for field in msgspec.structs.fields(SubmitRequest)} == own


NOT_IN_OBJECTS = {
    "access": "The object's namespace is the place.",
    "command": "It is a word of messages.",
    "amp": "precision: amp says the same.",
    "backend": "Objects are on a cluster.",
    "detach": "The operator follows the runs.",
    "dry_run": "kubectl apply --dry-run=server.",
    "object_file": "It holds the object.",
    "no_operator": "An object is for the operator.",
    "pools_file": "Its pool is pool.",
    "prometheus": "It is an address that the operator would call.",
    "resume": "It makes retry grow.",
    "run_id": "The object's name is the runs'.",
    "set_name": "Its name is set.",
    "store": "It is a path of a machine.",
    "timeout_s": "Its name is timeout.",
    "wait_timeout_s": "Its name is waitTimeout.",
    "yes": "It is for programs on the user's machine.",
}
"""Option of ``submit`` → why an object does not have it."""


def test_every_option_of_submit_is_a_field_or_has_a_reason_not_to_be() -> None:
    options = {field.name for field in msgspec.structs.fields(SubmitRequest)}
    fields = {field.name for field in msgspec.structs.fields(ObjectSpec)}
    assert options - fields == NOT_IN_OBJECTS.keys()


@pytest.mark.parametrize("timeout", ["0s", "0m0s"])
def test_no_time_at_all_is_an_error(timeout: str) -> None:
    with pytest.raises(UsageError, match="timeout"):
        an_object(timeout=timeout).request()


@pytest.mark.parametrize(
    ("state", "ttl", "expires"),
    [
        ("True", 60, 1795737660.0),
        ("True", 0, 1795737600.0),
        ("False", 60, None),
        ("True", None, None),
    ],
)
def test_an_object_expires_after_its_end_if_at_all(
    state: str, ttl: int | None, expires: float | None
) -> None:
    complete = {
        "type": "Complete",
        "status": state,
        "lastTransitionTime": "2026-11-27T00:00:00Z",
    }
    found = an_object({"conditions": [complete]}, ttlSecondsAfterFinished=ttl)
    assert found.expires_at == expires


def test_an_unknown_field_is_not_overlooked() -> None:
    with pytest.raises(msgspec.ValidationError, match="retries"):
        an_object(retries=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"amp": True, "replicas": 4, "parallel": 2, "keep": True, "wait": True},
        {"all_cases": True, "repeats": 3, "framework": "all", "queue": "gpu"},
        {
            "batch_sizes": (64, 128),
            "timeout_s": 5400.5,
            "target": 75.9,
            "speed_options": ("compile",),
        },
        {"mode": "train", "epochs": 3, "target": "none", "checkpoints": "pvc:kept/a"},
        {"precision": "bf16", "data": "pvc:data", "node_pool": "a", "job_kind": "trainjob"},
    ],
)
def test_the_object_of_a_submit_asks_for_the_same(options: dict[str, Any]) -> None:
    request = SubmitRequest(benchmark="resnet50", set_name="night", **options)
    made = object_of(request, "a")
    asked = an_object(**made["spec"]).request()
    lost = {"amp", "precision", "backend", "parallel", "keep", "wait"}
    for field in msgspec.structs.fields(SubmitRequest):
        if field.name not in lost:
            assert getattr(asked, field.name) == getattr(request, field.name), field.name
    assert asked.effective_precision == request.effective_precision
    wanted = msgspec.convert(made["spec"], ObjectSpec)
    assert (wanted.parallel, wanted.keep, wanted.wait) == (
        request.parallel,
        request.keep,
        request.wait,
    )


@pytest.mark.parametrize("option", ["data", "weights", "checkpoints"])
def test_a_folder_of_this_machine_is_in_no_object(option: str) -> None:
    given: dict[str, Any] = {option: "/data"}
    with pytest.raises(UsageError, match=f"--{option} /data"):
        object_of(SubmitRequest(benchmark="resnet50", **given), "a")


def test_an_object_is_the_same_if_its_fixed_fields_are() -> None:
    def of(**options: Any) -> Benchmark:
        made = object_of(SubmitRequest(benchmark="resnet50", **options), "night")
        return an_object(**made["spec"])

    asked = object_of(SubmitRequest(benchmark="resnet50", set_name="night"), "night")
    assert asks_for_same(asked, of())
    assert asks_for_same(asked, of(parallel=3, keep=True))
    assert not asks_for_same(asked, of(replicas=2))
    assert not asks_for_same(asked, of(set_name="day"))
