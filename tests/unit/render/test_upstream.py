"""``--impl upstream``: the report's program in a job.

Their containers are the golden ``upstream.yaml``; ``tests/corpus`` reads the programs' logs.
"""

import re
from typing import Any

import pytest

from k8sbench.model.kinds import WORDS, kind_of
from k8sbench.model.spec_values import Framework
from k8sbench.reader.measuring import expectation, measuring
from tests.reader.measuring.support import Lines, ids
from tests.unit.render.plans import rendered, upstream

PROGRAMS: tuple[tuple[str, Framework], ...] = (
    *(("deeplabv3p", "pytorch"), ("deeplabv3p", "paddle"), ("resnet50", "pytorch")),
    *(("tsm", "pytorch"), ("arcface", "paddle")),
)


@pytest.mark.parametrize(("benchmark", "framework"), PROGRAMS)
@pytest.mark.parametrize("name", [None, *(name for name in WORDS.values() if name is not None)])
def test_commands_use_set_variables(benchmark: str, framework: Framework, name: str | None) -> None:
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


@pytest.mark.parametrize("iterations", [8, 100])
def test_nvidias_program_is_asked_for_as_many_lines_as_are_planned(iterations: int) -> None:
    """Its ``--prof N`` ends the run before the line of iteration N."""
    plan = upstream("resnet50", "pytorch", "1x1", "fp32", iterations=iterations)
    stop = plan.command[plan.command.index("--prof") + 1]
    head = "DLL 2026-03-02 10:{:02d}:{:02d}.000000 - "
    lines = [head.format(0, 0) + f"PARAMETER arch : resnet50  batch_size : 128  prof : {stop}  "]
    lines += [
        head.format(*divmod(step, 60)) + f"Epoch: 0 Iteration: {step}  train.loss : 7.0  "
        "train.compute_ips : 129.00 img/s train.total_ips : 128.00 img/s"
        for step in range(1, int(stop))
    ]
    found = measuring.measure([Lines(lines)], expectation.from_plan(plan))
    assert (found.iterations, ids(found)) == (iterations, [])


def containers(found: Any) -> list[Any]:
    """Return the one container that a template has, once."""
    if isinstance(found, dict):
        if "containers" in found:
            return list(found["containers"])
        return next(filter(None, map(containers, found.values())), [])
    if isinstance(found, list):
        return next(filter(None, map(containers, found)), [])
    return []
