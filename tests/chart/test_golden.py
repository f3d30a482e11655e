"""The chart is sound, and what it renders is as reviewed. Renewed by ``make golden``."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
import yaml

from tests.chart import examples
from tests.harness.helm import Helm

GOLDEN = pathlib.Path(__file__).parent / "golden"
INSTALLS: dict[str, dict[str, Any]] = {
    "without-collector": {},
    "collector": examples.COLLECTOR,
    "all": examples.ALL,
}
DASHBOARD = "k8sbench.json"


@pytest.mark.parametrize("name", INSTALLS)
def test_helm_finds_nothing_to_complain_of(helm: Helm, name: str) -> None:
    told = helm.lint(INSTALLS[name])
    assert "1 chart(s) linted, 0 chart(s) failed" in told.out
    assert "WARNING" not in told.out


@pytest.mark.parametrize("name", INSTALLS)
def test_what_an_install_makes_golden(helm: Helm, name: str) -> None:
    objects = helm.template(INSTALLS[name])
    for each in objects:
        if DASHBOARD in each.get("data", {}):
            # Tests of its own hold it.
            assert json.loads(each["data"].pop(DASHBOARD))["title"] == "k8sbench team-a/dlperf"
    # The majors order objects of a kind by different rules.
    objects.sort(key=lambda each: (each["kind"], each["metadata"]["name"]))
    text = yaml.safe_dump_all(objects, sort_keys=False, width=100)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "K8SBENCH_UPDATE_GOLDEN=1 writes it anew"
