"""The CRD that the operator prints: the chart's, with the schema's number."""

from __future__ import annotations

import yaml

from k8sbench.adapters.kubernetes import benchmark_objects
from k8sbench.model.benchmark_object import API_VERSION, SCHEMA
from tests.tiers import ROOT
from tests.unit.command_line import Cli


def test_it_is_the_charts_and_names_the_schema_that_the_operator_needs(cli: Cli) -> None:
    printed = cli("operator", "crd").out
    assert printed == (ROOT / "charts/crds/benchmarks.k8sbench.io.yaml").read_text()
    spec = yaml.safe_load(printed)["spec"]
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == API_VERSION
    description = version["schema"]["openAPIV3Schema"]["description"]
    assert benchmark_objects.number(description) == SCHEMA
