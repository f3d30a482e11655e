"""What is taken of the runs that were pinned to nodes: figures, reasons, faults, GPUs."""

from __future__ import annotations

from typing import Any

from k8sbench.measure.group import grouping, node_check
from k8sbench.measure.group.node_check import NodeRow
from k8sbench.model.finding import Finding
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.measurement import GpuFigure, GpuMetrics, GpuOfRun
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit.report import factory

XID = Finding(id="xid-error", severity="warn", sentence="The driver reported XID 79 of GPU 0.")


def figure(**codes: Any) -> GpuFigure:
    return GpuFigure(value=1.0, unit="", source="prometheus", coverage=1.0, samples=9, **codes)


def metrics(*clocks: float, ecc: float = 0.0, codes: tuple[int, ...] = ()) -> GpuMetrics:
    return GpuMetrics(
        figures={"sm_clock": figure(), "ecc_errors": figure(), "xid": figure(codes=codes)},
        gpus=tuple(
            GpuOfRun(
                gpu=Gpu(index=str(number), uuid=f"GPU-{number}"),
                figures={"sm_clock": clock, "ecc_errors": ecc, "gpu_utilization": 0.9},
            )
            for number, clock in enumerate(clocks)
        ),
    )


def figures(runs: list[Run]) -> list[NodeRow]:
    names = list(dict.fromkeys(str(run.plan.node) for run in runs))
    return node_check.figures(names, grouping.groups(runs), runs)


def test_a_node_has_the_median_of_its_own_runs() -> None:
    runs = [*factory.repeats([1000, 1010, 990], node="a"), factory.run(900, node="b")]
    first, second = figures(runs)
    assert (first.throughput, second.throughput) == (1000, 900)
    assert first.alike == (factory.V100_16, "fp32", "time_weighted")


def test_a_node_without_a_figure_says_why() -> None:
    failed = factory.run(phase=Phase.FAILED, node="a")
    rejected = factory.run(
        node="b", measured={"reasons": (factory.reject("gpu-shared", "Somebody used GPU 0."),)}
    )
    first, second = figures([failed, rejected])
    assert (first.throughput, first.state) == (None, "not-measured")
    assert first.why[0].startswith("run-failed: ")
    # Who shares a GPU is no fault of the node.
    assert (second.state, second.why) == ("not-measured", ("gpu-shared: Somebody used GPU 0.",))


def test_a_node_whose_runs_are_in_no_group_has_the_state_of_the_first_without_success() -> None:
    done = factory.run(node="a", unmeasured=True)
    waiting = factory.run(phase=Phase.RUNNING, node="a", repeat=2)
    (found,) = node_check.figures(["a"], [], [done, waiting])
    assert found.why == (f"Running: {waiting.history[-1].cause}",)
    (found,) = node_check.figures(["a"], [], [])
    assert found.why == ("No run of it was started.",)


def test_faults_are_of_the_gpus_also_of_rejected_and_failed_measurements() -> None:
    held = factory.reject("gpu-throttled", "Heat held GPU 3 down.")
    first, second, third = figures(
        [
            factory.run(1000, node="a", measured={"reasons": (XID,)}),
            factory.run(node="b", measured={"reasons": (held,)}),
            factory.run(1000, node="c", measured={"gpu_metrics": metrics(1290, ecc=2)}),
        ]
    )
    assert {row.state for row in (first, second, third)} == {"faulty"}
    assert first.why == (XID.sentence,)
    assert (second.throughput, second.why) == (None, (held.sentence,))
    assert third.why == ("GPU 0 had 2 memory errors that ECC could not correct.",)


def test_an_accepted_reason_is_no_fault() -> None:
    accepted = factory.changed(XID, accepted=True)
    (found,) = figures([factory.run(1000, node="a", measured={"reasons": (accepted,)})])
    assert (found.state, found.why) == ("ok", ())


def test_smoke_runs_are_not_judged() -> None:
    (found,) = figures([factory.smoke(10, node="a")])
    assert (found.state, found.alike) == ("not-judged", ())


def test_each_gpu_of_a_node_has_its_figures_and_what_is_missing_its_reason() -> None:
    missing = {"gpu_metrics.power": "The exporter does not give it."}
    measured = {"gpu_metrics": metrics(1290, 1110, codes=(79,)), "missing": missing}
    (found,) = figures([factory.run(1000, node="a", measured=measured)])
    assert [one.gpu.index for one in found.gpus] == ["0", "1"]
    assert [one.figures["sm_clock"] for one in found.gpus] == [1290, 1110]
    assert not any("power" in one.figures for one in found.gpus)
    assert found.xid == (79,)
    assert found.missing["power"] == "The exporter does not give it."
    assert "sm_clock" not in found.missing


def test_without_metrics_every_one_has_the_reason_and_none_is_zero() -> None:
    why = {"missing": {"gpu_metrics": "No Prometheus was found."}}
    runs = [factory.run(1000, node="a", measured=why), factory.run(phase=Phase.FAILED, node="b")]
    first, second = figures(runs)
    assert (first.gpus, first.xid) == ((), None)
    assert set(first.missing.values()) == {"No Prometheus was found."}
    assert set(second.missing.values()) == {"It was not measured."}
