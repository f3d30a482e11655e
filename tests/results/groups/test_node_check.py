"""Rule for slow nodes: named nodes."""

from collections.abc import Sequence

import pytest

from k8sbench.results.groups.node_check import JudgedNodes, NodeFigures, check
from tests.unit.presence import present

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


@pytest.mark.parametrize(("rate", "slow"), [(995.5, ()), (994.5, ("gpu-8",))])
def test_among_equal_nodes_the_limit_is_half_a_per_cent(rate: float, slow: tuple[str, ...]) -> None:
    found = check(nodes([*[1000] * 8, rate]))
    assert found.to_cordon == slow
    assert [one.limit for one in found.limits] == [0.005]


def test_nodes_that_differ_widen_the_limit_by_their_own_spread() -> None:
    found = check(nodes([1000, 1004, 996, 1003, 997, 1002, 998, 990]))
    assert found.to_cordon == ()
    assert present(found.limits[0].limit) > 0.01


@pytest.mark.parametrize(("count", "multiple"), [(8, 5.15), (16, 5.0), (100, 5.0)])
def test_the_limit_is_five_times_the_noise_at_least(count: int, multiple: float) -> None:
    found = check(nodes([1000 + 50 * number / count for number in range(count)]))
    (limits,) = found.limits
    noise = present(limits.noise) * (1 + 1 / limits.against) ** 0.5
    assert present(limits.limit) / noise == pytest.approx(multiple, abs=0.01)


def test_slow_nodes_hide_no_other_while_they_are_fewer_than_half() -> None:
    healthy = [1000, 1001, 999, 1002, 998]
    assert check(nodes([*healthy, 900, 940, 970])).to_cordon == ("gpu-5", "gpu-6", "gpu-7")


def test_a_node_that_is_far_faster_hides_no_slow_one() -> None:
    found = check(nodes([1000, 1001, 999, 1002, 998, 1000, 1060, 960]))
    assert found.to_cordon == ("gpu-7",)
    assert found.limits[0].against == 6


def test_a_run_that_was_slow_once_hides_no_slow_node() -> None:
    found = nodes([999, 996, 995, 994, 970, 920])
    found[4] = NodeFigures(node="gpu-4", throughput=970.0, fastest=1000.0, alike=V100)
    assert check(found).to_cordon == ("gpu-5",)


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
    ("fastest", "state"), [(None, "not-judged"), (996.0, "ok"), (994.0, "slow")]
)
def test_a_node_is_slow_if_each_of_several_runs_is(fastest: float | None, state: str) -> None:
    few = NodeFigures(node="x", throughput=993.0, fastest=fastest, alike=V100)
    found = check([*nodes([1000] * 9), few])
    assert states(found).get("x", "ok") == state
    assert found.to_confirm == (("x",) if fastest is None else ())
    assert found.to_cordon == (("x",) if state == "slow" else ())
