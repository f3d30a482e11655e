"""Lines that state the rate of the job and that of one rank: NeMo Automodel, verl."""

from typing import Any

import pytest

from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids, lines_of, measured


def of(family: str, log: list[str], **expected: Any) -> Measurement:
    """Measure a log with the family's own warm-up."""
    known: dict[str, Any] = {"format": family, "gpus": None, "batch_size": None, "warmup": None}
    return measured(log, **known | expected)


def automodel(step: int, tokens: int = 16384, *, per_gpu: float | None = None) -> str:
    """A step of 2 s on four data-parallel ranks."""
    rate = tokens / 2
    share = rate / 4 if per_gpu is None else per_gpu
    return (
        f"2026-10-05 09:{step // 30:02d}:{2 * step % 60:02d} | INFO | root | step {step} | epoch 0"
        f" | loss 2.5000 | grad_norm 1.5436 | lr 1.00e-05 | mem 24.90 GiB | tps {rate:.2f}"
        f"({share:.2f}/gpu) | num_label_tokens {tokens // 2}"
    )


@pytest.mark.parametrize(("gpus", "reasons"), [(4, []), (8, []), (6, ["gpu-count"])])
def test_the_gpus_are_a_multiple_of_the_ranks_that_share_a_batch(
    gpus: int, reasons: list[str]
) -> None:
    found = of("automodel", [automodel(step) for step in range(60)], gpus=gpus)
    assert ids(found, "reject") == reasons
    assert found.rate == (8192.0 if not reasons else None)


@pytest.mark.parametrize("tail", ["", "(2048.00/gpu)", " | kd_ratio 0.50 | temperature 1.00"])
def test_the_rate_of_one_gpu_is_not_in_every_recipe_s_line(tail: str) -> None:
    lines = [automodel(step).partition("(")[0] + tail for step in range(60)]
    assert of("automodel", lines, gpus=4).rate == 8192.0


def test_two_rates_of_a_line_that_contradict_each_other_are_rejected() -> None:
    lines = [automodel(step, per_gpu=1500.0) for step in range(60)]
    assert ids(of("automodel", lines, gpus=4), "reject") == ["batch-mismatch"]


def test_steps_of_unequal_tokens_need_the_log_that_states_them() -> None:
    lines = [automodel(step, 16384 if step % 2 else 8192) for step in range(60)]
    assert ids(of("automodel", lines, gpus=4), "reject") == ["batch-unverified"]
    packed = [automodel(step, 16384 - 64 * (step % 2)) for step in range(60)]
    assert of("automodel", packed, gpus=4).verdict == "valid"


def test_steps_of_automodel_counted_from_1_in_2025() -> None:
    found = of("automodel", [automodel(step) for step in range(1, 60)], gpus=4)
    assert (found.verdict, found.rate) == ("valid", 8192.0)


def test_throughput_tokens_and_time_of_verl_tell_its_gpus() -> None:
    log = lines_of("verl.log")
    assert of("verl", log).gpus == 8
    assert ids(of("verl", log, gpus=4), "reject") == ["gpu-count"]
    half = [line.replace("perf/throughput:2", "perf/throughput:1") for line in log]
    assert ids(of("verl", half), "reject") == ["batch-mismatch"]


def test_a_job_of_verl_that_goes_on_with_other_gpus_is_rejected() -> None:
    log = lines_of("verl.log")
    fewer = [
        line.replace("perf/throughput:2500.000", "perf/throughput:5000.000").replace(
            "perf/throughput:1875.000", "perf/throughput:3750.000"
        )
        for line in log[20:]
    ]
    assert "gpu-count" in ids(of("verl", [*log[:20], *fewer]), "reject")


@pytest.mark.parametrize("number", ["40.0", "np.float64(40.0)", "4e+01"])
def test_verl_prints_numbers_as_python_does(number: str) -> None:
    log = [line.replace("step:40.000", f"step:{number}") for line in lines_of("verl.log")]
    assert of("verl", log).rate == pytest.approx(18_600_000 / 1040)
