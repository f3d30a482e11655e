"""The table by node: slowest first, ranges over GPUs, reasons for what is missing, what to do."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.measure.group import node_check
from k8sbench.measure.group.node_check import NodeRow, NodesDocument
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.measurement import GpuOfRun
from k8sbench.report import formats, nodes, tables

ALIKE = ("Tesla V100", "fp32", "time_weighted")


def node(number: int, throughput: float | None = 1000.0, **known: Any) -> NodeRow:
    known = {"fastest": throughput, **known}
    return NodeRow(node=f"gpu-{number}", throughput=throughput, alike=ALIKE, **known)


def gpus(*clocks: float) -> dict[str, Any]:
    figures = [{"sm_clock": clock, "ecc_errors": 0.0} for clock in clocks]
    return {
        "gpus": tuple(
            GpuOfRun(gpu=Gpu(index=str(number)), figures=of_gpu)
            for number, of_gpu in enumerate(figures)
        ),
        "xid": (),
        "missing": {"power": "The exporter does not give it."},
    }


def checked(figures: list[NodeRow]) -> NodesDocument:
    return node_check.check(figures, set_name="s", unit="images", left_out={})


@pytest.fixture
def found() -> NodesDocument:
    rates = [1000.0, 1001.0, 999.0, 1000.0]
    figures = [node(number, rate, **gpus(1290, 1290)) for number, rate in enumerate(rates)]
    figures.append(node(4, 930.0, **gpus(1290, 1110)))
    lost = {"state": "not-measured", "why": ("Failed: The node was lost.",)}
    return checked([*figures, node(5, None, missing={"xid": "Not measured."}, **lost)])


def test_the_table_has_the_slowest_node_first_and_those_without_a_figure_last(
    found: NodesDocument,
) -> None:
    text = tables.text([nodes.table(found)])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "NODE IMAGES/S TO POOL MHZ WATT ECC XID VERDICT"
    assert lines[1].startswith("gpu-4 930.00 −7.0 % 1110–1290 – 0 none slow")
    assert lines[2].startswith("gpu-2 999.00 −0.1 % 1290 – 0 none ok")
    assert lines[6].startswith("gpu-5 – – – ")
    assert "not-measured [" in lines[6]
    notes = "\n".join(lines[7:])
    assert "The exporter does not give it." in notes
    assert "Failed: The node was lost." in notes


def test_the_rule_the_reasons_and_the_command_stand_below_it(found: NodesDocument) -> None:
    assert list(nodes.sentences(found)) == [
        "Tesla V100: median 1000.00 of 5 nodes, noise 0.1 %, slow is more than 3.0 % below.",
        (
            "gpu-4 is slow: It is 7.0 % below the median of 5 nodes; the limit is 3.0 %."
            " Its GPU 1 ran at 1110 MHz, another at 1290 MHz."
        ),
        "Check these nodes. To keep pods away from them (nothing was cordoned yet):",
        "  kubectl cordon gpu-4",
        "Not measured, and so not judged: gpu-5.",
    ]


def test_a_node_that_one_run_calls_slow_is_named_and_the_pool_is_not_called_healthy() -> None:
    made = checked([*(node(number) for number in range(5)), node(5, 930.0, fastest=None)])
    _, said = nodes.sentences(made)
    assert said.startswith("gpu-5 is not-judged: It is 7.0 % below")
    assert said.endswith(node_check.UNCONFIRMED)


def test_a_healthy_pool_is_said_to_be_one() -> None:
    made = checked([node(number) for number in range(5)])
    assert list(nodes.sentences(made))[-1] == "No node is slow or faulty."


def test_a_node_that_was_not_measured_is_not_called_healthy() -> None:
    figures = [node(number) for number in range(5)]
    made = checked([*figures, node(5, None, state="not-measured", why=("It was lost.",))])
    assert list(nodes.sentences(made))[1:] == [
        "No node that was measured is slow or faulty.",
        "Not measured, and so not judged: gpu-5.",
    ]


def test_why_nodes_are_not_judged_is_said_once() -> None:
    smoke = {"state": "not-judged", "why": ("A smoke run checks the path, not the speed.",)}
    made = checked([node(number, 7.992, **smoke) for number in range(5)])
    assert list(nodes.sentences(made))[-1] == "A smoke run checks the path, not the speed."
    assert "7.992" in tables.text([nodes.table(made)])


def test_csv_has_a_row_for_each_node_and_leaves_what_is_missing_empty(
    found: NodesDocument,
) -> None:
    header, *rows = formats.csv_text(nodes.flat(found)).splitlines()
    assert header.startswith("node,state,throughput,to_pool,sm_clock,power")
    assert rows[4].startswith("gpu-4,slow,930.0,")
    assert ",1200.0,,0.0,," in rows[4]
    assert rows[5].startswith("gpu-5,not-measured,,,,,,,")
