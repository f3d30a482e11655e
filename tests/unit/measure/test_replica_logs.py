"""Logs of four replicas of one job, whichever of them print its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sbench.app import imports
from k8sbench.measure.run.expectation import MeasureOptions
from k8sbench.model.measurement import Measurement
from tests.unit.measure.support import lines_of


def measured(folder: Path, logs: list[list[str]]) -> Measurement:
    for number, lines in enumerate(logs):
        (folder / f"node-{number}.log").write_text("\n".join([*lines, ""]))
    options = MeasureOptions(case="4x2", precision="amp", one_run=True)
    (found,), failures = imports.measure([str(folder)], options)
    assert failures == []
    return found.measurement


def test_equal_lines_of_all_replicas_are_one_record(tmp_path: Path) -> None:
    lines = lines_of("torchtitan.log")
    alone = measured(tmp_path, [lines, *([["joined"]] * 3)])
    logs = [[line.replace("[rank0]", f"[rank{rank}]") for line in lines] for rank in range(4)]
    sharded = measured(tmp_path, logs)
    assert sharded.rate == alone.rate == pytest.approx(56_000)
    assert sharded.records == alone.records


@pytest.mark.parametrize(
    ("log", "printing", "rate"),
    [("megatron_2026.log", 3, 279 * 64 / 141.5), ("deepspeed.log", 0, 280 * 128 / 190)],
)
def test_the_steps_of_the_replica_that_prints_them_are_the_job_s(
    tmp_path: Path, log: str, printing: int, rate: float
) -> None:
    # Megatron's last pipeline stage prints; DeepSpeed's line names the micro-batch and the step.
    logs = [["joined"]] * 4
    logs[printing] = lines_of(log)
    found = measured(tmp_path, logs)
    assert found.rate == pytest.approx(rate)
    assert found.gpus == 8
