"""A figure above what the GPU can do is rejected wherever a log is measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.measure.run import expectation
from k8sbench.model.spec import Fingerprint
from tests.unit.measure.support import Lines, ids, lines_of, measured, run
from tests.unit.measure.test_own_runs import PLAN
from tests.unit.report.factory import changed

V100, A100 = "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB"
MODEL = Fingerprint(model="DeepLabV3+", parameters=43_589_878, gmac=371.7, input="3×512×1024")
"""8 samples/s of it are 17.8 TFLOP/s."""


def of_gpu(gpu: str | None, seconds: float = 0.5, **expected: Any) -> list[str]:
    head = [] if gpu is None else [f"GPU 0: {gpu}"]
    return ids(measured([*head, *run([seconds] * 8)], fingerprint=MODEL, **expected))


@pytest.mark.parametrize(
    ("gpu", "precision", "seconds", "is_above"),
    [
        (V100, "fp32", 0.5, True),  # 15.7
        (V100, "fp32", 0.6, False),
        (V100, "amp", 0.5, False),  # 125
        (V100, "amp", 0.05, True),
        (V100, None, 0.5, False),  # it may have been AMP
        (V100, None, 0.05, True),
        (A100, "fp32", 0.4, False),  # 156: TF32 may have been on
        (A100, "fp32", 0.05, True),
        ("Mystery 1", "fp32", 0.001, False),
        (None, "fp32", 0.001, False),
    ],
)
def test_the_limit_is_that_of_the_gpu_in_the_format_that_may_have_been_used(
    gpu: str | None, precision: str | None, seconds: float, is_above: bool
) -> None:
    found = of_gpu(gpu, seconds, precision=precision)
    assert ("above-peak" in found) is is_above


def test_the_gpu_that_is_given_counts_where_the_log_states_none() -> None:
    assert "above-peak" in of_gpu(None, precision="fp32", gpu_model=V100)
    assert "above-peak" not in of_gpu(A100, precision="fp32", gpu_model=V100)


def test_a_smoke_run_and_a_benchmark_without_a_known_model_are_not_judged() -> None:
    assert "above-peak" not in of_gpu(V100, precision="fp32", smoke=True)
    lines = [f"GPU 0: {V100}", *run([0.5] * 8)]
    assert "above-peak" not in ids(measured(lines, precision="fp32"))


def test_of_our_own_trainers_tf32_is_off_unless_they_say_that_it_was_on() -> None:
    def fast(**options: bool) -> list[str]:
        expected = {"format": "k8sbench", "gpus": 2, "fingerprint": SMALL, "gpu_model": A100}
        return ids(measured(Lines(own_log(**options)), **expected))

    assert "above-peak" in fast(tf32=False)
    assert "above-peak" not in fast(tf32=True)


SMALL = Fingerprint(model="any", parameters=43_589_878, gmac=1000.0, input="any")
"""8 samples/s of it on two GPUs are 24 TFLOP/s of each: above FP32, below TF32."""


def own_log(**options: bool) -> list[str]:
    """The fixture's log, as if it were of a full run on GPUs."""
    found = []
    for line in lines_of("k8sbench_master.log"):
        head, mark, text = line.partition("K8SBENCH ")
        if mark:
            event = json.loads(text)
            if event["event"] == "start":
                event |= {"preset": "full", "device": "cuda"}
                event |= {"precision": "fp32", "precision_effective": "fp32"}
                event["options"] |= options
            if event["event"] == "summary":
                event["parameters"] = SMALL.parameters
            text = json.dumps(event)
        found.append(f"{head}{mark}{text}")
    return found


def test_a_planned_run_is_held_against_its_model_and_the_gpu_of_its_pool() -> None:
    spec = catalog.find("resnet50").spec
    variant = spec.default_variant("pytorch")
    assert variant is not None
    plan = changed(PLAN, fingerprint=variant.fingerprint, pool=changed(PLAN.pool, gpu_model=V100))
    expected = expectation.from_plan(changed(plan, device="cuda"))
    assert (expected.fingerprint, expected.gpu_model) == (variant.fingerprint, V100)
    assert expectation.from_plan(changed(plan, device="cpu")).gpu_model is None
