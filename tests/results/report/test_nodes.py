"""Nodes of a pool in their rows and below the table."""

from pathlib import Path
from typing import Any

from k8sbench.results.groups import node_check
from k8sbench.results.groups.node_check import NodeFigures
from k8sbench.results.report import group_words
from tests.unit import goldens

ALIKE = ("Tesla V100", "fp32", "time_weighted")
SLOW_GPU = "Its GPU 1 ran at 1110 MHz, another at 1290 MHz."


def node(number: int, throughput: float | None = 1000.0, **known: Any) -> NodeFigures:
    known = {"fastest": throughput, **known}
    return NodeFigures(node=f"gpu-{number}", throughput=throughput, alike=ALIKE, **known)


RATES = (1000.0, 1001.0, 999.0, 1000.0, 930.0)
NODES = [node(number) for number in range(5)]
LOST = node(5, None, state="not-measured", why=("Failed: The node was lost.",))
SMOKE = {
    "state": "not-judged",
    "why": ("A smoke run is a functional test, not a speed measurement.",),
}
POOLS = {
    "one is slow, one was lost": [
        *(node(n, rate, slow_gpus=(SLOW_GPU,)) for n, rate in enumerate(RATES)),
        LOST,
    ],
    "one run calls one slow": [*NODES, node(5, 930.0, fastest=None)],
    "all are healthy": NODES,
    "one was not measured": [*NODES, LOST],
    "smoke runs": [node(number, 7.992, **SMOKE) for number in range(5)],
}


def test_what_is_said_of_nodes_is_golden() -> None:
    """A slow node has its slow GPU; unjudged nodes share one reason."""
    parts = []
    for name, figures in POOLS.items():
        found = node_check.check(figures)
        parts += [
            f"# {name}",
            *group_words.remarks(found).values(),
            *group_words.sentences(found),
            "",
        ]
    goldens.check(Path(__file__).parent / "golden" / "nodes.txt", "\n".join(parts))
