"""Logs of programs that are recognised, and not read."""

import pytest

from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.errors import InputError
from k8sbench.reader import unread_programs
from k8sbench.reader.unread_programs import recognise
from tests.reader.measuring.support import Lines, judged, lines_of

LOGS = {
    "Composer (LLM Foundry)": [
        "[batch=10/4800]:",
        "\t Train time/batch: 9",
        "\t Train loss/train/total: 11.0112",
        "\t Train throughput/samples_per_sec: 82.5",
    ],
    "DLLogger": [
        "DLL 2026-10-05 09:00:00.123456 - PARAMETER train_batch_size : 64",
        "DLL 2026-10-05 09:01:00.123456 - Iteration: 20  loss : 2.5  throughput : 1200.0",
    ],
    "Ultralytics": [
        "Ultralytics 8.3.40 🚀 Python-3.11.10 torch-2.5.1 CUDA:0 (NVIDIA A100-SXM4-40GB, 40339MiB)",
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
        "      1/100      2.61G      1.153      1.398      1.192         81        640: 100%",
    ],
    "icefall": [
        (
            "2026-10-05 09:00:00,123 INFO [train.py:873] (0/4) Epoch 1, batch 0, loss[loss=7.9,"
            " over 4500.00 frames. ], tot_loss[loss=7.9, over 4500.00 frames. ], batch size: 18"
        ),
    ],
}
PREFIXES = ["", "[rank0]: ", "2026-10-05T09:00:00.123456789Z stdout F "]


def test_the_lines_of_each_program_hold_one_of_the_texts_that_are_looked_for() -> None:
    found = {
        needle
        for log in LOGS.values()
        for needle in unread_programs.NEEDLES
        if any(needle in line for line in log)
    }
    assert found == unread_programs.NEEDLES


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("title", LOGS)
def test_a_log_of_a_program_without_a_family_is_refused_by_its_name(
    title: str, prefix: str
) -> None:
    with pytest.raises(InputError) as caught:
        judged([Lines(f"{prefix}{line}" for line in LOGS[title])], MeasureOptions())
    assert f"is a log of {title}, which" in caught.value.message


@pytest.mark.parametrize("title", LOGS)
def test_lines_of_a_family_are_read_although_such_a_program_prints_beside_them(title: str) -> None:
    log = [*LOGS[title], *lines_of("torchtitan.log")]
    found = judged([Lines(log)], MeasureOptions())
    assert found.measurement.format == "torchtitan"


@pytest.mark.parametrize(
    "line",
    [
        "Train Epoch: 0 [64/199064 (0%)] Loss: 1.0000",
        "\t Train the model on eight GPUs",
        "pip install dllogger DLL",
        "Thanks to Ultralytics for YOLO",
        "tot_loss[0] is the first of them",
    ],
)
def test_a_line_that_only_mentions_a_program_is_none_of_it(line: str) -> None:
    assert recognise(line) is None
