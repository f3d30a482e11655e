"""Logs of Megatron-LM, torchtitan and nanoGPT, by the formats that docs/examples declares."""

import re
from typing import Any

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import Measurement
from tests.tiers import ROOT
from tests.unit.measure import support

Edits = dict[str, str]
"""Pattern → text in its place, in each line of a log."""
TITAN_OF_2024 = {r"\x1b\[[\d;]+m|\[titan\] |grad_norm: +\S+ +|tflops: \S+ +": "", "tps": "wps"}
TITAN_OF_2026 = {
    r"Building 1-D .*": "Building device mesh with parallelism: "
    "pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1",
    r"local batch size 1, global batch size 8": "8192 tokens per DP rank, 65536 tokens per train "
    "step",
    r"sequence length": "maximum context length",
    r"Saving the checkpoint .*": "Staging the checkpoint.",
    r"(loss: +[\d.]+)(?= .*grad)": r"\g<1>0",
}
UNSTAMPED = {r"^ \[.*?\]": "", r" throughput per GPU .*?\|": ""}


def measured(example: str, log: str, edits: Edits, **expected: Any) -> Measurement:
    """Measure a log of eight GPUs, whose first twenty iterations were slow."""
    (variant,) = catalog.find(str(ROOT / "docs" / "examples" / f"{example}.yaml")).spec.variants
    assert isinstance(variant.log, LogFormat)
    lines = support.lines_of(log)
    for pattern, text in edits.items():
        lines = [re.sub(pattern, text, line) for line in lines]
    known = {"format": variant.log, "unit": "tokens", "gpus": 8, "batch_size": None, "warmup": 20}
    return support.measured(lines, **known | expected)


@pytest.mark.parametrize(
    ("example", "log", "edits", "rate", "batch"),
    [
        # 64 sequences of 1024 tokens in 512 ms.
        ("megatron-gpt", "megatron_lm.log", {}, 128_000, 8),
        ("megatron-gpt", "megatron_lm.log", UNSTAMPED, 128_000, 8),
        # Where all steps of a line were skipped, it has no loss.
        ("megatron-gpt", "megatron_lm.log", {r" lm loss: 1.09\S+ \|": ""}, 128_000, 8),
        # 7,000 tokens/s on each of eight GPUs.
        ("torchtitan-llama3", "torchtitan.log", {}, 56_000, 1),
        ("torchtitan-llama3", "torchtitan.log", TITAN_OF_2024, 56_000, 1),
        ("torchtitan-llama3", "torchtitan.log", TITAN_OF_2026, 56_000, 1),
        # 96 sequences of 1024 tokens in 128 ms; two lines hold an evaluation of 20 s, too.
        ("nanogpt", "nanogpt.log", {}, 768_000, 12),
        ("nanogpt", "nanogpt.log", {", mfu .*": ""}, 768_000, 12),
        # With its usual 40 batches of each step.
        ("nanogpt", "nanogpt.log", {"98,304": "491,520"}, 3_840_000, 60),
    ],
)
def test_tokens_per_second_are_those_of_the_whole_job(
    example: str, log: str, edits: Edits, rate: float, batch: int
) -> None:
    found = measured(example, log, edits)
    assert support.ids(found, "reject") == []
    assert found.rate == pytest.approx(rate)
    assert found.throughput is not None
    assert (found.throughput.unit, found.batch_size_per_gpu) == ("tokens/s", batch)
    assert found.final_loss == pytest.approx({"nanogpt": 8.7}.get(example, 9.6))


def test_what_the_programs_state_of_their_runs_is_read() -> None:
    found = measured("megatron-gpt", "megatron_lm.log", {}, gpus=None)
    assert (found.gpus, found.amp_dtype) == (8, "bf16")
    for edits in ({}, TITAN_OF_2026):
        found = measured("torchtitan-llama3", "torchtitan.log", edits, gpus=None)
        assert (found.gpus, found.gpu_model) == (8, "NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("example", "log", "edits", "expected"),
    [
        # Another batch than was asked for, or one that grows.
        ("megatron-gpt", "megatron_lm.log", {}, {"batch_size": 16}),
        ("nanogpt", "nanogpt.log", {"98,304": "491,520"}, {"batch_size": 12}),
        ("megatron-gpt", "megatron_lm.log", {r"(: 9.6.*size: +)64|64( .*: 9.6)": r"128\2"}, {}),
    ],
)
def test_the_batch_of_the_log_decides(
    example: str, log: str, edits: Edits, expected: dict[str, Any]
) -> None:
    found = measured(example, log, edits, **expected)
    assert "batch-mismatch" in support.ids(found, "reject")
