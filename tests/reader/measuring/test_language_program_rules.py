"""Rules for logs of language models, MLPerf and Hugging Face's Trainer, a test each."""

import datetime
import json
import re
from typing import Any

import pytest

from k8sbench.model.errors import InputError
from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.measurement import Measurement
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Lines, figure, fixture, ids, lines_of, measured
from tests.unit.presence import present


def of(family: str, log: list[str] | str, **expected: Any) -> Measurement:
    """Measure a log, or a fixture's, with the family's own warm-up."""
    known: dict[str, Any] = {"format": family, "gpus": None, "batch_size": None, "warmup": None}
    return measured(fixture(log) if isinstance(log, str) else log, **known | expected)


def recognised(log: list[str], **expected: Any) -> Measurement:
    """Measure a log of any family."""
    return measure([Lines(log)], [Expectation(format=name, **expected) for name in FAMILY_NAMES])


def megatron(step: int, total: int, seconds: float = 0.5, batch: int = 64) -> str:
    return (
        f" iteration {step:8d}/{total:8d} | consumed samples: {step * batch:12d} | elapsed time per"
        f" iteration (ms): {1000 * seconds:.1f} | learning rate: 1.500E-04 | global batch size:"
        f" {batch:5d} | lm loss: 9.000000E+00 | loss scale: 1.0 |"
    )


def llm_c(times: list[float]) -> list[str]:
    """Return a log of llm.c whose steps took ``times``."""
    return [
        "| total batch size      | 524288                                             |",
        "| num_processes         | 8                                                  |",
        *(
            f"step {step:4d}/{len(times)} | loss 9.000000 (+nanz)| norm 1.5000 (+nanz)| lr 3.00e-04"
            f" | {1000 * seconds:.2f} ms | 50.0% bf16 MFU | 1000000 tok/s"
            for step, seconds in enumerate(times, 1)
        ),
    ]


TEN = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC).timestamp()

# The date

DATED: dict[str, tuple[list[str] | str, float]] = {
    "deepspeed": ("deepspeed_pipeline.log", TEN),
    "hf-trainer": ("hf_trainer_running.log", TEN),
    "megatron": (
        [
            "[before the start of training step] datetime: 2026-03-02 10:00:00 ",
            *(megatron(step, 20) for step in range(1, 21)),
        ],
        TEN,
    ),
    "mlperf": ("mlperf_throughput.log", TEN + 1),
    "nanochat": ("nanochat.log", TEN),
    "nemo": ("nemo_2.log", TEN),
    "olmo": ("olmo.log", TEN + 2),
}
"""By family: a log with a date beside its training lines, and when its run began."""
STAMPED = {"mlperf", "olmo"}
"""Those whose training lines have a date, too."""


@pytest.mark.parametrize("family", DATED)
def test_the_lines_around_the_training_date_the_run(family: str) -> None:
    log, began = DATED[family]
    found = of(family, log, gpus=8, batch_size=8)
    assert found.begun_at == began
    dates_window = found.window is not None and found.window.started_at is not None
    assert dates_window is (family in STAMPED)
    assert "begun_at" not in found.environment


def test_a_resumed_run_began_with_its_first_attempt() -> None:
    first = lines_of("hf_trainer_running.log")
    again = [line.replace("2026-03-02", "2026-03-03") for line in first]
    found = of("hf-trainer", [*first, *again], gpus=8)
    assert found.begun_at == TEN


@pytest.mark.parametrize(
    "line",
    [
        "Distributed world size: 8",
        "INFO - Distributed world size: 8",
        "nanochat.common - 2026-03-02 10:00:00,000 - Distributed world size: 8",
    ],
)
def test_nanochat_states_its_gpus_in_a_line_that_begins_without_a_date(line: str) -> None:
    found = of("nanochat", [line, *lines_of("nanochat.log")[1:]])
    assert found.gpus == 8
    assert found.begun_at is None


# The batch


def test_the_batch_of_torchtitan_since_2026_is_in_tokens() -> None:
    today = [
        line.replace("global batch size 8", "8192 tokens per DP rank, 65536 tokens per train step")
        .replace("local batch size 1, ", "")
        .replace("sequence length", "maximum context length")
        for line in lines_of("torchtitan.log")
    ]
    found = of("torchtitan", today)
    assert (found.verdict, found.gpus, found.batch_size_per_gpu) == ("valid", 8, 1)


def test_a_batch_per_gpu_of_a_model_that_gpus_share_is_a_fraction() -> None:
    found = of("megatron", "megatron_2021.log")
    assert (found.verdict, found.gpus, found.batch_size_per_gpu) == ("valid", 64, 0.5)
    found = of("megatron", "megatron_2021.log", batch_size=1, by_user=True)
    assert "batch-size" in ids(found, "warn")
    assert "batch-mismatch" not in ids(found)
    # 32 per step, whatever was given: 280 steps in 600 s.
    assert found.rate == pytest.approx(280 * 32 / 600)


@pytest.mark.parametrize(
    ("family", "log", "unit", "factor"),
    [
        ("megatron", "megatron_2026.log", "tokens/s", 1024.0),
        ("hf-trainer", "hf_trainer_running.log", "tokens/s", None),
        ("deepspeed", "deepspeed.log", "tokens/s", None),
        ("torchtitan", "torchtitan.log", "sequences/s", 1 / 8192),
    ],
)
def test_a_benchmark_may_count_tokens_where_its_program_counts_samples_or_the_reverse(
    family: str, log: str, unit: str, factor: float | None
) -> None:
    known = {"gpus": 8, "batch_size": 8}
    own, found = of(family, log, **known), of(family, log, unit=unit, **known)
    if factor is None:
        assert found.throughput is None
        assert "batch-unverified" in ids(found, "reject")
    else:
        assert present(found.throughput).unit == unit
        assert found.rate == pytest.approx(present(own.rate) * factor)
        assert ids(found, "reject") == ids(own, "reject")


def test_a_line_that_does_not_count_is_not_said_to_state_no_batch() -> None:
    found = of("megatron", [megatron(300, 300)], gpus=8)
    assert ids(found) == ["too-few-records"]
    bare = megatron(300, 300).replace("global batch size:    64 |", "")
    assert ids(of("megatron", [bare], gpus=8)) == ["too-few-records"]
    long = [megatron(step, 300).replace("global batch size:    64 |", "") for step in range(1, 301)]
    assert ids(of("megatron", long, gpus=8)) == ["batch-unverified"]


def test_the_configuration_of_megatron_bridge_states_sequence_length_and_precision() -> None:
    configured = [
        *("dataset:", "  _target_: megatron.bridge.training.config.DatasetConfig"),
        *("model:", "  num_layers: 16", "  old_context_len: 8192", "  seq_length: 2048"),
        *("optimizer:", "  bf16: true", "  fp16: false"),
        *("train:", "  global_batch_size: 64", "  micro_batch_size: 2", "  train_iters: 40"),
    ]
    found = of("megatron", [*configured, *(megatron(step, 40) for step in range(1, 41))], gpus=8)
    assert (found.verdict, found.rate, found.tokens_per_second) == ("valid", 128.0, 128.0 * 2048)
    assert (found.precision, found.amp_dtype) == ("amp", "bf16")


def test_tokens_of_a_step_are_no_batch_where_nothing_states_those_of_a_sequence() -> None:
    bare = [line for line in lines_of("maxtext.log") if "completed step" in line]
    found = of("maxtext", bare, gpus=8)
    assert (found.verdict, found.batch_size_per_gpu) == ("valid", None)
    assert found.rate == pytest.approx(20 * 32 * 2048 / (19 * 2 + 4), rel=1e-4)
    assert found.tokens_per_second == found.rate
    given = of("maxtext", bare, gpus=8, batch_size=4, by_user=True)
    assert (given.verdict, "batch-mismatch" in ids(given)) == ("valid", False)
    # The tokens of a sequence tell the batch.
    length = "Config param max_target_length: 2048"
    assert of("maxtext", [length, *bare], gpus=8).batch_size_per_gpu == 4


def test_a_head_that_contradicts_the_lines_batch_is_rejected() -> None:
    log = [re.sub(r"tok/sec: 512,000", "tok/sec: 256,000", x) for x in lines_of("nanochat.log")]
    found = of("nanochat", log)
    (said,) = (each for each in found.reasons if each.id == "batch-mismatch")
    assert (said.severity, "524288" in said.sentence) == ("reject", True)


def test_accumulated_micro_batches_are_in_the_batch_of_a_gpu() -> None:
    log = [
        x.replace("32 x 2048 = 65,536", "16 x 2048 = 32,768").replace("steps: 1", "steps: 2")
        for x in lines_of("nanochat.log")
    ]
    found = of("nanochat", log)
    assert (found.batch_size_per_gpu, found.environment["micro_batch"]) == (32, "16")
    assert ids(of("nanochat", log, batch_size=32)) == ids(found)
    assert "batch-mismatch" in ids(of("nanochat", log, batch_size=16), "reject")


SOURCES = {
    "sequences of the job": [
        "    batch_size : int = 8*2 # batch size, in sequences, across all devices",
        "    sequence_length : int = 2*1024 # sequence length, in tokens",
    ],
    "a sequence of each GPU": [
        "    train_seq_len = 4*1024 # FlexAttention sequence length",
        "    val_seq_len = 64*1024 # FlexAttention sequence length for validation",
        "        val_batch_size = world_size * args.val_seq_len",
        "load = generator(args.train_files, world_size * args.train_seq_len, rank, world_size)",
    ],
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_source_in_a_log_of_modded_nanogpt_states_the_tokens_of_a_step(source: str) -> None:
    steps = [
        f"step:{step}/60 train_loss:9.0 train_time:{250 * step}ms step_avg:250.00ms"
        for step in range(1, 61)
    ]
    found = of("modded-nanogpt", [*SOURCES[source], *steps], gpus=8)
    assert (found.verdict, present(found.throughput).unit) == ("valid", "tokens/s")
    assert present(found.throughput).time_weighted == pytest.approx(8 * 4096 / 0.25)


def test_a_batch_that_grows_has_one_figure_and_reasons_for_the_others() -> None:
    found = of("megatron", "megatron_deepspeed_2022.log")
    figures = present(found.throughput)
    assert found.verdict == "valid"
    assert figures.time_weighted == pytest.approx((180 * 16 + 200 * 32) / (180 + 200 * 1.6))
    for name in ("time_weighted_steady", "median", "arithmetic", "timestamps", "printed_steps"):
        assert getattr(figures, name) is None
        assert found.missing[f"throughput.{name}"]


def test_a_timer_that_begins_anew_gives_no_record() -> None:
    log = [x for x in lines_of("modded_nanogpt.log") if "val_loss" not in x]
    found = of("modded-nanogpt", log, warmup=5)
    # Steps 6–10 and 12–45; nobody knows what the eleventh took.
    assert found.iterations == 39
    assert ids(found, "reject") == ["iterations-missing"]
    assert present(found.unverified).time_weighted == pytest.approx(39 * 524288 / (38 * 0.2 + 0.4))


# The window


def test_a_resumed_log_leaves_out_its_own_first_steps() -> None:
    log = [megatron(step, 4000, 5.0 if step <= 2020 else 0.5) for step in range(2001, 2121)]
    found = of("megatron", log, gpus=8)
    assert (found.verdict, found.warmup_iterations, found.iterations) == ("valid", 20, 100)
    assert (present(found.window).first_iteration, found.rate) == (2021, 128.0)


SINGLE_STEPS = {
    "torchtune": (
        "log_every_n_steps: 1",
        "Step {step} | loss:1.99 lr:2e-05 tokens_per_second_per_gpu:{rate:.1f} grad_norm:0.9 ",
    ),
    "llm.c": (
        "| total batch size      | 1024                                               |",
        (
            "step {step:4d}/1000000 | loss 9.000000 (+nanz)| norm 1.5000 (+nanz)| lr 3.00e-04"
            " | {ms:.2f} ms | 50.0% bf16 MFU | 1000000 tok/s"
        ),
    ),
    "nanochat": (
        "Total batch size 1,024 => gradient accumulation steps: 1",
        (
            "step {step}/1000000 (50.00%) | loss: 2.000000 | grad norm: 0.5000 | lrm: 1.00"
            " | dt: {ms:.2f}ms | tok/sec: {rate:.0f} | bf16_mfu: 40.00 | epoch: 1"
            " | total time: 0.00m"
        ),
    ),
    "maxtext": (
        "Config param global_batch_size_to_train_on: 128",
        (
            "completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 400.000,"
            " Tokens/s/device: {rate:.3f}, total_weights: 1024, loss: 2.000"
        ),
    ),
    "nemo": (
        "All distributed processes registered. Starting with 8 processes",
        (
            "0: Training epoch 0, iteration {step}/999999 | lr: 2.999e-06 | global_batch_size: 128"
            " | global_step: {step} | reduced_train_loss: 2.00 | train_step_timing in s: {seconds}"
            " | consumed_samples: {step}"
        ),
    ),
    "nanogpt": (
        "tokens per iteration will be: 1,024",
        "iter {step}: loss 2.0000, time {ms:.2f}ms, mfu 40.00%",
    ),
}
"""Family → a line of its head, and its line of one step."""


def single_steps(family: str) -> list[str]:
    """Return a resumed run's head and its steps from the 500 000th on; the first 20 are slow."""
    head, line = SINGLE_STEPS[family]
    took = [(500_000 + step, 5.0 if step < 20 else 0.5) for step in range(60)]
    steps = (
        line.format(step=step, seconds=seconds, ms=1000 * seconds, rate=1024 / seconds)
        for step, seconds in took
    )
    return [head, *steps]


@pytest.mark.parametrize("family", SINGLE_STEPS)
@pytest.mark.parametrize("warmup", [None, 20, 30])
def test_a_resumed_log_of_single_steps_warms_up_anew(family: str, warmup: int | None) -> None:
    found = of(family, single_steps(family), gpus=8, warmup=warmup, by_user=True)
    left_out = warmup or 20
    assert "iterations-missing" not in ids(found)
    assert (found.warmup_iterations, found.iterations) == (left_out, 60 - left_out)
    figures = present(found.throughput or found.unverified)
    assert figures.median == pytest.approx(getattr(figures, str(found.estimator)))


@pytest.mark.parametrize("family", SINGLE_STEPS)
def test_single_steps_that_begin_late_without_a_head_are_cut_off(family: str) -> None:
    _, *steps = single_steps(family)
    found = of(family, steps, gpus=8, batch_size=1, by_user=True)
    assert "iterations-missing" in ids(found, "reject")


def test_a_log_that_says_that_it_resumes_warms_up_anew() -> None:
    head, *steps = single_steps("nanogpt")
    log = ["Resuming training from out", *steps[::10]]
    found = of("nanogpt", [head, *log], gpus=8, warmup=30, by_user=True)
    assert "iterations-missing" not in ids(found)
    assert (found.warmup_iterations, found.records) == (30, 3)
    assert present(found.window).first_iteration == 500_031


@pytest.mark.parametrize(("first", "begin"), [(50, 50), (100, 150)])
def test_a_log_of_every_50th_step_begins_late_after_an_interval(first: int, begin: int) -> None:
    head, line = SINGLE_STEPS["torchtune"]
    log = [head, *(line.format(step=step, rate=1024.0) for step in range(first, 1001, 50))]
    found = of("torchtune", log, gpus=8, by_user=True)
    assert ids(found, "reject") == []
    assert (found.warmup_iterations, present(found.window).first_iteration) == (20, begin)


def test_a_log_of_the_last_iterations_begins_with_its_first_interval() -> None:
    known = {"gpus": 8, "batch_size": 4}
    found = of("mmengine", "mmengine_iterations.log", **known, by_user=True)
    planned = of("mmengine", "mmengine_iterations.log", **known, warmup=20)
    assert (found.window, found.iterations) == (planned.window, planned.iterations)


MEGATRON_RESUMED = [
    "  world_size ........................................ 8",
    *(megatron(step, 4000, 5.0 if step <= 2020 else 0.5) for step in range(2001, 2121)),
]


def test_a_given_warm_up_begins_where_the_default_one_does() -> None:
    usual, same = (
        of("megatron", MEGATRON_RESUMED, gpus=8, warmup=warmup, by_user=True)
        for warmup in (None, 20)
    )
    longer = of("megatron", MEGATRON_RESUMED, gpus=8, warmup=40, by_user=True)
    assert [x.verdict for x in (usual, same, longer)] == ["valid"] * 3
    assert (same.warmup_iterations, same.window) == (usual.warmup_iterations, usual.window)
    assert (longer.warmup_iterations, longer.iterations) == (40, 80)


@pytest.mark.parametrize(
    ("log", "by_user"), [(MEGATRON_RESUMED, False), (MEGATRON_RESUMED[1:], True)]
)
def test_a_planned_run_and_a_log_without_its_head_begin_at_the_first_step(
    log: list[str], by_user: bool
) -> None:
    found = of("megatron", log, gpus=8, warmup=20, by_user=by_user)
    assert ids(found, "reject").count("iterations-missing") == 1


def test_a_log_that_ends_early_leaves_out_a_quarter_of_its_own_length() -> None:
    log = [megatron(step, 500_000, 5.0 if step <= 3 else 0.5) for step in range(1, 13)]
    found = of("megatron", log, gpus=8)
    assert (found.warmup_iterations, found.iterations, found.rate) == (3, 9, 128.0)
    assert ids(found, "reject") == []


@pytest.mark.parametrize(
    ("times", "severity"),
    [
        # Each 20th step of 400 is 11 times slower, as with a checkpoint: they are many.
        ([0.1 if step % 20 else 1.1 for step in range(1, 401)], "warn"),
        # One step of 60 takes as long as all others.
        ([5.0 if step == 30 else 0.1 for step in range(1, 61)], "reject"),
    ],
)
def test_unsteady_steps_reject_where_few_of_them_hold_the_time(
    times: list[float], severity: str
) -> None:
    found = of("llm.c", llm_c(times))
    assert [each.severity for each in found.reasons if each.id == "unsteady"] == [severity]


@pytest.mark.parametrize(("shorter", "reasons"), [(1, []), (3, ["two-runs"])])
def test_epochs_whose_lengths_differ_by_one_are_one_run(shorter: int, reasons: list[str]) -> None:
    log = lines_of("torchvision.log")
    log = [re.sub(r"(?<=Epoch: \[1\]  \[.{3}/)200", str(200 - shorter), x) for x in log]
    assert any(f"/{200 - shorter}]" in x for x in log)
    assert ids(of("torchvision", log), "reject") == reasons


@pytest.mark.parametrize(("second", "reasons"), [(599, []), (600, ["iterations-missing"])])
def test_the_last_iterations_of_a_shorter_epoch_are_no_lost_line(
    second: int, reasons: list[str]
) -> None:
    # Epochs of 600 iterations, with a line each 50. The last 49 of one of 599 have none; of one of
    # 600 the last line is lost.
    lengths = [600, second, 600, 600]
    log = [
        f"2026-03-02 1{epoch}:{step // 600:02d}:{step // 10 % 60:02d},000 - mmdet - INFO - Epoch"
        f" [{epoch}][{step}/{length}]\tlr: 1.0e-02, eta: 1:05:45, time: 0.100, data_time: 0.008,"
        " memory: 22159, loss: 1.7573"
        for epoch, length in enumerate(lengths, 1)
        for step in range(50, length + 1, 50)
        if (epoch, step) != (2, 600)
    ]
    assert ids(of("mmseg", log, gpus=8, batch_size=2), "reject") == reasons


def resumed_by_epoch(family: str, resumes: str) -> list[str]:
    """Return a log of the epochs 4 and 5, after a line that may say that it resumes."""
    line = {
        "torchvision": "Epoch: [{epoch}]  [{at:3}/100]  eta: 0:01:00  lr: 0.1  loss: 2.0 (2.0)"
        "  time: 0.2500  data: 0.0100  max mem: 5000",
        "timm": "Train: {epoch} [{at:4}/100 ( 10%)]  Loss: 2.00 (2.00)  Time: 0.250s,   64.00/s"
        "  (0.250s,   64.00/s)  LR: 1.0e-01  Data: 0.010 (0.010)",
    }[family]
    return [
        resumes,
        *(line.format(epoch=e, at=at) for e in (4, 5) for at in (*range(0, 99, 10), 99)),
    ]


@pytest.mark.parametrize(
    ("family", "says"),
    [
        ("torchvision", "Resume checkpoint out/checkpoint-3.pth"),
        ("timm", "Restoring model state from checkpoint..."),
    ],
)
def test_a_log_that_begins_in_a_later_epoch_may_say_that_it_resumes(family: str, says: str) -> None:
    found = of(family, resumed_by_epoch(family, says), gpus=2, batch_size=8)
    assert (found.verdict, found.restarts) == ("valid", 1)
    assert found.rate == pytest.approx(64.0)
    cut = of(family, resumed_by_epoch(family, ""), gpus=2, batch_size=8)
    assert ids(cut, "reject") == ["iterations-missing"]


# Programs around others


def test_hugectr_s_lines_yield_to_mlperf_s() -> None:
    events = lines_of("mlperf_throughput.log")
    log = [*events[:5], *lines_of("hugectr.log"), *events[5:]]
    found = recognised(log, gpus=8)
    assert found.format == "mlperf"
    assert found.rate == pytest.approx(29 * 1024 / 480)
    assert recognised(lines_of("hugectr.log"), gpus=8).format == "hugectr"


@pytest.mark.parametrize(
    "head", ["[14d10h00m00s][HUGECTR][INFO]", "[HUGECTR][10:00:00][INFO][RANK0]"]
)
def test_hugectr_s_lines_have_other_heads_up_to_version_3(head: str) -> None:
    log = [
        line.replace("[HCTR][10:00:00.000][INFO][RK0][main]", head)
        for line in lines_of("hugectr.log")
    ]
    assert sum(head in line for line in log) > 40
    found = recognised(log, gpus=8)
    assert found.format == "hugectr"
    assert found.rate == pytest.approx(3900 * 65536 / 80)


def test_a_line_that_states_its_steps_tells_how_many_are_usual() -> None:
    log = [line for line in lines_of("hugectr.log") if "Iter: 900 " not in line]
    (found,) = (x for x in of("hugectr", log, gpus=8).reasons if x.id == "iterations-missing")
    assert "100 iterations" in found.sentence
    assert "100 per line" in found.sentence


def test_deepspeed_s_lines_yield_to_megatron_s() -> None:
    # The head comes before the lines of either.
    log = lines_of("gpt_neox.log")
    assert "iter time (s)" in next(x for x in log if "iteration " in x or "iter time" in x)
    found = recognised(log)
    assert found.format == "megatron"
    assert found.rate == pytest.approx(380 * 64 / 780)
    assert recognised(lines_of("deepspeed.log")).format == "deepspeed"


# Hugging Face's Trainer and LLaMA-Factory


def test_the_end_of_hugging_face_s_trainer_is_the_figure_where_there_is_one() -> None:
    log = lines_of("hf_trainer_running.log")
    end = (
        "{'train_runtime': 8000.0, 'train_samples_per_second': 8.0,"
        " 'train_steps_per_second': 0.125, 'train_loss': 9.0, 'epoch': 1.0}"
    )
    found = of("hf-trainer", [*log, end], gpus=8)
    assert (found.rate, ids(found)) == (8.0, ["summary-only"])
    found = of("hf-trainer", log, gpus=8)
    assert found.rate == pytest.approx(370 * 64 / (36 * 60 + 120))


@pytest.mark.parametrize(("batch", "reasons"), [(64, []), (128, ["batch-mismatch"])])
def test_a_resumed_run_of_hugging_face_s_trainer_keeps_its_batch(
    batch: int, reasons: list[str]
) -> None:
    log = lines_of("hf_trainer_running.log")
    head = [line.replace("= 64", f"= {batch}") for line in log if "trainer.py" in line]
    resumed = [*head, ">>   Continuing training from global step 190"]
    end = (
        f"{{'train_runtime': 5000.0, 'train_samples_per_second': {1000 * batch / 5000},"
        " 'train_steps_per_second': 0.2, 'train_loss': 9.0, 'epoch': 1.0}"
    )
    for rest in (log[26:], [end]):
        found = of("hf-trainer", [*log[:26], *resumed, *rest], gpus=8)
        assert ids(found, "reject") == reasons


def test_a_log_of_hugging_face_s_trainer_without_end_and_bar_says_what_is_missing() -> None:
    head = [x for x in lines_of("hf_trainer_running.log") if "trainer.py" in x]
    with pytest.raises(InputError, match="without its end"):
        of("hf-trainer", [*head, "{'loss': 9.0, 'epoch': 0.1}"], gpus=8)


def test_a_line_whose_step_is_no_number_is_no_record() -> None:
    lines = lines_of("llama_factory.jsonl")
    torn = [re.sub(r'("current_steps": )\d+', r"\g<1>1e400", lines[5]), *lines[6:]]
    found = measured([*lines[:5], *torn], format="llama-factory", gpus=8, batch_size=None)
    assert found.throughput is not None


def test_llama_factory_s_figure_is_of_the_tokens_and_time_between_its_lines() -> None:
    log = [json.loads(line) for line in lines_of("llama_factory.jsonl")]
    for line in log:
        hours, minutes, seconds = map(int, line["elapsed_time"].split(":"))
        time = 3600 * hours + 60 * minutes + seconds
        assert line["throughput"] * time == pytest.approx(line["total_tokens"], rel=1e-5)
    found = of("llama-factory", "llama_factory.jsonl", gpus=8)
    steps = {line["current_steps"]: line for line in log}
    tokens = steps[400]["total_tokens"] - steps[20]["total_tokens"]
    assert found.rate == pytest.approx(tokens / 780)
    # Without the mean rate the time has whole seconds.
    bare = [{k: v for k, v in line.items() if k != "throughput"} for line in log]
    found = of("llama-factory", [json.dumps(line) for line in bare], gpus=8)
    assert found.rate == pytest.approx(tokens / 780)


@pytest.mark.parametrize("empty", [False, True])
def test_llama_factory_s_evaluations_and_its_end_are_no_training_lines(empty: bool) -> None:
    log = [json.loads(line) for line in lines_of("llama_factory.jsonl")]
    log.append({k: v for k, v in log[-1].items() if k not in {"loss", "lr"}})
    if empty:  # as older versions print it
        log = [{"loss": None, "eval_loss": None} | line for line in log]
    found = of("llama-factory", [json.dumps(line) for line in log], gpus=8)
    assert (found.training_lines, ids(found)) == (39, [])


# detectron2


def test_detectron2_s_mean_begins_anew_where_a_run_is_resumed() -> None:
    def later(line: str, by: int) -> str:
        line = re.sub(r"iter: (\d+)", lambda found: f"iter: {int(found[1]) + by}", line)
        return line.replace("from iteration 0", f"from iteration {by}")

    fresh = lines_of("detectron2.log")
    alone = of("detectron2", [later(line, 5000) for line in fresh])
    rate = 580 * 16 / (480 * 0.5 + 100 * 1.0)
    assert (alone.verdict, alone.iterations) == ("valid", 580)
    assert alone.rate == pytest.approx(rate, rel=1e-4)
    # A run and its continuation in one file: the second mean is of its own iterations.
    again = [later(line, 400).replace("[03/02 ", "[03/03 ") for line in fresh[4:]]
    both = of("detectron2", [*fresh, *again])
    assert (both.verdict, both.iterations) == ("valid", 980)
    assert both.rate == pytest.approx(980 * 16 / (780 * 0.5 + 200 * 1.0), rel=1e-2)


@pytest.mark.parametrize("first", [410, 370])
def test_llama_factory_s_clock_begins_anew_where_a_run_is_resumed(first: int) -> None:
    def line(step: int, seconds: int) -> str:
        clock = f"0:{seconds // 60:02d}:{seconds % 60:02d}"
        return json.dumps({"current_steps": step, "loss": 1.2, "elapsed_time": clock})

    steps = range(10, 401, 10), range(first, 801, 10)
    log = [line(step, 2 * (step - part[0] + 10)) for part in steps for step in part]
    found = of("llama-factory", log, gpus=1, batch_size=64)
    assert (found.verdict, found.rate) == ("valid", 32.0)
    assert found.iterations == 780
    assert "restarted" in ids(found)


# torchtune


@pytest.mark.parametrize(("rate", "lines"), [("2000.123456789", 40), ("2000.1", 0), ("2000", 0)])
def test_torchtune_s_rate_ends_a_line_without_its_last_space(rate: str, lines: int) -> None:
    log = [f"Step {step} | loss:1.25 lr:0.0001 tokens_per_second_per_gpu:" for step in range(1, 41)]
    whole = of("torchtune", [f"{line}{rate} " for line in log], gpus=2)
    assert (whole.verdict, whole.training_lines) == ("valid", 40)
    if lines:
        assert of("torchtune", [f"{line}{rate}" for line in log], gpus=2).rate == whole.rate
    else:  # a number with few digits may be torn
        with pytest.raises(InputError, match="no training line"):
            of("torchtune", [f"{line}{rate}" for line in log], gpus=2)


# nanochat


def test_nanochat_s_fine_tuning_prints_no_number_of_all_steps() -> None:
    tuned = [re.sub(r"^(step \d+)/\d+ ", r"\1 ", line) for line in lines_of("nanochat.log")]
    assert any("step 00007 (17.50%) | loss: " in line for line in tuned)
    found = of("nanochat", tuned)
    assert (found.verdict, found.gpus, found.training_lines) == ("valid", 8, 40)
    assert (found.warmup_iterations, "ends-early" in ids(found)) == (20, False)
    whole = of("nanochat", "nanochat.log", warmup=10)
    assert of("nanochat", tuned, warmup=10).rate == whole.rate


@pytest.mark.parametrize(("batches", "varies"), [((524288,), False), ((524288, 532480), True)])
def test_times_in_whole_milliseconds_are_no_batch_that_changes(
    batches: tuple[int, ...], varies: bool
) -> None:
    def line(step: int) -> str:
        seconds = 0.25 + 0.0001 * (step % 7)
        rate = int(batches[step % len(batches)] / seconds)
        times = f"dt: {1000 * seconds:.0f}ms | tok/sec: {rate:,}"
        return f"step {step:05d} ({step:.1f}%) | loss: 9.0 | {times}"

    found = of("nanochat", [line(step) for step in range(100)], gpus=1)
    assert (found.verdict, figure(found, "median") is None) == ("valid", varies)
    assert found.rate == pytest.approx(sum(batches) / len(batches) / 0.2503, rel=2e-3)


# MLPerf


def mlperf_event(seconds: float, key: str, value: object = None, **about: object) -> str:
    said = {"time_ms": 1000 * (seconds + 1), "key": key, "value": value}
    return f":::MLLOG {json.dumps(said | {'metadata': {'file': 't.py', 'lineno': 1} | about})}"


def test_minigo_has_no_figure() -> None:
    log = [x.replace("llama31_8b", "minigo") for x in lines_of("mlperf_throughput.log")]
    with pytest.raises(InputError, match="no training line"):
        of("mlperf", log, gpus=8)


def test_retinanet_s_rates_are_of_one_gpu_and_agree_with_its_epochs() -> None:
    found = of("mlperf", "mlperf_retinanet.log", gpus=8)
    # The epochs' 1,170,301 samples took 146.29 s each.
    assert found.rate == pytest.approx(1_170_301 / 146.2876, rel=1e-4)
    found = of("mlperf", "mlperf_retinanet.log", gpus=4)
    assert ids(found, "reject") == ["clock-mismatch", "summary-mismatch"]


@pytest.mark.parametrize(
    ("step", "batch", "known"),
    [
        (10, 32, True),
        (320, 32, True),
        (320, None, True),
        (320, None, False),
    ],
)
def test_what_mlperf_s_events_count_follows_from_their_times(
    step: int, batch: int | None, known: bool
) -> None:
    log = [] if batch is None else [mlperf_event(0, "global_batch_size", batch)]
    log += [
        mlperf_event(5 * n, "tracked_stats", {"throughput": 64.0}, step=step * n)
        for n in range(1, 31)
    ]
    found = of("mlperf", log, gpus=8, batch_size=4 if known else None)
    assert found.verdict == "valid"
    assert found.rate == pytest.approx(64.0)
    assert found.window is not None
    assert (found.window.seconds, found.iterations) == ((145.0, 290) if known else (None, 9280))


@pytest.mark.parametrize(
    ("log", "rejected"),
    [
        ("mlperf_throughput.log", ["clock-mismatch"]),
        ("mlperf_step_time.log", ["clock-mismatch"]),
        ("mlperf_retinanet.log", ["clock-mismatch", "summary-mismatch"]),
    ],
)
def test_events_of_mlperf_that_claim_more_than_passed_by_their_own_times_are_rejected(
    log: str, rejected: list[str]
) -> None:
    lines = lines_of(log)
    (begun,) = re.findall(r'time_ms": (\d+).*"run_start"', "\n".join(lines))

    def twice_as_fast(match: re.Match[str]) -> str:
        return f"{match[1]}{(int(begun) + int(match[2])) // 2}"

    fast = [re.sub(r'(time_ms": )(\d+)', twice_as_fast, line) for line in lines]
    assert ids(of("mlperf", lines, gpus=8), "reject") == []
    assert ids(of("mlperf", fast, gpus=8), "reject") == rejected


def test_the_rate_and_the_seconds_of_an_event_of_mlperf_are_those_of_its_batch() -> None:
    log = [
        re.sub(r'(train_step_time": )([\d.]+)', r"\g<1>1\2", line)
        for line in lines_of("mlperf_throughput.log")
    ]
    assert ids(of("mlperf", log, gpus=8), "reject") == ["batch-mismatch"]


@pytest.mark.parametrize("step", [1, 100])
def test_events_of_mlperf_whose_count_is_of_no_unit_by_their_times_are_rejected(step: int) -> None:
    log = [mlperf_event(0, "global_batch_size", 32)]
    log += [
        mlperf_event(5 * n, "tracked_stats", {"throughput": 64.0}, step=step * n)
        for n in range(1, 31)
    ]
    assert ids(of("mlperf", log, gpus=8), "reject") == ["clock-mismatch"]


def test_a_first_event_of_mlperf_that_holds_more_than_it_counts_does_not_tell_the_unit() -> None:
    """The program of U-Net3D counts epochs, and its first event is of 20, as the others."""
    log = [mlperf_event(0, "global_batch_size", 56), mlperf_event(0, "train_samples", 168)]
    log += [
        mlperf_event(6 * n, "tracked_stats", {"throughput": 560.0}, step=max(20 * (n - 1), 1))
        for n in range(1, 31)
    ]
    found = of("mlperf", log, gpus=8)
    assert (found.verdict, found.iterations) == ("valid", 29 * 60 - 3)


def test_figures_that_mlperf_repeats_behind_the_run_have_no_time() -> None:
    begin = [mlperf_event(0, "global_batch_size", 64), mlperf_event(0, "run_start")]
    end = mlperf_event(500, "run_stop", status="success")
    behind = [
        mlperf_event(510 + n / 10, "tracked_stats", {"throughput": 6400.0}, step=0.99)
        for n in range(8)
    ]
    assert of("mlperf", [*begin, end, *behind], gpus=8).verdict == "valid"


def test_rates_that_mlperf_states_of_the_job_are_no_gpu_s() -> None:
    log = [
        x.replace('"throughput": 1000.0', '"throughput": 8000.0')
        for x in lines_of("mlperf_retinanet.log")
    ]
    log = [x.replace('"throughput": 800.0', '"throughput": 6400.0') for x in log]
    found = of("mlperf", log, gpus=8)
    assert found.verdict == "valid"
    assert found.rate == pytest.approx(8000.0)


@pytest.mark.parametrize(
    ("rate", "rejected"), [(10_000.0, []), (800_000.0, ["clock-mismatch", "summary-mismatch"])]
)
def test_rates_far_above_the_samples_of_the_run_by_its_time_are_those_of_handing_out_work(
    rate: float, rejected: list[str]
) -> None:
    # Ten epochs of 1,281,167 samples in 1,500 s are 8,541 samples/s, evaluations included.
    event = mlperf_event
    log = [event(0, "global_batch_size", 3264), event(0, "train_samples", 1_281_167)]
    log.append(event(0, "run_start"))
    for epoch in range(1, 11):
        log.append(event(150 * epoch, "epoch_stop", epoch_num=epoch))
        log.append(event(150 * epoch, "tracked_stats", {"throughput": rate}, step=epoch))
    log.append(event(1500, "run_stop", status="success"))
    found = of("mlperf", log, gpus=8)
    assert ids(found, "reject") == rejected
    sentences = [one.sentence for one in found.reasons if one.id == "summary-mismatch"]
    assert all("800000" in sentence for sentence in sentences)


def mlperf_blocks(begin: float = 0.0, *, blocks: int = 8, step: int = 1) -> list[str]:
    """Return a run of blocks of 1,000 samples at 10/s, with evaluations of 10 s behind them.

    Events number the samples that were done ``step`` blocks before their end.
    """
    events = [mlperf_event(begin, "global_batch_size", 10), mlperf_event(begin, "run_start")]
    for number in range(blocks):
        at = begin + 110.0 * number
        done = 1000 * (number + 1)
        events += [
            mlperf_event(at, "block_start"),
            mlperf_event(at + 100, "tracked_stats", {"throughput": 10.0}, step=done - 1000 * step),
            mlperf_event(at + 100, "eval_start"),
            mlperf_event(at + 110, "eval_stop"),
        ]
    return [*events, mlperf_event(begin + 110.0 * blocks, "run_stop", status="success")]


@pytest.mark.parametrize("step", [0, 1])
def test_samples_that_mlperf_counts_at_the_begin_of_a_block_are_those_of_its_end(step: int) -> None:
    found = of("mlperf", mlperf_blocks(step=step), gpus=8)
    assert (found.verdict, found.iterations, present(found.window).seconds) == ("valid", 700, 700.0)


def test_two_runs_of_mlperf_in_one_log_are_two() -> None:
    found = of("mlperf", [*mlperf_blocks(), *mlperf_blocks(5000.0)], gpus=8)
    assert ids(found, "reject") == ["two-runs"]


def test_a_log_of_mlperf_without_the_end_of_an_epoch_states_no_rate_of_epochs() -> None:
    log = [mlperf_event(0, "train_samples", 6_513_144), *mlperf_blocks()]
    assert of("mlperf", log, gpus=8).verdict == "valid"


@pytest.mark.parametrize(("rate", "held"), [(10_000.0, ["20"]), (12_500.0, [])])
def test_a_rate_of_mlperf_says_which_evaluations_are_in_it(rate: float, held: list[str]) -> None:
    log = [
        mlperf_event(0, "global_batch_size", 1000),
        mlperf_event(0, "train_samples", 1_000_000),
        mlperf_event(0, "run_start"),
        mlperf_event(40, "eval_start"),
        mlperf_event(60, "eval_stop"),
        mlperf_event(100, "tracked_stats", {"throughput": rate}, epoch_num=1.0),
        mlperf_event(100, "run_stop", status="success"),
    ]
    found = of("mlperf", log, gpus=8)
    (said,) = (each for each in found.reasons if each.id == "summary-only")
    assert (found.rate, re.findall(r"(\d+) s of", said.sentence)) == (rate, held)


def test_rates_of_steps_whose_tokens_nothing_tells_have_no_mean() -> None:
    log = [
        f"Step {step} | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:{200 + step % 5 * 200}.1234567 "
        for step in range(1, 101)
    ]
    found = of("torchtune", log, gpus=1)
    assert ids(found, "reject") == ["batch-unverified"]
    assert present(found.unverified).time_weighted is None


def test_a_pipeline_s_rate_and_time_of_another_batch_than_the_head_s_are_rejected() -> None:
    head = "[2026-03-02 10:00:00,000] [INFO] [config.py:988:print]   train_batch_size ..... {}"
    lines = [
        f"steps: {step} loss: 2.99 iter time (s): 0.500 samples/sec: 64.000"
        for step in range(10, 410, 10)
    ]
    for batch, reasons in ((32, []), (320, ["batch-mismatch"])):
        found = of("deepspeed", [head.format(batch), *lines], gpus=8)
        assert ids(found, "reject") == reasons
