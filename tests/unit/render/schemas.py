"""Manifests read through the models of the operators' client libraries."""

import json
from typing import Any


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
