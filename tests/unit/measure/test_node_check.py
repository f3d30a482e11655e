"""Rule for slow nodes: named nodes and error rates."""

import math
import random
import statistics
from collections.abc import Callable, Sequence

import msgspec
import pytest

from k8sbench.measure.group.node_check import JudgedNodes, NodeFigures, check

V100 = ("Tesla V100", "fp32", "time_weighted")


def nodes(rates: Sequence[float]) -> list[NodeFigures]:
    """Give nodes with two equal runs each."""
    return [
        NodeFigures(node=f"gpu-{number}", throughput=rate, fastest=rate, alike=V100)
        for number, rate in enumerate(rates)
    ]


def states(found: JudgedNodes) -> dict[str, str]:
    return {one.node: one.state for one in found.nodes if one.state != "ok"}


def test_fewer_than_five_nodes_are_not_judged() -> None:
    found = check(nodes([1000, 1000, 1000, 500]))
    assert set(states(found).values()) == {"not-judged"}
    assert found.limits[0].reason == (
        "4 nodes were measured alike; fewer than 5 do not show how much equal nodes differ."
    )
    assert check(nodes([1000, 1000, 1000, 1000, 500])).to_cordon == ("gpu-4",)


def test_nodes_of_another_gpu_model_are_another_pool() -> None:
    alike = ("A100", *V100[1:])
    others = [NodeFigures(node=f"a100-{n}", throughput=3000.0, alike=alike) for n in range(5)]
    assert check([*nodes([1000] * 6), *others]).to_cordon == ()


def test_a_faulty_gpu_names_its_node_whatever_its_speed_and_without_any() -> None:
    faults = ("The driver reported XID 79 of GPU 3 of gpu-1 during the run.",)
    healthy = nodes([1000] * 5)
    fast = NodeFigures(node="x", throughput=1000.0, state="faulty", why=faults, alike=V100)
    slow = NodeFigures(node="y", throughput=900.0, state="faulty", why=faults, alike=V100)
    dead = NodeFigures(node="z", state="faulty", why=faults)
    found = check([*healthy, fast, slow, dead])
    assert found.to_cordon == ("x", "y", "z")
    assert [len(row.why) for row in found.nodes[5:]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("fastest", "state"), [(None, "not-judged"), (975.0, "ok"), (965.0, "slow")]
)
def test_a_node_is_slow_if_each_of_several_runs_is(fastest: float | None, state: str) -> None:
    few = NodeFigures(node="x", throughput=960.0, fastest=fastest, alike=V100)
    found = check([*nodes([1000] * 9), few])
    assert states(found).get("x", "ok") == state
    assert found.to_confirm == (("x",) if fastest is None else ())
    assert found.to_cordon == (("x",) if state == "slow" else ())


Draw = Callable[[], float]
DRAWS = random.Random(20261121)


def normal(noise: float) -> Draw:
    return lambda: DRAWS.gauss(0, noise)


def of_heavy_tails() -> float:
    """Draw noise of 1 % by Student's t with 3 degrees of freedom."""
    return 0.01 * DRAWS.gauss(0, 1) / math.sqrt(DRAWS.gammavariate(1.5, 2))


def sweeps(count: int, draw: Draw, *, times: int, slow: float = 0.0) -> tuple[float, float]:
    """Return shares of simulated checks with false alarms and with detections."""
    wrong = right = 0
    for _ in range(times):
        true = [1000 * (1 - slow), *[1000.0] * (count - 1)]
        rows = [
            NodeFigures(node=f"gpu-{number}", throughput=rate * (1 + draw()), alike=V100)
            for number, rate in enumerate(true)
        ]
        for name in check(rows).to_confirm:
            place = int(name.removeprefix("gpu-"))
            both = (rows[place].throughput or 0.0, true[place] * (1 + draw()))
            again = {"throughput": statistics.median(both), "fastest": max(both)}
            rows[place] = msgspec.structs.replace(rows[place], **again)
        named = set(check(rows).to_cordon)
        right += "gpu-0" in named
        wrong += bool(named - {"gpu-0"} if slow else named)
    return wrong / times, right / times


@pytest.mark.parametrize("draw", [normal(0.01), normal(0.05), of_heavy_tails])
@pytest.mark.parametrize("count", [5, 8, 16, 32, 100])
def test_equal_nodes_give_one_false_alarm_in_twenty_checks(count: int, draw: Draw) -> None:
    assert sweeps(count, draw, times=1000)[0] <= 0.05
