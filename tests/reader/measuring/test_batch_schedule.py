"""The batch of modded-nanogpt, which changes by a schedule in the source that begins its log."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids, lines_of, measured
from tests.unit.presence import present

LOG = lines_of("modded_nanogpt_schedule.log")
"""131,072 tokens in 0.1 s, 262,144 in 0.25 s, 393,216 in 0.3 s, 524,288 in 0.4 s."""
STEPS = [line for line in LOG if line.startswith("step:")]
RATE = (3 * 131072 + 18 * 262144 + 18 * 393216 + 6 * 524288) / (0.3 + 4.5 + 5.4 + 2.4)
"""Tokens per second of the steps behind the fifteenth."""
EVEN = [
    "    train_bs_schedule: tuple = (8 * 2048 * 8, 16 * 2048 * 8, 24 * 2048 * 8)",
    "    train_bs_extension: int = 32 * 2048 * 8",
    "    num_scheduled_iterations: int = 54  # number of steps to complete lr and ws schedule",
    "    num_extension_iterations: int = 6  # number of steps to continue training",
    "    bs_idx = int(len(args.train_bs_schedule) * x)",
]
"""The source's schedule until January 2026."""


def of(log: list[str], **expected: Any) -> Measurement:
    """Measure a log of eight GPUs with its own warm-up."""
    known: dict[str, Any] = {"format": "modded-nanogpt", "gpus": 8, "batch_size": None}
    return measured(log, **known | {"warmup": None} | expected)


@pytest.mark.parametrize("log", [LOG, [*EVEN, *STEPS]], ids=["stages", "even parts"])
def test_the_figure_is_all_tokens_by_all_time_and_names_the_schedule(log: list[str]) -> None:
    found = of(log)
    assert (found.verdict, found.batch_size_per_gpu) == ("valid", None)
    assert found.rate == pytest.approx(RATE)
    assert str(found.environment["batch_schedule"]).startswith("131072 tokens to step 18, 262144")


def test_the_progress_of_the_run_counts_tokens() -> None:
    profile = present(of(LOG, warmup=0).profile)
    tokens = dict(zip(profile.points, present(profile.tokens), strict=True))
    # The first line has no time.
    assert tokens[16] == 15 * 131072
    assert tokens[32] == 17 * 131072 + 14 * 262144


@pytest.mark.parametrize(
    ("source", "ends"),
    [(LOG, ["18", "37", "55", "61"]), ([*EVEN, *STEPS], ["19", "37", "55", "61"])],
    ids=["rounded", "the first step of a part"],
)
def test_a_schedule_whose_parts_are_uneven_changes_at_the_steps_of_the_program(
    source: list[str], ends: list[str]
) -> None:
    log = [line.replace("= 54 ", "= 55 ").replace("/60 ", "/61 ") for line in source]
    schedule = str(of(log).environment["batch_schedule"])
    assert re.findall(r"to step (\d+)", schedule) == ends


def without(text: str) -> list[str]:
    """The log without the lines that hold a text."""
    assert any(text in line for line in LOG)
    return [line for line in LOG if text not in line]


UNREAD: dict[str, Callable[[], list[str]]] = {
    "a list of one stage": lambda: without("duration=1/3"),
    "no length": lambda: without("num_scheduled_iterations: int"),
    "another rule": lambda: without("round(c * scheduled_iterations)"),
    "shares of less than all": lambda: [x.replace("duration=1/3", "duration=1/4") for x in LOG],
    "other steps": lambda: [x.replace("/60 ", "/80 ") for x in LOG],
    "the console's part alone": lambda: LOG[LOG.index("=" * 100) :],
    "unequal parts of the older form": lambda: [*EVEN[:-1], *STEPS],
}


@pytest.mark.parametrize("case", UNREAD)
@pytest.mark.parametrize("batch", [None, 24])
def test_a_schedule_that_is_not_read_is_refused_whatever_batch_is_given(
    case: str, batch: int | None
) -> None:
    found = of(UNREAD[case](), batch_size=batch)
    assert "batch-mismatch" in ids(found, "reject")


def test_an_excerpt_without_source_and_console_counts_the_given_batch_for_each_step() -> None:
    found = of([line for line in STEPS if "val_loss" not in line], batch_size=24)
    assert ids(found, "reject") == []
    assert found.batch_size_per_gpu == 24
    assert "batch-unverified" in ids(of(STEPS), "reject")


def test_passes_of_fewer_gpus_make_up_the_batch_of_eight() -> None:
    source = [
        "    train_seq_len = 48*1024 # FlexAttention sequence length",
        "grad_accum_steps = 8 // world_size",
        "load = generator(args.train_files, args.train_seq_len, grad_accum_steps, True)",
    ]
    steps = [f"step:{n}/60 train_time:{n * 200}ms step_avg:200.00ms" for n in range(1, 61)]
    for gpus, batch in ((8, 1), (1, 8)):
        found = of([*source, *steps], gpus=gpus)
        assert (found.verdict, found.batch_size_per_gpu) == ("valid", batch)
        assert found.rate == pytest.approx(8 * 48 * 1024 / 0.2)


def test_a_mean_that_contradicts_the_time_of_its_line_is_refused() -> None:
    lines = [line.replace("ms step_avg", "0ms step_avg") for line in lines_of("modded_nanogpt.log")]
    assert "batch-mismatch" in ids(of(lines, gpus=None), "reject")
