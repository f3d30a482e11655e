"""Manifests against the typed models of the operator's client library.

In ``tests/cluster`` the API server itself holds every kind of plan against the operator's CRDs.
"""

import json
from typing import Any

from k8sbench.model.plan import RunPlan
from tests.unit.render.plans import Objects


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


def test_typed_models_lose_no_field(everything: list[tuple[RunPlan, Objects]]) -> None:
    # A stride that divides no axis of the plans: every two choices still meet.
    for _, objects in everything[::5]:
        for manifest in objects:
            assert through_models(manifest) == manifest
