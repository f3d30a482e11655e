"""Logs of four replicas of one job, whichever of them print its steps."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import Lines, judged, lines_of


def measured(logs: list[list[str]]) -> Measurement:
    """Measure four logs as one run's."""
    named = [Lines(lines, f"node-{number}.log") for number, lines in enumerate(logs)]
    return judged(named, MeasureOptions(case="4x2", precision="amp", one_run=True)).measurement


Printed = Callable[[int], list[str]]
"""Lines of a replica, by its number."""


def of_hf_trainer(rank: int) -> list[str]:
    """Each node of a data-parallel job prints; its own clock times the whole."""
    head = [
        "***** Running training *****",
        "  Num examples = 102,400",
        "  Instantaneous batch size per device = 8",
        "  Total train batch size (w. parallel, distributed & accumulation) = 512",
        "  Gradient Accumulation steps = 8",
        "  Total optimization steps = 200",
    ]
    steps = [f"{{'loss': {11 - n / 100:.4f}, 'epoch': {n / 200}}}" for n in range(10, 201, 10)]
    seconds = 400 + rank / 100
    rates = f"'train_samples_per_second': {102_400 / seconds:.3f}"
    return [*head, *steps, f"{{'train_runtime': {seconds}, {rates}, 'epoch': 1.0}}"]


def of_torchtitan(rank: int) -> list[str]:
    """The first rank of each node prints its own, of sharded data parallelism."""
    return [one.replace("[rank0]", f"[rank{2 * rank}]") for one in lines_of("torchtitan.log")]


def of_torchtitan_in_stages(rank: int) -> list[str]:
    """Tensor × pipeline parallelism: twelve sequences a step, accumulated, on eight GPUs."""
    batch = "global batch size 12, gradient accumulation steps 12"
    lines = "\n".join(of_torchtitan(rank))
    lines = lines.replace("['dp_shard'], [8]", "['pp', 'tp'], [4, 2]")
    lines = lines.replace("global batch size 8, gradient accumulation steps 1", batch)
    return lines.replace("tps: 7,000", "tps: 10,500").splitlines()


def of_megatron_in_stages(_: int) -> list[str]:
    """The same of Megatron-LM."""
    lines = "\n".join(lines_of("megatron_2026.log"))
    lines = re.sub("(data-parallel size:) 8", r"\1 1", lines)
    lines = re.sub("(tensor-model-parallel size:) 1", r"\1 2", lines)
    lines = re.sub("(pipeline-model-parallel size:) 1", r"\1 4", lines)
    lines = re.sub(r"(global.batch.size[ .:]+) 64", r"\1 12", lines)
    lines = re.sub(r"(micro_batch_size \.+) 4", r"\1 1", lines)

    def consumed(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) // 64 * 12}"

    return re.sub(r"(consumed samples: +)(\d+)", consumed, lines).splitlines()


def of_deepspeed(_: int) -> list[str]:
    """A line numbers the micro-batches and the step; two make a step."""
    return lines_of("deepspeed.log")


@pytest.mark.parametrize(
    ("printed", "printing", "rate", "batch"),
    [
        (of_hf_trainer, 0, 256.0, 64),
        (of_torchtitan, 0, 56_000.0, 1),
        (of_torchtitan_in_stages, 3, 84_000.0, 1.5),
        (of_megatron_in_stages, 3, 280 * 12 / 142, 1.5),
        (of_deepspeed, 0, 280 * 128 / 190, 16),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_step_counts_once_whether_one_replica_prints_it_or_all_four(
    printed: Printed, printing: int, rate: float, batch: float
) -> None:
    logs = [["joined"]] * 4
    logs[printing] = printed(printing)
    alone = measured(logs)
    everybody = measured([printed(rank) for rank in range(4)])
    for found in (alone, everybody):
        assert found.rate == pytest.approx(rate)
        assert (found.gpus, found.batch_size_per_gpu) == (8, batch)
    assert everybody.records == alone.records
    assert everybody.iterations == alone.iterations
