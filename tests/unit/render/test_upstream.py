"""``--impl upstream``: the report's program in a job, and its log read by its family's parser.

The manifests themselves are the goldens ``upstream-…``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.measure.run.expectation import from_plan
from k8sbench.measure.run.measuring import measure
from k8sbench.model.kinds import WORDS, kind_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Framework
from tests.unit.measure import support
from tests.unit.render.plans import rendered, upstream
from tests.unit.render.test_goldens import GOLDENS

PROGRAMS: dict[tuple[str, Framework], str] = {
    ("deeplabv3p", "pytorch"): "mmseg",
    ("deeplabv3p", "paddle"): "paddleseg",
    ("resnet50", "pytorch"): "dle-resnet50",
    ("tsm", "pytorch"): "tsm",
    ("arcface", "paddle"): "plsc",
}
"""The five benchmarks, each on its framework → the family of its program's log."""
SECONDS = 0.5
"""Of an iteration, in the logs below."""


def mmseg(plan: RunPlan, iteration: int) -> str:
    return support.mmseg(iteration, SECONDS, at=iteration * SECONDS, total=plan.window.total)


def paddleseg(plan: RunPlan, iteration: int) -> str:
    return (
        f"{clock(iteration):%Y-%m-%d %H:%M:%S} [INFO]\t[TRAIN] epoch: 1, "
        f"iter: {iteration}/{plan.window.total}, loss: 1.3367, lr: 0.000675, "
        f"batch_cost: {SECONDS:.4f}, reader_cost: 0.00009, "
        f"ips: {plan.batch_size / SECONDS:.4f} samples/sec | ETA 00:00:00"
    )


def dle_resnet50(plan: RunPlan, iteration: int) -> str:
    return (
        f"DLL {clock(iteration):%Y-%m-%d %H:%M:%S.%f} - Epoch: 0 Iteration: {iteration}  "
        f"train.loss : 7.10564  train.total_ips : {plan.global_batch / SECONDS:.2f} img/s"
    )


def tsm(_: RunPlan, iteration: int) -> str:
    return support.tsm(0, iteration - 1, SECONDS, SECONDS, total=458)


def plsc(plan: RunPlan, iteration: int) -> str:
    stamp = f"{clock(iteration):%Y-%m-%d %H:%M:%S},{clock(iteration).microsecond // 1000:03d}"
    return support.plsc(iteration - 1, plan.global_batch / SECONDS, stamp=stamp)


def clock(iteration: int) -> datetime.datetime:
    start = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)
    return start + datetime.timedelta(seconds=iteration * SECONDS)


LINES: dict[str, tuple[int, Callable[[RunPlan, int], str]]] = {
    "mmseg": (0, mmseg),
    "paddleseg": (0, paddleseg),
    "dle-resnet50": (0, dle_resnet50),
    "tsm": (1, tsm),
    "plsc": (1, plsc),
}
"""Family → where its lines begin, an interval before the first or with the first iteration, and
the line that follows an iteration."""


def log_of(plan: RunPlan) -> Iterator[str]:
    """What the program prints in a run of the plan."""
    assert isinstance(plan.log, str)
    offset, line = LINES[plan.log]
    interval = plan.window.log_interval
    for iteration in range(offset or interval, plan.window.total + 2, interval):
        yield line(plan, iteration)


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


@pytest.mark.parametrize("name", SHOWN)
def test_the_program_s_log_is_valid_by_its_plan(name: str) -> None:
    plan = SHOWN[name]
    found = measure([support.Lines(log_of(plan))], from_plan(plan))
    assert [each.id for each in found.reasons] == []
    assert (found.verdict, found.impl, found.format) == ("valid", "upstream", plan.log)
    assert found.throughput is not None
    assert found.throughput.time_weighted == pytest.approx(plan.global_batch / SECONDS, rel=1e-4)
    assert found.throughput.median == pytest.approx(plan.global_batch / SECONDS, rel=1e-4)
