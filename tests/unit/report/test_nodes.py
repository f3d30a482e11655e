"""What is said of the nodes of a pool: in their rows and below the table."""

from __future__ import annotations

from typing import Any

from k8sbench.measure.group import node_check
from k8sbench.measure.group.node_check import NodeFigures
from k8sbench.report import nodes

ALIKE = ("Tesla V100", "fp32", "time_weighted")
SLOW_GPU = "Its GPU 1 ran at 1110 MHz, another at 1290 MHz."


def node(number: int, throughput: float | None = 1000.0, **known: Any) -> NodeFigures:
    known = {"fastest": throughput, **known}
    return NodeFigures(node=f"gpu-{number}", throughput=throughput, alike=ALIKE, **known)


def test_a_slow_node_is_remarked_with_its_slow_gpu_and_the_command_stands_below() -> None:
    rates = [1000.0, 1001.0, 999.0, 1000.0]
    figures = [node(number, rate, slow_gpus=(SLOW_GPU,)) for number, rate in enumerate(rates)]
    figures.append(node(4, 930.0, slow_gpus=(SLOW_GPU,)))
    lost = node(5, None, state="not-measured", why=("Failed: The node was lost.",))
    found = node_check.check([*figures, lost])
    assert nodes.remarks(found) == {
        "gpu-4": (
            "gpu-4 is slow: It is 7.0 % below the median of 5 nodes; the limit is 3.0 %."
            f" {SLOW_GPU}"
        )
    }
    assert list(nodes.sentences(found)) == [
        "Tesla V100: median 1000.00 of 5 nodes, noise 0.1 %, slow is more than 3.0 % below.",
        "Check these nodes. To keep pods away from them (nothing was cordoned yet):",
        "  kubectl cordon gpu-4",
        "Not measured, and so not judged: gpu-5.",
    ]


def test_a_node_that_one_run_calls_slow_is_named_and_the_pool_is_not_called_healthy() -> None:
    figures = [*(node(number) for number in range(5)), node(5, 930.0, fastest=None)]
    found = node_check.check(figures)
    (remark,) = nodes.remarks(found).values()
    assert remark.startswith("gpu-5 is not-judged: It is 7.0 % below")
    assert remark.endswith(node_check.UNCONFIRMED)
    assert len(list(nodes.sentences(found))) == 1


def test_a_healthy_pool_is_said_to_be_one_and_a_node_that_was_not_measured_is_not() -> None:
    figures = [node(number) for number in range(5)]
    found = node_check.check(figures)
    assert nodes.remarks(found) == {}
    assert list(nodes.sentences(found))[-1] == "No node is slow or faulty."
    lost = node(5, None, state="not-measured", why=("It was lost.",))
    assert list(nodes.sentences(node_check.check([*figures, lost])))[1:] == [
        "No node that was measured is slow or faulty.",
        "Not measured, and so not judged: gpu-5.",
    ]


def test_why_nodes_are_not_judged_is_said_once() -> None:
    smoke = {"state": "not-judged", "why": ("A smoke run checks the path, not the speed.",)}
    found = node_check.check([node(number, 7.992, **smoke) for number in range(5)])
    assert list(nodes.sentences(found))[-1] == "A smoke run checks the path, not the speed."
