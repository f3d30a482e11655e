"""Manifests against the typed models of the operator's client library.

In ``tests/cluster`` the API server itself holds every kind of plan against the operator's CRDs.
"""

from k8sbench.model.plan import RunPlan
from tests.unit.render.plans import Objects
from tests.unit.render.schemas import through_models


def test_typed_models_lose_no_field(everything: list[tuple[RunPlan, Objects]]) -> None:
    # A stride that divides no axis of the plans: every two choices still meet.
    for _, objects in everything[::5]:
        for manifest in objects:
            assert through_models(manifest) == manifest
