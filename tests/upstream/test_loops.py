"""Libraries' training loops in users' scripts; rows match the logs."""

import re

import pytest

from tests.upstream.runs import BATCH, ITERATIONS, PROGRAMS, TOTAL, Bench

pytestmark = pytest.mark.timeout(1500)
WORDS = ("{batch_size}", "{total_iterations}")


def test_the_trainer_of_hugging_face_by_its_summary(bench: Bench) -> None:
    log = {
        "name": "hf-trainer",
        "unit": "samples/s",
        "per": "job",
        "summary": r"'train_samples_per_second': '(?P<rate>[\d.]+)'",
    }
    run = bench.submit(["python3", PROGRAMS / "hf_train.py", *WORDS], log)
    (seconds,) = re.findall(r"'train_runtime': '([\d.]+)'", run.log)
    assert run.row["throughput"] == pytest.approx(BATCH * TOTAL / float(seconds), rel=0.01)


def test_lightning_by_lines_of_the_script_s_own(bench: Bench) -> None:
    log = {
        "name": "lightning",
        "unit": "samples/s",
        "per": "job",
        "record": r"^step (?P<iteration>\d+) (?P<step_seconds>[\d.]+) s loss (?P<loss>[\d.]+)",
    }
    run = bench.submit(["python3", PROGRAMS / "lightning_train.py", *WORDS], log)
    seconds = run.numbers(r"^step \d ([\d.]+) s")
    assert run.row["throughput"] == pytest.approx(BATCH * ITERATIONS / sum(seconds), rel=1e-3)
