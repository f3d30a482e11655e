"""Manifests against what the operator and its client library say of them.

Two witnesses: kubeflow-training's typed models (nothing may be lost on the way through them) and
the operator's own CRDs, read as strictly as the API server reads them with strict field validation.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from k8sbench.model.plan import RunPlan
from tests.unit.render import plans
from tests.unit.render.conftest import FETCHING_SECONDS
from tests.unit.render.plans import Objects

PLENTY = 200
"""Objects that have been checked: each plan differs from the one before in one choice."""
Schemas = dict[str, dict[str, Any]]
pytestmark = pytest.mark.timeout(FETCHING_SECONDS)


def through_models(manifest: dict[str, Any]) -> dict[str, Any]:
    """Read a manifest into kubeflow-training's models, as its own client does, and write it."""
    from kubeflow.training import models
    from kubeflow.training.api_client import ApiClient

    model = {
        "PyTorchJob": models.KubeflowOrgV1PyTorchJob,
        "PaddleJob": models.KubeflowOrgV1PaddleJob,
        "ConfigMap": models.V1ConfigMap,
    }[manifest["kind"]]

    class Response:
        data = json.dumps(manifest)

    api = ApiClient()
    written = api.sanitize_for_serialization(api.deserialize(Response, model))
    assert isinstance(written, dict)
    return written


def test_no_field_is_lost_on_the_way_through_the_typed_models(
    everything: list[tuple[RunPlan, Objects]],
) -> None:
    # A stride that divides no axis of the plans: every two choices still meet.
    for _, objects in everything[::5]:
        for manifest in objects:
            assert through_models(manifest) == manifest


@pytest.mark.tier("go")
def test_every_job_fits_the_operator_s_own_schema(
    everything: list[tuple[RunPlan, Objects]], crd_schemas: Schemas
) -> None:
    checks = {kind: strict(schema) for kind, schema in crd_schemas.items()}
    for _, objects in everything:
        checks[objects[-1]["kind"]].validate(objects[-1])


@pytest.mark.tier("go")
def test_every_train_job_and_its_runtime_fit_the_operator_s_own_schemas(
    crd_schemas: Schemas,
) -> None:
    checks = {kind: strict(crd_schemas[kind]) for kind in ("TrainJob", "TrainingRuntime")}
    checked = 0
    for each in plans.all_plans():
        if each.framework in {"pytorch", "paddle"}:
            for found in plans.rendered(msgspec.structs.replace(each, kind="TrainJob"))[-2:]:
                checks[found["kind"]].validate(found)
                checked += 1
        if checked >= PLENTY:
            return


KEPT = {
    *("type", "required", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "anyOf", "oneOf", "allOf", "not"),
}
"""The words of a structural schema that mean the same in JSON schema."""


def strict(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Read a structural OpenAPI schema as strict field validation does: unknown fields fail."""
    return jsonschema.Draft202012Validator(closed(schema, root=True))


def closed(schema: dict[str, Any], *, root: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("nullable") and "type" in found:
        found["type"] = [found["type"], "null"]
    if "items" in schema:
        found["items"] = closed(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = closed(schema["additionalProperties"])
    elif schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found["additionalProperties"] = False
    if "properties" in schema:
        found["properties"] = {name: closed(inner) for name, inner in schema["properties"].items()}
    if root:
        # The API server checks the object's own metadata itself; CRDs leave it open.
        found["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return found
