"""Metrics of the operator, as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.operator.metrics import Metrics
from tests.unit.cli import live_runs


def run(name: str = "seg-1", *steps: Transition, measured: Any = None, **changes: Any) -> Run:
    history = (at(Phase.CREATED, 100.0), *steps)
    recorded = live_runs.run(name, **changes)
    return msgspec.structs.replace(
        recorded, created_at=100.0, history=history, measurement=measured
    )


def at(phase: Phase, moment: float, **more: Any) -> Transition:
    return Transition(phase=phase, at=moment, cause="", **more)


def samples(made: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(made.registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found
