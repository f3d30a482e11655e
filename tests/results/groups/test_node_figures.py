"""Figures, reasons, faults and GPUs of runs pinned to nodes."""

from k8sbench.model.errors import Finding
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.measurement import GpuMetrics, GpuOfRun
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.results.groups import grouping, node_check
from k8sbench.results.groups.node_check import NodeFigures
from tests.results.report import factory

XID = Finding(id="xid-error", severity="warn", sentence="The driver reported XID 79 of GPU 0.")


def metrics(*clocks: float, ecc: float = 0.0) -> GpuMetrics:
    gpus = (
        GpuOfRun(
            gpu=Gpu(index=str(number), uuid=f"GPU-{number}"),
            figures={"sm_clock": clock, "ecc_errors": ecc, "gpu_utilization": 0.9},
        )
        for number, clock in enumerate(clocks)
    )
    return factory.gpu_metrics(*gpus, sm_clock=1.0, ecc_errors=1.0)


def figures(runs: list[Run]) -> list[NodeFigures]:
    names = list(dict.fromkeys(str(run.plan.node) for run in runs))
    return node_check.figures(names, grouping.groups(runs), runs)


def test_a_node_has_the_median_of_its_own_runs() -> None:
    runs = [*factory.repeats([1000, 1010, 990], node="a"), factory.run(900, node="b")]
    first, second = figures(runs)
    assert (first.throughput, second.throughput) == (1000, 900)
    assert (first.fastest, second.fastest) == (1010, None)
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


def test_gpus_that_were_slower_than_the_fastest_of_the_node_are_named() -> None:
    (found,) = figures([factory.run(1000, node="a", measured={"gpu_metrics": metrics(1290, 1110)})])
    assert found.slow_gpus == ("Its GPU 1 ran at 1110 MHz, another at 1290 MHz.",)
    (found,) = figures([factory.run(1000, node="a", measured={"gpu_metrics": metrics(1290, 1280)})])
    assert found.slow_gpus == ()
