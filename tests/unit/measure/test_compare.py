"""Comparing two sides: matching cases, missing ratios and regressions."""

from collections.abc import Iterable
from typing import Any

import pytest

from k8sbench.measure.group import compare as comparing
from k8sbench.measure.group.grouping import groups
from k8sbench.measure.group.sides import Side, chosen
from k8sbench.model.compared import Compared, Comparison
from k8sbench.model.measurement import GpuFigure, GpuMetrics
from k8sbench.model.phase import Phase
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from tests.unit.measure.support import NOT_COMPARABLE
from tests.unit.presence import present
from tests.unit.report.factory import START, V100_16, V100_32, repeats, run

A, B = (100.0, 101.0, 102.0, 100.5, 101.5), (90.0, 91.0, 92.0, 90.5, 91.5)


def side(name: str, runs: Iterable[Run]) -> Side:
    found = list(runs)
    return Side(name=name, groups=tuple(groups(found)), runs={one.run_id: one for one in found})


def old(rates: Iterable[float] = A, **fields: Any) -> list[Run]:
    return repeats(rates, set_name="old", at=START, **fields)


def new(rates: Iterable[float] = B, **fields: Any) -> list[Run]:
    return repeats(rates, set_name="new", at=START + 1e6, **fields)


def compared(a: Iterable[Run], b: Iterable[Run], limit: float | None = None) -> Comparison:
    return comparing.compare(side("a", a), side("b", b), limit=limit)


def only(a: Iterable[Run], b: Iterable[Run], limit: float | None = None) -> Compared:
    (case,) = compared(a, b, limit).cases
    return case


def test_what_one_case_shows_alone_many_cases_may_not_show_together() -> None:
    near = (98.0, 98.7, 99.3, 99.8, 101.2)
    assert only(old(), new(near)).finding == "slower"
    cases = [f"1x{n}" for n in range(1, 9)]
    many = compared(
        [one for case in cases for one in old(case=case)],
        [one for case in cases for one in new(near if case == "1x3" else A, case=case)],
        0.01,
    )
    (case,) = (case for case in many.cases if case.group.key.case == "1x3")
    assert (case.finding, case.regression) == ("no-difference", True)
    assert present(case.p) <= 0.05, "CI judges each case by itself"


def test_cases_meet_their_like_and_what_has_none_says_so() -> None:
    a = [*old(case="1x8"), *old(case="1x1"), *old(case="1x8", precision="amp", amp_dtype="fp16")]
    b = [*new(case="1x8"), *new(case="2x8")]
    found = {(one.group.key.case, one.group.key.precision): one for one in compared(a, b).cases}
    assert found["1x8", "fp32"].ratio is not None
    assert found["1x1", "fp32"].b is None
    assert found["1x8", "amp"].b is None
    assert found["2x8", "fp32"].a is None
    assert {one.finding for one in found.values()} == {"slower", "one-side"}


def test_of_two_single_cases_each_is_the_others_counterpart() -> None:
    assert only(old(case="1x8"), new(case="1x4")).not_comparable == ("case",)
    found = only(old(), new(benchmark="tsm"))
    assert "benchmark" in found.not_comparable
    # Speed options, another pool of the same GPU, another window: noted, not forbidden.
    other = NodePool(name="v100-b", gpus_per_node=8, gpu_model=V100_16)
    found = only(old(), new(options={"compile": True}, pool=other))
    assert found.ratio is not None
    assert found.notes == (
        "pool: v100-16gb in A, v100-b in B",
        "options: - in A, compile=True in B",
    )


@pytest.mark.parametrize(
    ("unlike", "fields"),
    [
        ("batch", {"batch_size": 96}),
        ("precision", {"measured": {"precision_effective": "amp", "amp_dtype": "fp16"}}),
        ("device", {"measured": {"gpu_model": V100_32.replace("V100", "A100")}}),
        ("device", {"measured": {"gpu_model": None}}),
        ("model", {"measured": {"parameters": 30_000_000}}),
        ("cpu", {"device": "cpu", "measured": {"device": "cpu"}}),
    ],
)
def test_unequal_things_have_no_ratio(unlike: str, fields: dict[str, Any]) -> None:
    found = only(old(), new(**fields))
    assert (found.ratio, found.p, found.regression) == (None, None, False)
    assert {unlike} <= {*found.not_comparable} <= {*NOT_COMPARABLE}


def test_the_same_program_is_comparable_where_neither_side_states_its_model() -> None:
    unknown: dict[str, Any] = {
        "fingerprint": None,
        "measured": {"parameters": None, "precision_effective": None},
    }
    assert only(old(**unknown), new(**unknown)).ratio is not None
    # Of two frameworks the models must be known.
    assert "model" in only(old(**unknown), new(framework="paddle", **unknown)).not_comparable


def test_a_side_whose_runs_do_not_count_has_no_figure() -> None:
    found = only(old(), [run(None, set_name="new", phase=Phase.FAILED)])
    assert "no-figure" in found.not_comparable
    assert found.b is not None
    assert (found.b.values, found.b.runs) == ((), 1)


def test_four_sets_on_each_side_are_compared_as_sets() -> None:
    def nights(first: int, level: float) -> list[Run]:
        return [
            one
            for n in range(first, first + 4)
            for one in repeats([level + n, level + n + 0.1], set_name=f"n{n}", at=START + 1e5 * n)
        ]

    found = only(nights(0, 100.0), nights(10, 80.0), 0.03)
    assert present(found.a).of == "sets"
    assert present(found.a).values == pytest.approx((100.05, 101.05, 102.05, 103.05))
    assert found.regression
    # Of one set on a side its runs are compared with all runs of the other.
    side = present(only(nights(0, 100.0), new()).a)
    assert (side.of, len(side.values)) == ("runs", 8)


def test_named_runs_of_a_group_are_taken_alone() -> None:
    runs = old((100.0, 101.0, 102.0, 103.0))
    ids = {runs[0].run_id, runs[3].run_id}
    (group,) = chosen(groups(runs), ids)
    assert (present(group.spread).median, group.counted) == (101.5, 2)
    assert chosen(groups(runs), set()) == []


# What differs besides


def gpu(**values: float) -> GpuMetrics:
    return GpuMetrics(
        figures={
            name: GpuFigure(value=value, unit="", source="dcgm", coverage=1.0, samples=9)
            for name, value in values.items()
        },
        gpus=(),
    )


def differences(a: dict[str, Any], b: dict[str, Any], **fields: Any) -> dict[str, tuple[Any, ...]]:
    found = compared(old(measured=a), new(measured=b, **fields)).differences
    return {d.name: (d.a, d.b, *([] if d.change is None else [round(d.change, 3)])) for d in found}


def test_what_the_runs_report_differently_is_listed() -> None:
    one = {"driver": "535.54", "cuda": "12.1", "pod": "a", "clock_sm_mhz": 1500, "node": "n1"}
    two = {"driver": "550.90", "cuda": "12.1", "pod": "b", "clock_sm_mhz": 900, "node": "n1"}
    assert differences({"environment": one}, {"environment": two}) == {
        "driver": ("535.54", "550.90")
    }
    own = ({"run_id": "r-1", "host": "r-1-master-0"}, {"run_id": "r-2", "host": "r-2-master-0"})
    assert not differences({"environment": own[0]}, {"environment": own[1]}), "each run has its own"
    two = {**two, "driver": None}
    assert differences({"environment": one}, {"environment": two}) == {"driver": ("535.54", None)}


def test_another_image_program_and_plan_are_listed() -> None:
    found = differences(
        {}, {}, image="registry.example/pytorch:2", trainers_digest="f" * 64, env={"NCCL_ALGO": "x"}
    )
    assert found["image"] == ("registry.example/pytorch:1", "registry.example/pytorch:2")
    assert found["program"] == ("e" * 12, "f" * 12)
    assert found["env"] == ("{}", '{"NCCL_ALGO":"x"}')
    assert differences({}, {}, workdir="/opt/resnet") == {"workdir": (None, '"/opt/resnet"')}


def test_gpu_metrics_are_listed_from_a_change_of_2_percent_on() -> None:
    one = gpu(sm_clock=1530.0, power=250.0, gpu_utilization=0.40, throttled=0.0)
    two = gpu(sm_clock=1380.0, power=252.0, gpu_utilization=0.39, throttled=0.10, temperature=88.0)
    assert differences({"gpu_metrics": one}, {"gpu_metrics": two}) == {
        "SM clock": ("1,530 MHz", "1,380 MHz", -0.098),
        "Throttled": ("0.0 %", "10.0 %"),
        "Temperature": (None, "88 °C"),
    }


def test_the_2_percent_are_of_the_first_side() -> None:
    one, two = {"gpu_metrics": gpu(sm_clock=1500.0)}, {"gpu_metrics": gpu(sm_clock=1470.0)}
    assert differences(one, two) == {}
    assert differences(two, one) == {"SM clock": ("1,470 MHz", "1,500 MHz", 0.02)}


def test_a_difference_names_the_cases_that_have_it() -> None:
    a = [*old(case="1x1"), *old(case="1x8")]
    changed = {"environment": {"driver": "550.90"}}
    b = [*new(case="1x1"), *new(case="1x8", measured=changed)]
    found = compared(a, b)
    (driver,) = (one for one in found.differences if one.name == "driver")
    assert [found.cases[n].group.key.case for n in driver.cases] == ["1x8"]
