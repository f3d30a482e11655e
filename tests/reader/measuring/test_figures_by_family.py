"""Figures of a log of every family and generation, computed by hand beside each."""

import math
import re
from typing import Any

import pytest

from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Lines, figure, fixture, ids, lines_of, measured
from tests.unit.presence import present

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # 2 GPUs × 4. Records of 10 iterations: five usual ones of 0.5 s before the evaluation (the one
    # at 60 is printed as evaluation), 1.5 s behind it, four of 0.5 s, 0.7 s with a checkpoint.
    # Behind 20: 7 × 5 s + 15 s + 7 s = 57 s for 90 iterations.
    "mmseg_evaluation.log": (
        "mmseg",
        {"gpus": 2, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 90 * 8 / 57,
            "time_weighted_steady": 16.0,
            "median": 16.0,
            "arithmetic": (7 * 16 + 8 / 1.5 + 8 / 0.7) / 9,
            # Stamps: 90 iterations from the record of 30 to that of 120, 57 s.
            "timestamps": 90 * 8 / 57,
            "iterations": 90,
        },
    ),
    # 2 GPUs × 4. Lines each 50 iterations, of the last ten of which each took 0.4 s; the stamps are
    # 22 s apart. At 300 a checkpoint and an evaluation of 15 s: of the line at 350 the ten alone.
    "mmengine_iterations.log": (
        "mmengine",
        {"gpus": None, "batch_size": None, "warmup": 50},
        {
            "time_weighted": 8 * (10 * 50 + 10) / (10 * 22 + 10 * 0.4),
            "time_weighted_steady": 8 * 510 / 224,
            "median": 20.0,
            "arithmetic": 20.0,
            "timestamps": 8 * 500 / (10 * 22 + 15),
            "printed_steps": 20.0,
            "iterations": 510,
            "gpus": 2,
            "batch_size_per_gpu": 4,
            "estimator": "time_weighted",
        },
    ),
    # 8 GPUs × 2, means of the 50 iterations between two lines, of 0.2 s; three epochs of 120, the
    # last 20 in no line. From 100 of the first to 50 of the second 15 s by the stamps; behind the
    # evaluation the printed 50. The log goes past New Year.
    "mmengine_epochs.log": (
        "mmengine",
        {"gpus": None, "batch_size": None, "warmup": 50},
        {
            "time_weighted": 16 * (50 + 70 + 50 + 50 + 50) / (10 + 15 + 10 + 10 + 10),
            "median": 80.0,
            "timestamps": 16 * 240 / (15 + 10 + 44 + 10),
            "printed_steps": None,
            "iterations": 270,
            "precision": "amp",
        },
    ),
    # 4 GPUs, 5 samples/s per card; one record at 2.5. Thirty seconds of evaluation are in no
    # record but between the stamps: 65 iterations × 8 in 58 s.
    "paddleseg.log": (
        "paddleseg",
        {"gpus": 4, "batch_size": 2, "warmup": 10},
        {
            "time_weighted": 4 * 14 / (13 / 5 + 1 / 2.5),
            "time_weighted_steady": 4 * 14 / (13 / 5 + 1 / 2.5),
            "median": 20.0,
            "arithmetic": 4 * (13 * 5 + 2.5) / 14,
            "timestamps": 65 * 8 / 58,
            "iterations": 70,
        },
    ),
    # 8 GPUs, 400 images/s per card.
    "paddleclas_2020.log": (
        "paddleclas",
        {"gpus": 8, "batch_size": None, "warmup": 5},
        {"time_weighted": 3200.0, "median": 3200.0, "arithmetic": 3200.0, "iterations": 15},
    ),
    # 2 GPUs × 64. True steps take 0.1 s up to step 30 and 0.2 s behind it, in both epochs; the
    # printed mean begins anew at step 5. Behind 20: steps 21–50 in 1 + 2 + 2 s, then in the second
    # epoch steps 5–10 in 0.6 s and 11–50 in 1 + 1 + 2 + 2 s. The last nine steps of each epoch, in
    # 1.8 s, are in the total of its last line alone.
    "paddleclas_running.log": (
        "paddleclas",
        {"gpus": 2, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 94 * 128 / 15.2,
            "timestamps": None,  # stamps of whole seconds, 35 s apart
            "median": 960.0,
            "arithmetic": 960.0,
            "iterations": 94,
        },
    ),
    # 2 GPUs, 16 clips in 0.2 s per card; single steps, so each record is one iteration.
    "paddlevideo.log": (
        "paddlevideo",
        {"gpus": 2, "batch_size": 16, "warmup": 20},
        {"time_weighted": 160.0, "median": 160.0, "iterations": 8},
    ),
    # 8 GPUs × 128 at 2048/s: 0.5 s per iteration. Two epochs of 105 iterations, printed each 10:
    # the last five of an epoch are in no record. From iteration 20 to 205 of the run it took
    # 185 × 0.5 s and 10 s of validation.
    "dle_resnet50_2021_mpirun.log": (
        "dle-resnet50",
        {"gpus": 8, "batch_size": None, "warmup": 10},
        {"time_weighted": 2048.0, "timestamps": 185 * 1024 / (185 * 0.5 + 10), "iterations": 190},
    ),
    # 2 GPUs × 16. Running means: 8.106 s up to step 20 of the first epoch and 26.406 s up to its
    # last record, 26.406 s in all of the second: 44.706 s for 60 + 81 iterations. The printed
    # steps are 0.4 s and, once, 2 s.
    "tsm.log": (
        "tsm",
        {"gpus": 2, "batch_size": 16, "warmup": 20},
        {
            "time_weighted": 141 * 32 / 44.706,
            "median": 80.0,
            "arithmetic": (7 * 80 + 16) / 8,
            "timestamps": None,
            "iterations": 141,
        },
    ),
    # The same with stamps: from step 40 to step 80 of the next epoch, 140 iterations, of which
    # the second epoch's 81 took 26.4 s; 4.7 s and 12.2 s before, and 15 s of evaluation.
    "tsm_stamped.log": (
        "tsm",
        {"gpus": 2, "batch_size": 16, "warmup": 20},
        {
            "time_weighted": 141 * 32 / 44.706,
            "timestamps": 140 * 32 / (12.2 + 5.7 + 15 + 26.4),
            "iterations": 141,
        },
    ),
    # Four workers print the same ten records; stamps run 2 % slower than the time in the executor.
    "plsc_v1_four_workers.log": (
        "plsc",
        {"gpus": 4, "batch_size": 100, "warmup": 10},
        {"time_weighted": 400.0, "timestamps": 400 / 1.02, "iterations": 100},
    ),
    # 2 GPUs × 64, 1 s each ten steps, and 5 s with a verification; the first ten have no line.
    "arcface_torch.log": (
        "arcface-torch",
        {"gpus": None, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 100 * 128 / 14,
            "time_weighted_steady": 1280.0,
            "median": 1280.0,
            # Stamps: from the line of 30 to that of 120.
            "timestamps": 90 * 128 / 13,
            "iterations": 100,
            "gpus": 2,
            "batch_size_per_gpu": 64,
            "precision": "amp",
            "accuracy.final": 0.995,
        },
    ),
    # 2 GPUs × 64. The first step of an epoch takes 1.1 s, each other one 0.1 s; the last nine of an
    # epoch of 50 are in no line. Steps 22–41 in 2 s, those up to the 41st of the second in 5.1 s.
    "timm.log": (
        "timm",
        {"gpus": None, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 61 * 128 / 7.1,
            "median": 1280.0,
            "timestamps": None,
            "iterations": 61,
            "gpus": 2,
            "batch_size_per_gpu": 64,
            "precision": "amp",
            "accuracy.final": 15.5,
        },
    ),
    # 8 GPUs: eight records at 5120 and the one behind the validation at 2560.
    "plsc_v2.log": (
        "plsc",
        {"gpus": 8, "batch_size": None, "warmup": 100},
        {
            "time_weighted": 4608.0,
            "time_weighted_steady": 5120.0,
            "median": 5120.0,
            "arithmetic": (8 * 5120 + 2560) / 9,
            "iterations": 900,
        },
    ),
    # 4 GPUs × 64 at 512/s, once at 256/s; two epochs of 105 iterations of which the last four are
    # in no line. Behind 20: 80 and 101 iterations, 45 s and 50.5 s. By the stamps from 31 to 206.
    "plsc_v24.log": (
        "plsc",
        {"gpus": None, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 256 * 181 / 95.5,
            "median": 512.0,
            "arithmetic": (18 * 512 + 256) / 19,
            "timestamps": 256 * 175 / 114,
            "iterations": 181,
            "gpus": 4,
            "batch_size_per_gpu": 64,
            "precision": "amp",
        },
    ),
    # JSON without stamps. Epochs of 130 iterations, counted on; lines at 50 and 100 of each, of ten
    # of 0.4012345 s and once of 0.4567891 s. No line is of the last 30.
    "mmengine_scalars.json": (
        "mmengine",
        {"gpus": 8, "batch_size": 16, "warmup": 0},
        {
            "printed_steps": 128 * 6 / (5 * 0.4012345 + 0.4567891),
            "iterations": 60,
            "estimator": "printed_steps",
        },
    ),
    # 2 GPUs × 4, as above in mmseg_evaluation.log without the checkpoint; the header is JSON, too.
    # Epochs of 35 iterations, counted on. Behind 20: 8 × 5 s + 15 s for 90 iterations.
    "mmseg.log.json": (
        "mmseg",
        {"gpus": 2, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 90 * 8 / 55,
            "time_weighted_steady": 16.0,
            "iterations": 90,
            "precision": "amp",
        },
    ),
    # 2 GPUs × 64 at 640/s, once at 320/s; stamps 1 ms further apart than the printed times.
    "dle_raport.json": (
        "dle-resnet50",
        {"gpus": None, "batch_size": None, "warmup": 20},
        {
            "time_weighted": 128 * 100 / 22,
            "timestamps": 128 * 90 / 20.009,
            "iterations": 100,
            "gpus": 2,
            "precision": "amp",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_figures_are_those_computed_by_hand(name: str) -> None:
    family, known, expected = CASES[name]
    found = measured(fixture(name), format=family, **known)
    assert (found.verdict, ids(found, "reject")) == ("valid", [])
    assert found.throughput is not None
    for key, value in expected.items():
        actual = figure(found, key)
        assert actual == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), (
            key
        )


def head(steps: int, *, begun: int = 0, examples: str = "2,000", epochs: int = 10) -> list[str]:
    """The head of an attempt of Hugging Face's Trainer; batches of 16."""
    resumed = [f"  Continuing training from global step {begun}"] if begun else []
    return [
        "***** Running training *****",
        *(f"  Num examples = {examples}", f"  Num Epochs = {epochs:,}"),
        "  Total train batch size (w. parallel, distributed & accumulation) = 16",
        *("  Gradient Accumulation steps = 1", f"  Total optimization steps = {steps:,}"),
        *resumed,
    ]


def last(seconds: float, epochs: float, steps: int = 1250, samples: float = 20000) -> str:
    """Its last line, whose rates are of the whole plan."""
    return (
        f"{{'train_runtime': {seconds}, 'train_samples_per_second': {samples / seconds:.3f}, "
        f"'train_steps_per_second': {steps / seconds:.3f}, 'train_loss': 0.5, 'epoch': {epochs}}}"
    )


def bar(*done: int, total: int = 1250, began: int = 0, step: float = 0.08) -> str:
    """A progress bar, drawn again at these steps, of ``step`` seconds each."""
    drawn = [f"  0%| | 0/{total} [00:00<?, ?it/s]"]
    for each in done:
        minutes, seconds = divmod(round((each - began) * step), 60)
        clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        drawn.append(f" 9%|# | {each}/{total} [{clock.removeprefix('0:')}<00:01,  9it/s]")
    return "\r".join(drawn)


def clipped(drawn: str) -> str:
    """A bar without its first drawing, as a log has it whose beginning was cut off."""
    return drawn.partition("\r")[2]


EVALUATED = ["***** Running Evaluation *****", "  Num examples = 500", "  Batch size = 16"]


RAN: dict[str, tuple[list[str], int]] = {
    "to its end": ([*head(1250), last(20.0, 10.0)], 1250),
    "after an evaluation": ([*EVALUATED, *head(1250), *EVALUATED, last(20.0, 10.0)], 1250),
    "epochs of two digits": ([*head(1250, examples="2,010"), last(20.0, 9.92)], 1250),
    "to a number of steps": ([*head(100, epochs=1), last(20.0, 0.8, 100, 1600)], 100),
    "without a length": (
        [*head(100, epochs=9_223_372_036_854_775_807), last(20.0, 2.2, 100, 1600)],
        100,
    ),
    "one of two steps": ([*head(2, examples="16", epochs=2), last(20.0, 1.0, 2, 32)], 1),
    "resumed": ([*head(1250, begun=1000), last(20.0, 10.0)], 250),
    "resumed twice": (
        [*head(1250), *head(1250, begun=500), *head(1250, begun=1000), last(20.0, 10.0)],
        250,
    ),
    "ended early": ([*head(1250), last(20.0, 2.0)], 250),
    "resumed and ended early": ([*head(1250, begun=500), last(20.0, 6.0)], 250),
    "a bar to its end": ([bar(1, 600, 1250), last(100.0, 10.0)], 1250),
    "a bar behind": ([bar(1, 600, 1240), last(100.0, 10.0)], 1250),
    "a bar that ends early": ([bar(1, 100, 250), last(20.0, 2.0)], 250),
    "a resumed bar": ([bar(1001, 1100, 1250, began=1000), last(20.0, 10.0)], 250),
    "a bar without its beginning": ([clipped(bar(900, 1000, 1250)), last(100.0, 10.0)], 1250),
    "a bar without its end": ([bar(1, 625), last(100.0, 10.0)], 1250),
    "a bar drawn once": ([clipped(bar(625)), last(100.0, 10.0)], 1250),
    "a second attempt's bar": (
        [bar(1, 600, 1030), bar(1001, 1100, 1250, began=1000), last(20.0, 10.0)],
        250,
    ),
}
"""Log → steps that ran since its last attempt began."""


@pytest.mark.parametrize("case", RAN)
def test_the_figure_of_hugging_face_s_trainer_is_of_the_steps_that_ran(case: str) -> None:
    log, ran = RAN[case]
    found = measured(log, format="hf-trainer", batch_size=None)
    (said,) = found.reasons
    seconds = 100.0 if "'train_runtime': 100" in log[-1] else 20.0
    assert (found.verdict, found.rate) == ("valid", 16 * ran / seconds)
    assert ("planned steps" in said.sentence) == (ran not in {100, 1250})


@pytest.mark.parametrize(
    ("log", "seconds", "ran", "samples"),
    [
        # 0.258 steps per second, which are 2,004 of 2,000.
        ([bar(1001, 1500, 2000, total=2000, began=1000, step=7.767)], 7767.0, 1000, 32000),
        ([bar(1, 500, 1000, total=2000, step=7.767)], 7767.0, 1000, 32000),
        ([bar(1, 1000, 2000, total=2000, step=3.8835)], 7767.0, 2000, 32000),
        # 0.017, which are 2,040 of 2,000.
        ([*head(2000, examples="3,200")], 120_000.0, 2000, 32000),
        ([*head(2000, begun=1000, examples="3,200")], 120_000.0, 1000, 32000),
        ([bar(1001, 1500, 2000, total=2000, began=1000, step=120)], 120_000.0, 1000, 32000),
    ],
)
def test_slow_steps_are_those_of_the_bar_or_head_where_their_rate_has_few_digits(
    log: list[str], seconds: float, ran: int, samples: int
) -> None:
    log = [*log, last(seconds, 10.0, 2000, samples)]
    found = measured(log, format="hf-trainer", batch_size=None)
    assert (found.verdict, ids(found)) == ("valid", ["summary-only"])
    assert found.rate == pytest.approx(16 * ran / seconds, rel=2e-3)


def test_a_bar_of_no_steps_states_none() -> None:
    log = [" 10%|# | 3/0 [00:10<00:01,  9it/s]", last(20.0, 1.0, 0, 200)]
    assert measured(log, format="hf-trainer", batch_size=None).rate == 10.0


def test_the_rate_of_a_run_states_the_time_of_the_evaluations_in_it() -> None:
    evaluation = "{'eval_loss': 1.0, 'eval_runtime': 1.5, 'epoch': 5.0}"
    inside = [*head(1250), evaluation, evaluation]
    for log, seconds in (
        ([*inside, last(20.0, 10.0)], ["3"]),
        ([*head(1250), last(20.0, 10.0), evaluation], []),
        ([*inside, *head(1250, begun=1000), last(20.0, 10.0)], []),
    ):
        (said,) = measured(log, format="hf-trainer", batch_size=None).reasons
        assert re.findall(r"(\d+) s of", said.sentence) == seconds


@pytest.mark.parametrize(
    ("log", "numbers"),
    [
        ([*head(1250), last(20.0, 12.0)], ("1500", "1250")),
        ([*head(1250, begun=1250), last(20.0, 10.0)], ("0", "1250")),
        ([*head(1250), last(20.0, 10.0, 625)], ("625", "1250")),
    ],
)
def test_a_last_line_that_contradicts_its_head_is_refused_with_both_numbers(
    log: list[str], numbers: tuple[str, str]
) -> None:
    found = measured(log, format="hf-trainer", batch_size=None)
    (said,) = (each for each in found.reasons if each.severity == "reject")
    assert said.id == "summary-mismatch"
    assert all(number in said.sentence for number in numbers)


def generating(samples: int) -> list[str]:
    """A run of 625 steps in 100 s of 128 completions each, eight to a prompt."""
    state = "{'loss': 0.1, 'completions/mean_length': 120.5, 'epoch': 1.0}"
    told = [*head(625, examples="10,000", epochs=1), state, last(100.0, 1.0, 625, samples)]
    return [line.replace("accumulation) = 16", "accumulation) = 128") for line in told]


@pytest.mark.parametrize(("samples", "reasons"), [(10_000, ["batch-mismatch"]), (80_000, [])])
def test_a_last_line_counts_the_completions_of_the_head_or_is_refused(
    samples: int, reasons: list[str]
) -> None:
    log = generating(samples)
    found = measured(log, format="hf-trainer", batch_size=None)
    assert ids(found, "reject") == reasons
    assert found.rate == (None if reasons else 800.0)
    told = [line for line in log if "=" not in line]
    headless = measured(told, format="hf-trainer", batch_size=None)
    assert ids(headless, "reject") == ["batch-mismatch"]


@pytest.mark.parametrize(
    ("examples", "epochs", "steps", "reasons"),
    [
        (10_000, 0.05, 8, []),
        (1000, 1.1, 18, []),
        (640, 0.5, 5, []),
        (1000, 0.97, 16, []),
        # 100 samples are printed of two steps that have 128.
        (1000, 0.1, 2, ["batch-mismatch"]),
    ],
)
def test_a_part_of_an_epoch_has_whole_steps_and_may_have_few_samples_less(
    examples: int, epochs: float, steps: int, reasons: list[str]
) -> None:
    log = head(steps, examples=str(examples), epochs=math.ceil(epochs))
    log = [line.replace("accumulation) = 16", "accumulation) = 64") for line in log]
    lines = [*log, last(100.0, epochs, steps, examples * epochs)]
    found = measured(lines, format="hf-trainer", gpus=8, batch_size=None)
    assert ids(found, "reject") == reasons


def swift(lines: list[str], old: str, new: str) -> list[str]:
    """Lines of ms-swift with another text, which they hold."""
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


@pytest.mark.parametrize("quote", ["'", '"'], ids=["console", "logging.jsonl"])
@pytest.mark.parametrize(
    "key", ["global_step/max_steps", "steps[global_step/max_steps]", "iteration"]
)
def test_dictionaries_of_ms_swift_state_step_and_time(key: str, quote: str) -> None:
    lines = swift(lines_of("ms_swift.log"), "global_step/max_steps", key)
    lines = swift(lines, "'", quote)
    found = measured(lines, format="hf-trainer", gpus=8, batch_size=4, warmup=20)
    assert found.verdict == "valid"
    assert found.rate == pytest.approx(180 * 32 / 3610)


def test_a_line_of_ms_swift_whose_speed_contradicts_its_time_is_refused() -> None:
    lines = lines_of("ms_swift.log")
    known: dict[str, Any] = {"format": "hf-trainer", "gpus": 8, "batch_size": 4, "warmup": 20}
    slow = swift(lines, "'train_speed(iter/s)': 0.0", "'train_speed(iter/s)': 0.2")
    assert ids(measured(slow, **known), "reject") == ["batch-mismatch"]
    # Since 2026 it is of the steps of this attempt, in seconds.
    speed = re.compile(r"'train_speed\(iter/s\)': [\d.]+")
    resumed = [speed.sub("'train_speed(s/it)': 40.0", line) for line in lines]
    assert measured(resumed, **known).verdict == "valid"
    fast = swift(resumed, "(s/it)': 40.0", "(s/it)': 4.0")
    assert ids(measured(fast, **known), "reject") == ["batch-mismatch"]


@pytest.mark.parametrize(("second", "reasons"), [(39.8, []), (20.0, ["two-runs"])])
def test_the_last_line_of_rank_0_is_the_jobs_if_other_ranks_agree(
    second: float, reasons: list[str]
) -> None:
    ranks = [last(second, 1.0), last(40.0, 1.0)]
    known: dict[str, Any] = {"format": "hf-trainer", "gpus": 2}
    one = measured([f"[default{1 - rank}]: {line}" for rank, line in enumerate(ranks)], **known)
    files = measure([Lines([line], line) for line in ranks[::-1]], Expectation(**known))
    for found in (one, files):
        assert ids(found, "reject") == reasons
        assert present(found.throughput or found.unverified).time_weighted == 500


@pytest.mark.parametrize(("between", "reasons"), [([], []), (head(1250), ["two-runs"])])
def test_nodes_that_print_one_summary_are_one_run(between: list[str], reasons: list[str]) -> None:
    seconds = (1000.01, 1000.02, 999.98)
    lines = [*head(1250), last(1000.0, 10.0), *between, *(last(each, 10.0) for each in seconds)]
    found = measured(lines, format="hf-trainer", gpus=16, batch_size=None)
    assert ids(found, "reject") == reasons
    assert present(found.throughput or found.unverified).time_weighted == 20.0


@pytest.mark.parametrize("change", ["'epoch': 9.0", "'train_loss': 2.5", "_steps_per_second': 0.5"])
def test_summaries_of_about_the_same_time_are_two_runs_by_any_other_number(change: str) -> None:
    first, second = last(1000.0, 10.0), last(1000.01, 10.0)
    name = change.partition(": ")[0]
    other, count = re.subn(rf"{name}: [\d.]+", change, second)
    assert count == 1
    for lines, reasons in (([first, second], []), ([first, other], ["two-runs"])):
        found = measured([*head(1250), *lines], format="hf-trainer", gpus=16, batch_size=None)
        assert ids(found, "reject") == reasons


def test_one_summary_printed_with_fewer_digits_is_of_one_run() -> None:
    first = last(1000.0, 10.0).replace("'train_loss': 0.5", "'train_loss': 0.28420260807150577")
    second = first.replace("0.28420260807150577", "0.28420261")
    found = measured([*head(1250), first, second], format="hf-trainer", gpus=16, batch_size=None)
    assert ids(found, "reject") == []
