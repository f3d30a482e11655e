"""Figures of logs of language models, MLPerf and vision references, by hand beside each."""

from typing import Any

import pytest

from tests.reader.measuring.support import figure, fixture, ids, measured

TOKENS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # 8 GPUs, 64 sequences of 1024 tokens: 0.5 s per step, once 0.7 s. The first step has a line of
    # its own, nine steps before the next. Stamps: from 30 to 300, with an evaluation of 10 s.
    "megatron_2026.log": (
        "megatron",
        {},
        {
            "iterations": 280,
            "time_weighted": 280 * 64 / (270 * 0.5 + 10 * 0.7),
            "tokens_per_second": 1024 * 280 * 64 / 142,
            "median": 128.0,
            "timestamps": 270 * 64 / (260 * 0.5 + 7 + 10),
            "tflops_by_program": (270 * 400 + 10 * 285.7) / 280,
            "gpus": 8,
            "batch_size_per_gpu": 8,
            "amp_dtype": "bf16",
            "warmup_iterations": 20,
        },
    ),
    # 64 GPUs share 32 sequences, 16 of them a replica: 2 s, and 6 s with a checkpoint.
    "megatron_2021.log": (
        "megatron",
        {},
        {
            "time_weighted": 280 * 32 / (270 * 2 + 10 * 6),
            "time_weighted_steady": 16.0,
            "tokens_per_second": 2048 * 280 * 32 / 600,
            "timestamps": None,
            "gpus": 64,
            "batch_size_per_gpu": 0.5,
            "amp_dtype": "fp16",
        },
    ),
    # Seconds, not milliseconds. 16 sequences in 1 s up to step 200, then 32 in 1.6 s.
    "megatron_deepspeed_2022.log": (
        "megatron",
        {},
        {
            "time_weighted": (180 * 16 + 200 * 32) / (180 * 1.0 + 200 * 1.6),
            "tokens_per_second": 2048 * 18.56,
            "tflops_by_program": 100.0,
            "gpus": 8,
        },
    ),
    # 64 sequences of the job: 2 s, and 4 s with the evaluation. Two more programs print the same
    # steps at other rates.
    "gpt_neox.log": (
        "megatron",
        {},
        {
            "time_weighted": 380 * 64 / (370 * 2 + 10 * 4),
            "tokens_per_second": 2048 * 380 * 64 / 780,
            "tflops_by_program": (370 * 100 + 10 * 50) / 380,
            "gpus": 8,
            "batch_size_per_gpu": 8,
        },
    ),
    # 41 steps from 0, each with its own time; a quarter is left out. 128 sequences in 2 s, once 3.
    "nemo_2.log": (
        "nemo",
        {},
        {
            "time_weighted": 31 * 128 / (30 * 2 + 3),
            "tokens_per_second": 4096 * 31 * 128 / 63,
            "gpus": 8,
            "batch_size_per_gpu": 16,
            "warmup_iterations": 10,
        },
    ),
    # A bar, each step twice, with means of five: 40 s, then 2 s, and 7 s for step 26.
    "nemo_1.log": (
        "nemo",
        {},
        {
            "time_weighted": 30 * 128 / (29 * 2 + 7),
            "iterations": 30,
            "gpus": 8,
            "batch_size_per_gpu": 16,
            "warmup_iterations": 10,
        },
    ),
    # 8,000 tokens/s on each of 8 GPUs, once 4,000 with a checkpoint; 280 steps. A validation
    # prints a rate, too.
    "torchtitan_2024.log": (
        "torchtitan",
        {},
        {
            "time_weighted": 8 * 280 / (270 / 8000 + 10 / 4000),
            "time_weighted_steady": 64000.0,
            "tokens_per_second": 8 * 280 / (270 / 8000 + 10 / 4000),
            "mfu_by_program": (270 * 40 + 10 * 20) / 280,
            "gpus": 8,
            "batch_size_per_gpu": 1,
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "unit": "tokens/s",
        },
    ),
    # 98,304 tokens of the job in 128 ms; two of the printed steps hold an evaluation of 20 s.
    "nanogpt.log": (
        "nanogpt",
        {"gpus": 8},
        {
            "printed_steps": 98304 / 0.128,
            "tokens_per_second": 98304 / 0.128,
            "estimator": "printed_steps",
            "mfu_by_program": 17.2,
            "unit": "tokens/s",
            "warmup_iterations": 20,
        },
    ),
    # 524,288 tokens in 1.024 s, once in twice that; the step behind an evaluation is left out.
    "nanochat.log": (
        "nanochat",
        {},
        {
            "time_weighted": 29 * 524288 / (30 * 1.024),
            "tokens_per_second": 29 * 524288 / (30 * 1.024),
            "mfu_by_program": (28 * 40 + 20) / 29,
            "gpus": 8,
            "batch_size_per_gpu": 32,
            "sequence_length": "2048",
            "unit": "tokens/s",
            "warmup_iterations": 10,
        },
    ),
    # 524,288 tokens in 512 ms, once in twice that. The printed tokens per second are smoothed.
    "llm_c.log": (
        "llm.c",
        {},
        {
            "time_weighted": 30 * 524288 / (31 * 0.512),
            "tokens_per_second": 30 * 524288 / (31 * 0.512),
            "mfu_by_program": 50.0,
            "gpus": 8,
            "batch_size_per_gpu": 64,
            "amp_dtype": "bf16",
            "gpu_model": "NVIDIA A100-SXM4-80GB",
            "accuracy.final": 0.248954,
        },
    ),
    "llm_c_readme.log": (
        "llm.c",
        {},
        {"time_weighted": 524288 / 2.56, "gpus": 1, "batch_size_per_gpu": 512},
    ),
    # 524,288 tokens in 0.2 s, once 0.4 s. The timer begins anew behind step 10, in the warm-up.
    "modded_nanogpt.log": (
        "modded-nanogpt",
        {},
        {
            "time_weighted": 30 * 524288 / (29 * 0.2 + 0.4),
            "iterations": 30,
            "gpus": 8,
            "batch_size_per_gpu": 64,
            "unit": "tokens/s",
            "warmup_iterations": 15,
        },
    ),
    # The source's stages of 18, 18, 18 and 6 steps: 131,072 tokens in 0.1 s, twice as many in
    # 0.25 s, three times in 0.3 s, four times in 0.4 s. A quarter of the steps is the warm-up.
    "modded_nanogpt_schedule.log": (
        "modded-nanogpt",
        {"gpus": 8},
        {
            "time_weighted": 131072 * (3 + 18 * 2 + 18 * 3 + 6 * 4) / (0.3 + 4.5 + 5.4 + 2.4),
            "median": None,
            "iterations": 45,
            "batch_size_per_gpu": None,
            "unit": "tokens/s",
        },
    ),
    # 2,000 tokens/s on each of 2 GPUs, once 1,000.
    "torchtune.log": (
        "torchtune",
        {"gpus": 2},
        {
            "time_weighted": 2 * 20 / (19 / 2000 + 1 / 1000),
            "tokens_per_second": 2 * 20 / (19 / 2000 + 1 / 1000),
            "batch_size_per_gpu": None,
            "unit": "tokens/s",
            "warmup_iterations": 20,
        },
    ),
    # 16,384 tokens of 8 GPUs, of which two share a sample, in 2 s; the step of 12 s behind a
    # validation is left out.
    "automodel.log": (
        "automodel",
        {},
        {
            "time_weighted": 8192.0,
            "iterations": 40,
            "gpus": 8,
            "data_parallel": "4",
            "batch_size_per_gpu": None,
            "unit": "tokens/s",
            "warmup_iterations": 20,
        },
    ),
    # 8,192 tokens in 1.5 s and 16,384 in 2 s by turns, once in 11 s.
    "automodel.jsonl": (
        "automodel",
        {"gpus": 8},
        {
            "time_weighted": (21 * 8192 + 20 * 16384) / (21 * 1.5 + 19 * 2 + 11),
            "median": None,
            "tokens_per_second": (21 * 8192 + 20 * 16384) / 80.5,
            "iterations": 41,
            "window.seconds": 80.5,
            "memory_mib": 24.5 * 1024,
        },
    ),
    # 600,000 tokens of 8 GPUs in 40 s and 1,000,000 in 50 s by turns; two steps with a validation
    # do not count. A quarter of 60 planned steps is the warm-up.
    "verl.log": (
        "verl",
        {},
        {
            "time_weighted": (11 * 600_000 + 12 * 1_000_000) / (11 * 40 + 12 * 50),
            "median": None,
            "gpus": 8,
            "iterations": 23,
            "window.seconds": 1040.0,
            "warmup_iterations": 15,
        },
    ),
    # 8 GPUs, 32 sequences of 2048 tokens in 2 s, once in 4 s.
    "maxtext.log": (
        "maxtext",
        {},
        {
            "time_weighted": 30 * 32 * 2048 / (29 * 2 + 4),
            "tflops_by_program": (29 * 200 + 100) / 30,
            "gpus": 8,
            "batch_size_per_gpu": 4,
            "amp_dtype": "bf16",
            "unit": "tokens/s",
            "framework": "jax",
            "warmup_iterations": 10,
        },
    ),
    # The same without its tokens, which the head gives.
    "maxtext_2023.log": (
        "maxtext",
        {},
        {
            "time_weighted": 30 * 32 * 2048 / (29 * 2 + 4),
            "batch_size_per_gpu": 4,
            "unit": "tokens/s",
        },
    ),
    # 4,000 tokens/s on each of 8 GPUs, once 2,000; the first step has none.
    "olmo.log": (
        "olmo",
        {"gpus": 8},
        {
            "time_weighted": 8 * 30 / (29 / 4000 + 1 / 2000),
            "tokens_per_second": 8 * 30 / (29 / 4000 + 1 / 2000),
            "batch_size_per_gpu": None,
            "unit": "tokens/s",
            "warmup_iterations": 10,
        },
    ),
    # 122,880 tokens at each fourth line, else 81,920; 20 s for a line, once 40 s.
    "llama_factory.jsonl": (
        "llama-factory",
        {"gpus": 8},
        {
            "time_weighted": (28 * 81920 + 10 * 122880) / (37 * 20 + 40),
            "batch_size_per_gpu": None,
            "unit": "tokens/s",
        },
    ),
}
SAMPLES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # 128 samples of the job. The mean is of the steps behind the second: behind 20 they take 0.5 s,
    # those of 101–200 1 s.
    "deepspeed.log": (
        "deepspeed",
        {},
        {
            "time_weighted": 280 * 128 / (180 * 0.5 + 100 * 1.0),
            "timestamps": 270 * 128 / (170 * 0.5 + 100 * 1.0),
            "median": 256.0,
            "gpus": 8,
            "batch_size_per_gpu": 16,
            "amp_dtype": "fp16",
            "tokens_per_second": None,
        },
    ),
    # Means since the line before: 0.5 s, once 1 s.
    "deepspeed_pipeline.log": (
        "deepspeed",
        {},
        {"time_weighted": 280 * 128 / (270 * 0.5 + 10 * 1.0), "gpus": 8, "batch_size_per_gpu": 16},
    ),
    # 64 samples of the job. The bars at 29, 39, …, 399 are 60 s apart, once 120 s; an evaluation of
    # 30 s is left out.
    "hf_trainer_running.log": (
        "hf-trainer",
        {"gpus": 8},
        {
            "time_weighted": 370 * 64 / (36 * 60 + 120),
            "iterations": 370,
            "batch_size_per_gpu": 8,
            "warmup_iterations": 20,
        },
    ),
    # 32 samples: 20 s a step, once 30 s; an evaluation of 60 s is left out. Dictionaries at each
    # fifth step, without a progress bar.
    "ms_swift.log": (
        "hf-trainer",
        {"gpus": 8, "batch_size": 4},
        {
            "time_weighted": 180 * 32 / (179 * 20 + 30),
            "iterations": 180,
            "window.seconds": 3610.0,
            "warmup_iterations": 20,
        },
    ),
    # Blocks of 1,024 sequences, 32 a step, at 64/s, once at 32/s; the first is the warm-up.
    "mlperf_throughput.log": (
        "mlperf",
        {"gpus": 8},
        {
            "time_weighted": 29 * 1024 / (28 * 16 + 32),
            "tokens_per_second": 8192 * 29 * 1024 / 480,
            "batch_size_per_gpu": 4,
            "warmup_iterations": 1,
            "iterations": 29 * 32,
            "window.seconds": 480.0,
        },
    ),
    # 8 sequences a step, in 1 s by the statements of blocks, once 2 s. Those of steps are not read.
    "mlperf_step_time.log": (
        "mlperf",
        {"gpus": 8},
        {
            "time_weighted": 29 * 8 / (28 * 1 + 2),
            "records": 29,
            "batch_size_per_gpu": 1,
            "iterations": 29 * 48,
            "window.seconds": 48.0 * (28 * 1 + 2),
        },
    ),
    # 1,000 images/s on each of 8 GPUs; the first epoch is the warm-up. Events count epochs.
    "mlperf_retinanet.log": (
        "mlperf",
        {"gpus": 8},
        {
            "time_weighted": 8000.0,
            "records": 6,
            "batch_size_per_gpu": 32,
            "window.seconds": 6 * 1_170_301 / 8000,
        },
    ),
    # 8 GPUs × 32. The first step of an epoch takes 6 s and 2 s, each other one 0.2 s; lines have
    # the mean of the last 20. Steps 22–191, then 200 more up to the 191st of the second epoch,
    # whose last lines and the first epoch's leave out nine.
    "torchvision.log": (
        "torchvision",
        {},
        {
            "time_weighted": 361 * 256 / (360 * 0.2 + 2.0),
            "iterations": 361,
            "data_fraction": 0.01,
            "gpus": 8,
            "batch_size_per_gpu": 32,
            "precision": "amp",
            "unit": "images/s",
            "accuracy.final": 12.5,
        },
    ),
    # The same form behind the time of day, without eta: 8 GPUs × 4. An epoch of 105 steps of 0.5 s,
    # the first in 3 s and once 5 s, then a validation in lines of the same form. Steps 22–101, then
    # 101 more of the second epoch. Stamps, over midnight: from step 31, 4 steps in no line and a
    # validation of 6 s between the epochs.
    "metric_logger.log": (
        "torchvision",
        {},
        {
            "time_weighted": 181 * 32 / (80 * 0.5 + 3 + 5 + 99 * 0.5),
            "timestamps": 175 * 32 / (70 * 0.5 + 4 * 0.5 + 6 + 3 + 5 + 99 * 0.5),
            "iterations": 181,
            "gpus": 8,
            "batch_size_per_gpu": 4,
            "unit": "samples/s",
        },
    ),
    # 16 images of 4 GPUs. The mean is of the steps behind the second: behind 20 they take 0.5 s,
    # those of 301–400 1 s.
    "detectron2.log": (
        "detectron2",
        {},
        {
            "time_weighted": 580 * 16 / (480 * 0.5 + 100 * 1.0),
            "iterations": 580,
            "gpus": 4,
            "batch_size_per_gpu": 4,
            "memory_mib": 12345,
            "unit": "images/s",
        },
    ),
    # 32 samples of 4 GPUs: update and wait are 0.5 s, once 1 s. From 1K on the lines are counted.
    # Stamps: from 400 to 6000, with an evaluation of 120 s.
    "lerobot.log": (
        "lerobot",
        {"gpus": 4},
        {
            "time_weighted": 5800 * 32 / (5600 * 0.5 + 200 * 1.0),
            "timestamps": 5600 * 32 / (5400 * 0.5 + 200 * 1.0 + 120),
            "iterations": 5800,
            "batch_size_per_gpu": 8,
        },
    ),
    # 64 samples a step. Behind 20 steps 28 lines of 5 s and ten of 5.1 s, of ten steps each; the
    # printed samples per second are a tenth.
    "paddlenlp.log": (
        "paddlenlp",
        {"gpus": 4},
        {
            "time_weighted": 380 * 64 / (28 * 5 + 10 * 5.1),
            "timestamps": 370 * 64 / (27 * 5 + 10 * 5.1),
            "batch_size_per_gpu": 16,
            "framework": "paddle",
        },
    ),
    # 65,536 samples: 2 s for 100 steps, 4 s with an evaluation.
    "hugectr.log": (
        "hugectr",
        {"gpus": 8},
        {
            "time_weighted": 3900 * 65536 / (38 * 2 + 4),
            "time_weighted_steady": 100 * 65536 / 2,
            "batch_size_per_gpu": 8192,
            "framework": "hugectr",
        },
    ),
    # 2 GPUs, four micro steps of 4 samples each: three of 100 ms, one of 200 ms. Between iterations
    # 80 and 81 lies an evaluation of 8 s.
    "litgpt_lora.log": (
        "litgpt",
        {},
        {
            "time_weighted": 4 * 8 / 0.5,
            "median": 64.0,
            "iterations": 100,
            "gpus": 2,
            "batch_size_per_gpu": 4,
            "amp_dtype": "bf16",
            "unit": "samples/s",
        },
    ),
    # Every tenth of 800 micro steps: 260 ms for one in eight, 100 ms for the others.
    "litgpt_2023.log": (
        "litgpt",
        {},
        {
            "printed_steps": 8 * 4 / (0.26 + 7 * 0.1),
            "estimator": "printed_steps",
            "gpus": 1,
            "batch_size_per_gpu": 4,
        },
    ),
    # 8 x 16 sequences of 512 tokens in 120 ms, once in 240 ms.
    "litgpt_pretrain.log": (
        "litgpt",
        {},
        {
            "time_weighted": 100 * 128 / (99 * 0.12 + 0.24),
            "tokens_per_second": 512 * 100 * 128 / 12.12,
            "gpus": 8,
            "batch_size_per_gpu": 16,
            "parameters": 14067712,
            "planned_iterations": 2000,
        },
    ),
    # 512 samples of 4 GPUs in 0.4 s, of 100 steps in 0.8 s, and 4 s for the first of each epoch.
    # The rates of the one step before a line are two thirds of that. An evaluation and a checkpoint
    # of 45 s lie between the epochs.
    "open_clip_2022.log": (
        "open-clip",
        {},
        {
            "time_weighted": 1999 * 512 / (1898 * 0.4 + 100 * 0.8 + 4),
            "timestamps": 1999 * 512 / (888 - 0.4 + 5),
            "iterations": 1999,
            "gpus": 4,
            "batch_size_per_gpu": 128,
            "accuracy.final": 0.2,
        },
    ),
    # The same with twice the GPUs and half the batch, two batches a step.
    "open_clip_2023.log": (
        "open-clip",
        {},
        {
            "time_weighted": 1999 * 1024 / (1898 * 0.4 + 100 * 0.8 + 4),
            "iterations": 1999,
            "gpus": 8,
            "batch_size_per_gpu": 128,
            "amp_dtype": "fp16",
        },
    ),
    # A line has the mean of its last ten steps, the stamps have the time of all.
    "open_clip_2026.log": (
        "open-clip",
        {},
        {
            "time_weighted": 1999 * 512 / 843,
            "iterations": 1999,
            "gpus": 4,
            "amp_dtype": "bf16",
        },
    ),
    # 30,000 words in 0.25 s, of 100 updates 31,500, and 25 s for a validation and a checkpoint.
    "fairseq.log": (
        "fairseq",
        {},
        {
            "time_weighted": (1800 * 30000 + 100 * 31500) / (1900 * 0.25 + 25),
            "iterations": 1900,
            "gpus": 8,
            "amp_dtype": "fp16",
            "gpu_model": "NVIDIA A100-SXM4-80GB",
            "parameters": 60526592,
            "unit": "tokens/s",
        },
    ),
    "fairseq_json.log": (
        "fairseq",
        {},
        {"time_weighted": (1800 * 30000 + 100 * 31500) / 500, "gpus": 8, "iterations": 1900},
    ),
    # Means of the epoch so far, of 460 updates: 25,000 words in 0.25 s, of 50 updates 0.5 s, and
    # 26,000 words in the last 209. The validations between the epochs are in no line.
    "fairseq_2019.log": (
        "fairseq",
        {},
        {
            "time_weighted": (660 * 25000 + 209 * 26000) / (819 * 0.25 + 50 * 0.5),
            "iterations": 869,
            "gpus": 8,
            "precision": "fp32",
            "parameters": 209911808,
        },
    ),
    "fairseq_2019_json.log": (
        "fairseq",
        {},
        {"time_weighted": (660 * 25000 + 209 * 26000) / 229.75, "iterations": 869},
    ),
}
WARNED = {
    "litgpt_2023.log": ["sampled-steps"],
    "litgpt_pretrain.log": ["ends-early"],
    "open_clip_2022.log": ["unsteady"],
    "open_clip_2023.log": ["unsteady"],
    "open_clip_2026.log": ["sampled-steps", "unsteady"],
    "megatron_2021.log": ["unsteady"],
    "nemo_1.log": ["repeated-lines", "unsteady"],
    "modded_nanogpt.log": ["ends-early"],
    "verl.log": ["ends-early"],
    "deepspeed.log": ["unsteady"],
    "hf_trainer_running.log": ["ends-early"],
    "ms_swift.log": ["ends-early"],
    "metric_logger.log": ["unsteady"],
    "detectron2.log": ["unsteady"],
}
"""Log → reasons; of all others there are none."""


@pytest.mark.parametrize("name", [*TOKENS, *SAMPLES])
def test_the_figures_are_those_computed_by_hand(name: str) -> None:
    family, known, expected = (TOKENS | SAMPLES)[name]
    given: dict[str, Any] = {"gpus": None, "batch_size": None, "warmup": None}
    found = measured(fixture(name), format=family, **given | known)
    assert (found.verdict, ids(found)) == ("valid", WARNED.get(name, []))
    for key, value in expected.items():
        actual = figure(found, key)
        assert actual == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), (
            key
        )
