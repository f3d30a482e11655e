"""``docs/local.md`` names every variable and every cause that there is."""

from __future__ import annotations

import re

import pytest

from k8sbench.adapters import lines
from k8sbench.adapters.local import launch
from k8sbench.diagnose.job import exits as endings
from tests.tiers import ROOT
from tests.unit.local import examples

PAGE = (ROOT / "docs" / "local.md").read_text()
NAMES = set(re.findall(r"`([A-Za-z0-9_-]+)`", PAGE))


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_every_variable_that_a_replica_gets_is_on_the_page(framework: str) -> None:
    plan = examples.plan(framework=framework)
    of_the_manifest = {name for name, _ in examples.job(plan).replicas[0].env}
    for each in examples.launches(plan, examples.machine(gpus=["0", "1"])):
        assert launch.MARK in each.environ
        assert each.environ.keys() - of_the_manifest <= NAMES


def test_the_page_names_what_is_kept_and_what_is_not() -> None:
    assert {"PATH", "HOME", "USER", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH"} <= NAMES
    assert not {"RANK", "NCCL_DEBUG"} & launch.KEPT


def test_every_cause_is_on_the_page() -> None:
    for code, line in ((1, "x"), (137, "x"), (1, "EADDRINUSE")):
        found = endings.cause(endings.Ended(replica="r", code=code, last=[line]), [])
        assert found.id in NAMES


def test_the_limit_of_a_line_is_the_pages() -> None:
    assert f"{lines.LIMIT // 1024} KiB" in PAGE
