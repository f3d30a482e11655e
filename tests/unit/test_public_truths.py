"""The tables of right values are well formed, and their methods compute what they say."""

import json
import re

import pytest

from tests.corpus.public import truths
from tests.corpus.public.methods import METHODS
from tests.corpus.public.modded_nanogpt import scheduled_batches
from tests.corpus.public.rates import SAMPLES, TOKENS, Rate
from tests.corpus.public.truths import REFUSE, Truth

ROWS = truths.truths()
PLANS = truths.truths(truths.MODDED_NANOGPT)


@pytest.mark.parametrize("row", ROWS + PLANS, ids=lambda row: row.path)
def test_a_row_has_an_address_and_either_a_value_with_its_range_or_a_reason(row: Truth) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", row.repository)
    assert re.fullmatch(r"[0-9a-f]{40}", row.commit)
    assert re.fullmatch(r"[0-9a-f]{64}", row.sha256)
    assert row.path
    assert row.program
    assert row.statement.endswith(".")
    assert (row.method in METHODS) == (row.right != REFUSE)
    if row.right == REFUSE:
        assert (row.within, row.method) == ("-", "-")
    else:
        assert 0 < float(row.within) <= 15
        assert {rate.unit for rate in row.rates} <= {SAMPLES, TOKENS}
        assert all(rate.value > 0 for rate in row.rates)


def test_thirty_logs_of_eight_programs_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len({row.sha256 for row in ROWS}) == len(ROWS) >= 30
    assert len({row.program for row in ROWS}) >= 8


def test_every_method_is_that_of_a_row() -> None:
    assert {row.method for row in ROWS + PLANS} - {"-"} == set(METHODS)


def test_each_plan_of_modded_nanogpt_has_a_row() -> None:
    assert len({row.program for row in PLANS}) == len(PLANS) == 137
    assert {row.method for row in PLANS} == {"modded_nanogpt"}


LINES = {
    "gluoncv_epochs": (
        (
            "[Epoch 0] speed: 10 samples/sec\n[Epoch 1] speed: 100 samples/sec\n"
            "[Epoch 2] speed: 50 samples/sec\n"
        ),
        [(200 / 3, SAMPLES)],
    ),
    "gluoncv_detection": (
        (
            "Namespace(batch_size=8, log_interval=11)\n[Epoch 0][Batch 10], Speed: 9 samples/sec\n"
            "[Epoch 0][Batch 21], Speed: 9 samples/sec\n"
            "[Epoch 0] Training cost: 99\n[Epoch 1] Training cost: 27\n"
        ),
        [(8.0, SAMPLES)],
    ),
    "gluonnlp_stamps": (
        (
            "Namespace(batch_size=4)\n2020-01-01 00:00:00,000 - root - [Epoch 1 Batch 1/9] loss=1\n"
            "2020-01-01 00:01:00,500 - root - [Epoch 2 Batch 1/9] loss=1\n"
            "2020-01-01 00:01:04,500 - root - [Epoch 2 Batch 9/9] loss=1\n"
        ),
        [(8.0, SAMPLES)],
    ),
    "transformer_xl": (
        " max_step : 60\n batch_size : 8\n tgt_len : 16\nTraining time: 2.00 minutes\n",
        [(4.0, SAMPLES), (64.0, TOKENS)],
    ),
    "verl": (
        (
            "step:1 - timing_s/step:10 - perf/total_num_tokens:900 - perf/throughput:45\n"
            "step:2 - timing_s/step:20 - perf/total_num_tokens:600 - perf/throughput:15\n"
        ),
        [(50.0, TOKENS)],
    ),
    "litgpt": (
        (
            "{'micro_batch_size': 4, 'max_iters': 100}\nwith {'block_size': 10}\n"
            "iter 0 step 0: loss 9.1, iter time: 100.00ms\nTraining time: 50.00s\n"
        ),
        [(8.0, SAMPLES), (80.0, TOKENS)],
    ),
    "fairseq_stamps": (
        (
            "2023-06-28 18:00:00 | INFO | train_inner | wpb=500, bsz=2, num_updates=100, wall=1\n"
            "2023-06-28 18:01:00 | INFO | train_inner | wpb=700, bsz=4, num_updates=120, wall=9\n"
        ),
        [(1.0, SAMPLES), (200.0, TOKENS)],
    ),
    "fairseq_of_2018": (
        (
            "| wpb 10 | bsz 2 | num_updates 100 | wall 50 | train_wall 40\n"
            "| wpb 10 | bsz 2 | num_updates 200 | wall 50 | train_wall 65\n"
            "| wpb 10 | bsz 2 | num_updates 300 | wall 80 | train_wall 90\n"
        ),
        [(8.0, SAMPLES), (400 / 80, SAMPLES), (40.0, TOKENS), (2000 / 80, TOKENS)],
    ),
    "joeynmt": (
        (
            "2021-10-20 14:00:00,000 - INFO - cfg.training.batch_size            : 16\n"
            "2021-10-20 14:00:10,000 - INFO - Epoch   1, Step:      100, Tokens per Sec:  9\n"
            "2021-10-20 14:00:20,000 - INFO - Epoch   1, Step:      200, Tokens per Sec:  9\n"
            "2021-10-20 14:00:50,000 - INFO - Validation result (greedy)\n"
            "2021-10-20 14:01:00,000 - INFO - Epoch   1, Step:      300, Tokens per Sec:  9\n"
        ),
        [(160.0, SAMPLES), (64.0, SAMPLES)],
    ),
    "ultralytics": (
        (
            "train: Scanning /data/labels... 360 images, 0 corrupt: 100% ━━ 360/360 1.0s\n"
            "       1/2      8.3G     0.9        52        640: 100% ━━━━ 45/45 1.5s/it 1:30\n"
            "       2/2      8.3G     0.8        45        640: 100% ━━━━ 45/45 1.5s/it 1:30\n"
            "2 epochs completed in 0.100 hours.\n"
        ),
        [(2.0, SAMPLES), (4.0, SAMPLES)],
    ),
    "modded_nanogpt": (
        (
            "    batch_size : int = 8*64 # in sequences\n    sequence_length : int = 100\n"
            "step:20/30 train_time:9000ms step_avg:900.00ms\n"
            "step:30/30 train_time:10000ms step_avg:500.00ms\n"
        ),
        [(8 * 64 * 100 * 20 / 10, TOKENS)],
    ),
}
"""Name of a method → made-up lines and the right rates."""


@pytest.mark.parametrize("name", LINES)
def test_a_method_reads_a_total_or_stamps(name: str) -> None:
    text, right = LINES[name]
    found = METHODS[name](text)
    assert [rate.unit for rate in found] == [unit for _, unit in right]
    assert [rate.value for rate in found] == pytest.approx([value for value, _ in right])


EQUAL_STAGES = """
    train_bs_schedule: tuple = (10, 2 * 10)
    train_bs_extension: int = 30
    num_scheduled_iterations: int = 5  # steps
    num_extension_iterations: int = 2  # steps
"""
SHARES = """
    num_scheduled_iterations: int = 6
    num_extension_iterations: int = 1
    TrainingStage(duration=1/3, batch_size=10, lr_mul=1.0),
    TrainingStage(duration=2/3, batch_size=2 * 10, lr_mul=1.5),
    TrainingStage(batch_size=30, lr_mul=1.0),
"""


def test_a_schedule_of_batches_is_read_from_the_quoted_source() -> None:
    assert scheduled_batches(EQUAL_STAGES) == [(3, 10), (2, 20), (2, 30)]
    assert scheduled_batches(SHARES) == [(2, 10), (4, 20), (1, 30)]
    assert scheduled_batches("batch_size = 8") == []
    last = "step:7/7 train_time:7000ms step_avg:1000.00ms\n"
    assert METHODS["modded_nanogpt"](EQUAL_STAGES + last) == [Rate(130 / 7, TOKENS)]


def test_a_figure_is_right_within_the_range_and_in_one_of_the_units() -> None:
    row = ROWS[0]._replace(right="100 samples/s | 5000 tokens/s", within="2")
    assert row.accepts(Rate(101.9, SAMPLES))
    assert row.accepts(Rate(4901, TOKENS))
    assert not row.accepts(Rate(102.1, SAMPLES))
    assert not row.accepts(Rate(100, TOKENS))


@pytest.mark.parametrize(
    ("verdict", "right", "value", "kind"),
    [
        ("valid", "100 samples/s", 100.5, "right"),
        ("valid", "100 samples/s", 200, "wrong and valid"),
        ("valid", REFUSE, 100, "wrong and valid"),
        ("rejected", "100 samples/s", 100.5, "rejected though right"),
        ("rejected", "100 samples/s", 200, "rejected"),
        ("rejected", REFUSE, 100, "rightly rejected"),
    ],
)
def test_a_measurement_is_classed_by_verdict_and_figure(
    verdict: str, right: str, value: float, kind: str
) -> None:
    row = ROWS[0]._replace(right=right, within="-" if right == REFUSE else "2")
    figures = {"time_weighted": value, "unit": SAMPLES}
    document = {
        "verdict": verdict,
        "throughput": figures if verdict == "valid" else None,
        "unverified": figures,
        "reasons": [{"id": "clock-mismatch", "severity": "reject"}],
    }
    assert truths.outcome(row, json.dumps([document]), "")[0] == kind


def test_a_log_without_a_measurement_is_refused_with_the_first_line_of_its_error() -> None:
    row = ROWS[0]._replace(right="100 samples/s")
    assert truths.outcome(row, "[]\n", "error: no\nmore\n") == ("refused", "error: no")
    nothing = row._replace(right=REFUSE)
    assert truths.outcome(nothing, "[]\n", "error: no\n") == ("rightly refused", "error: no")
