"""The rule by which a node of a pool is called slow: what it names, and how often it is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from k8sbench.measure.group import node_check
from k8sbench.measure.group.node_check import NodeRow, NodesDocument

V100 = ("Tesla V100", "fp32", "time_weighted")


def check(rows: list[NodeRow]) -> NodesDocument:
    return node_check.check(rows, set_name="s", unit="images", left_out={})


def nodes(rates: Sequence[float]) -> list[NodeRow]:
    return [
        NodeRow(node=f"gpu-{number}", throughput=rate, alike=V100)
        for number, rate in enumerate(rates)
    ]


def states(found: NodesDocument) -> dict[str, str]:
    return {one.node: one.state for one in found.nodes if one.state != "ok"}


@pytest.mark.parametrize(("rate", "slow"), [(971.0, False), (969.0, True)])
def test_less_than_three_percent_is_never_enough(rate: float, slow: bool) -> None:
    found = check(nodes([1000] * 9 + [rate]))
    assert bool(found.to_cordon) is slow


def test_a_node_at_the_limit_itself_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_check, "LEAST", 0.25)
    assert check(nodes([1024.0] * 9 + [768.0])).to_cordon == ()
    assert check(nodes([1024.0] * 9 + [767.0])).to_cordon == ("gpu-9",)


def test_the_limit_grows_with_the_noise_of_the_pool() -> None:
    noisy = check(nodes([1000, 1050, 950, 1040, 960, 1010, 990, 930]))
    assert noisy.to_cordon == ()
    (held,) = noisy.limits
    assert held.limit is not None
    assert held.limit > 0.1


def test_slow_nodes_do_not_hide_each_other_while_they_are_fewer_than_half() -> None:
    found = check(nodes([1000, 1001, 999, 1002, 998, 1000, 900, 905, 910]))
    assert found.to_cordon == ("gpu-6", "gpu-7", "gpu-8")


def test_fewer_than_five_nodes_are_not_judged() -> None:
    found = check(nodes([1000, 1000, 1000, 500]))
    assert set(states(found).values()) == {"not-judged"}
    assert found.limits[0].reason == (
        "4 nodes were measured alike; fewer than 5 do not show how much equal nodes differ."
    )
    assert check(nodes([1000, 1000, 1000, 1000, 500])).to_cordon == ("gpu-4",)


def test_nodes_of_another_gpu_model_are_another_pool() -> None:
    others = [
        NodeRow(node=f"a100-{n}", throughput=3000.0, alike=("A100", *V100[1:])) for n in range(5)
    ]
    assert check([*nodes([1000] * 6), *others]).to_cordon == ()


def test_a_faulty_gpu_names_its_node_whatever_its_speed_and_without_any() -> None:
    faults = ("The driver reported XID 79 of GPU 3 of gpu-1 during the run.",)
    healthy = nodes([1000] * 5)
    fast = NodeRow(node="x", throughput=1000.0, state="faulty", why=faults, alike=V100)
    slow = NodeRow(node="y", throughput=900.0, state="faulty", why=faults, alike=V100)
    dead = NodeRow(node="z", state="faulty", why=faults)
    found = check([*healthy, fast, slow, dead])
    assert found.to_cordon == ("x", "y", "z")
    assert [len(row.why) for row in found.nodes[5:]] == [1, 2, 1]


def sweeps(count: int, noise: float, *, times: int, slow: float = 0.0) -> tuple[float, float]:
    """Return the shares of simulated sweeps with a false alarm, and with the slow node named."""
    draw = random.Random(20261121)
    wrong = right = 0
    for _ in range(times):
        rates = [1000 * (1 + draw.gauss(0, noise)) for _ in range(count)]
        rates[0] *= 1 - slow
        found = check(nodes(rates))
        named = set(found.to_cordon)
        right += "gpu-0" in named
        wrong += bool(named - {"gpu-0"} if slow else named)
    return wrong / times, right / times


def test_a_hundred_equal_nodes_give_a_false_alarm_in_one_of_twenty_sweeps_at_most() -> None:
    wrong, _ = sweeps(100, 0.01, times=1000)
    assert wrong <= 0.07  # 5 % and three standard errors of the simulation


def test_the_page_says_how_often_equal_nodes_of_heavy_tails_give_a_false_alarm() -> None:
    """Student's t with 3 degrees of freedom: one sweep cannot tell its extremes from slow nodes."""
    draw, wrong = random.Random(20261123), 0
    for _ in range(1000):
        tails = (draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2) / 3) for _ in range(100))
        rates = [1000 * (1 + 0.01 * tail / math.sqrt(3)) for tail in tails]
        wrong += bool(check(nodes(rates)).to_cordon)
    assert wrong / 1000 == pytest.approx(0.5, abs=0.05)


def test_a_node_that_is_five_percent_slow_is_found_among_a_hundred() -> None:
    wrong, right = sweeps(100, 0.01, times=1000, slow=0.05)
    assert right >= 0.90
    assert wrong <= 0.07
    # With the median of several runs of each node the noise is smaller, and none is missed.
    assert sweeps(100, 0.006, times=300, slow=0.05)[1] >= 0.99


@pytest.mark.parametrize("count", [5, 8, 16, 32])
def test_small_pools_have_no_more_false_alarms(count: int) -> None:
    assert sweeps(count, 0.01, times=1000)[0] <= 0.03
    # Noise far above the least limit is what the estimate must bear alone.
    assert sweeps(count, 0.05, times=1000)[0] <= 0.12
