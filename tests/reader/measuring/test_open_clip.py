"""Logs of open_clip: counts of samples, and means of a step since the line before."""

from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.errors import InputError
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids, lines_of, measured


def of(lines: Sequence[str], **known: Any) -> Measurement:
    given: dict[str, Any] = {"gpus": None, "batch_size": None, "warmup": None}
    return measured(lines, format="open-clip", **given | known)


def training_lines(name: str) -> list[str]:
    return [line for line in lines_of(name) if "Train Epoch: 0" in line]


def test_the_first_line_of_an_epoch_counts_the_samples_of_one_step() -> None:
    found = of(training_lines("open_clip_2022.log"), gpus=4)
    assert (found.batch_size_per_gpu, found.window and found.window.last_iteration) == (128, 1050)


def test_the_two_rates_of_a_line_tell_the_gpus() -> None:
    lines = training_lines("open_clip_2023.log")
    assert of(lines).gpus == 8
    assert "gpu-count" in ids(of(lines, gpus=4, by_user=True), "reject")


def test_rates_of_a_line_that_no_number_of_gpus_explains_are_refused() -> None:
    lines = [
        line.replace("213.333/s/gpu", "200.000/s/gpu") for line in lines_of("open_clip_2023.log")
    ]
    assert "batch-mismatch" in ids(of(lines), "reject")


def test_another_batch_than_the_log_s_is_refused() -> None:
    lines = training_lines("open_clip_2023.log")
    found = of(lines, gpus=8, batch_size=64, by_user=True)
    assert {"batch-mismatch", "batch-size"} & set(ids(found, "reject"))
    head = [x.replace("accum_freq: 2", "accum_freq: 4") for x in lines_of("open_clip_2023.log")]
    assert "batch-mismatch" in ids(of(head), "reject")


def test_an_excerpt_asks_for_the_samples_of_a_step() -> None:
    lines = training_lines("open_clip_2022.log")[3:]
    with pytest.raises(InputError, match="--batch-size"):
        of(lines, gpus=4)
    assert of(lines, gpus=4, batch_size=128).batch_size_per_gpu == 128


@pytest.mark.parametrize("old", ["Batch (t): 0.400", "Batch (t): 0.800"])
def test_a_mean_that_the_stamps_contradict_is_refused(old: str) -> None:
    new = f"Batch (t): {float(old[-5:]) / 4:.3f}"
    lines = [line.replace(old, new) for line in lines_of("open_clip_2022.log")]
    assert "clock-mismatch" in ids(of(lines), "reject")


def test_means_of_a_shorter_window_than_the_lines_are_of_the_last_steps() -> None:
    """The lines of June 2026 look like those before; the options in the head tell."""
    log = lines_of("open_clip_2026.log")
    # The last ten steps before each line were faster than the others.
    faster = [line.replace("Batch (t): 0.400", "Batch (t): 0.300") for line in log]
    assert of(faster).rate == pytest.approx(of(log).rate)
    head = [
        line.replace("metric_every_n_steps: 10", "metric_every_n_steps: 100") for line in faster
    ]
    assert "clock-mismatch" in ids(of(head), "reject")
