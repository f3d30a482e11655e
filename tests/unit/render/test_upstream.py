"""``--impl upstream``: the report's program in a job.

The manifests themselves are the goldens ``upstream-…``; ``tests/corpus`` reads the programs' logs.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.model.kinds import WORDS, kind_of
from k8sbench.model.spec import Framework
from tests.unit.render.plans import rendered, upstream
from tests.unit.render.test_goldens import GOLDENS

PROGRAMS: tuple[tuple[str, Framework], ...] = (
    *(("deeplabv3p", "pytorch"), ("deeplabv3p", "paddle"), ("resnet50", "pytorch")),
    *(("tsm", "pytorch"), ("arcface", "paddle")),
)


SHOWN = {name: plan for name, plan in GOLDENS.items() if name.startswith("upstream-")}


def test_every_program_that_the_catalog_has_is_among_the_goldens() -> None:
    having = {
        (found.spec.name, framework)
        for found in catalog.load_all()
        for framework in found.spec.frameworks
        for variant in [found.spec.default_variant(framework)]
        if variant is not None and variant.upstream is not None
    }
    assert having == set(PROGRAMS)
    assert {(plan.benchmark, plan.framework) for plan in SHOWN.values()} == having


@pytest.mark.parametrize(("benchmark", "framework"), PROGRAMS)
@pytest.mark.parametrize("name", [None, *(name for name in WORDS.values() if name is not None)])
def test_a_published_command_uses_no_variable_that_its_kind_of_job_lacks(
    benchmark: str, framework: Framework, name: str | None
) -> None:
    plan = upstream(benchmark, framework, "4x8", "fp32", name)
    kind = kind_of(plan)
    template = rendered(plan)[-1 if kind.runtime is None else -2]
    (found,) = containers(template)
    there = {one["name"] for one in found["env"]} | {one.name for one in kind.variables}
    there |= {one.name for one in kind.local}
    values = [*found["command"], *(one.get("value", "") for one in found["env"])]
    used = {word for value in values for word in re.findall(r"\$\((\w+)\)", value)}
    assert used <= there
    # A later variable is no variable for an earlier one.
    names = [one["name"] for one in found["env"]]
    for number, one in enumerate(found["env"]):
        assert {*re.findall(r"\$\((\w+)\)", one.get("value", ""))} <= {*names[:number]}


def containers(found: Any) -> list[Any]:
    """Return the one container that a template has, once."""
    if isinstance(found, dict):
        if "containers" in found:
            return list(found["containers"])
        return next(filter(None, map(containers, found.values())), [])
    if isinstance(found, list):
        return next(filter(None, map(containers, found)), [])
    return []
