"""Every reason for and against a measurement, each with a log that has it and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from tests.unit.measure.support import FIXTURES, Lines, fixture, ids, measured, mmseg, run, tsm
from tests.unit.presence import present

STEADY = [0.5] * 8
STEADY_LINES = run(STEADY)
HEAD = "2026-03-02 09:59:00,000 - mmseg - INFO - "


# What was planned.


def test_two_statements_of_the_gpus_that_differ_are_rejected_with_both_lines() -> None:
    """A job on one node: the environment's variable counts nodes there."""
    log = (FIXTURES / "paddleseg.log").read_text(encoding="utf-8").splitlines()
    known: dict[str, Any] = {"format": "paddleseg", "batch_size": 2, "warmup": 10}
    found = measured(["PADDLE_TRAINERS_NUM=1", *log], gpus=None, **known)
    (reason,) = (each for each in found.reasons if each.severity == "reject")
    assert reason.id == "gpu-count"
    assert [place.text for place in reason.evidence] == ["GPUs used: 4", "PADDLE_TRAINERS_NUM=1"]
    assert found.gpus == 4
    right = measured(["PADDLE_TRAINERS_NUM=1", *log], gpus=4, **known)
    assert right.throughput == present(found.unverified)
    assert ids(right, "reject") == []
    assert ids(measured(["PADDLE_TRAINERS_NUM=1", *log], gpus=1, **known), "reject") == [
        "gpu-count"
    ]
    # The launcher's count is one of processes: giving another settles nothing.
    box = "    |      PADDLE_TRAINERS_NUM         8        |"
    assert ids(measured([box, *log], gpus=4, **known), "reject") == ["gpu-count"]
    assert ids(measured(["PADDLE_TRAINERS_NUM=4", *log], gpus=None, **known), "reject") == []


def test_an_environment_that_program_and_launcher_overrule_is_not_compared() -> None:
    """It counts nodes, or is that of another shell."""
    log = (FIXTURES / "paddleseg.log").read_text(encoding="utf-8").splitlines()
    lines = ["PADDLE_TRAINERS_NUM=1", "    |      PADDLE_TRAINERS_NUM         4        |", *log]
    found = measured(lines, format="paddleseg", gpus=None, batch_size=2, warmup=10)
    assert (found.gpus, found.verdict, "gpu-count" in ids(found)) == (4, "valid", False)


def video(config: int | None, factor: float = 1) -> list[str]:
    """PaddleVideo's log of 16 clips per card, its rates multiplied; what its configuration says."""
    lines = [
        re.sub(r"ips: ([\d.]+)", lambda rate: f"ips: {float(rate[1]) * factor:.5f}", line)
        for line in fixture("paddlevideo.log")
    ]
    stated = [] if config is None else [f"[03/02 10:00:00]     batch_size : {config} "]
    return ["[03/02 10:00:00]     valid_batch_size : 1 ", *stated, *lines]


@pytest.mark.parametrize(
    ("lines", "batch_size", "rejected"),
    [
        (video(16), None, []),
        (video(16, factor=1.0203), 16, []),
        (video(None), 16, []),
        (video(16, factor=8), None, ["batch-mismatch"]),
        (video(None, factor=8), 16, ["batch-size"]),
        (video(None, factor=17 / 16), 16, ["batch-size"]),
        (video(16, factor=1.1), None, ["batch-mismatch", "summary-mismatch"]),
        (video(None, factor=1.1), 16, ["batch-mismatch", "summary-mismatch"]),
        (video(None, factor=8), None, []),  # then nothing shows it
    ],
)
def test_rates_of_one_card_that_were_multiplied_by_the_gpus_are_rejected(
    lines: list[str], batch_size: int | None, rejected: list[str]
) -> None:
    known: dict[str, Any] = {"format": "paddlevideo", "gpus": 8, "warmup": 20}
    assert ids(measured(lines, batch_size=batch_size, **known), "reject") == rejected


def test_a_resumed_log_of_paddleclas_is_one_run() -> None:
    """The program appends to its log when it goes on from a checkpoint."""
    lines = fixture_text("paddleclas_dygraph.log").splitlines()
    loaded = "[2026/03/02 11:00:00] ppcls INFO: Finish load checkpoints from ./output/epoch_1"
    second = [line.replace("02 10:", "02 11:") for line in lines if "Epoch 2/2" in line]
    known: dict[str, Any] = {"format": "paddleclas", "gpus": 2, "batch_size": None, "warmup": 20}
    found = measured([*lines[:-3], loaded, *second], **known)
    assert (ids(found, "reject"), "restarted" in ids(found, "warn")) == ([], True)
    assert "iterations-back" in ids(measured([*lines[:-3], *second], **known), "reject")


def test_without_any_word_on_gpus_there_is_an_error_that_asks_for_them() -> None:
    with pytest.raises(Exception, match="--gpus"):
        measured(run(STEADY), gpus=None)


def test_times_without_a_batch_have_no_figure_and_say_what_to_pass() -> None:
    lines = [tsm(0, s, 0.5, 0.5) for s in range(0, 200, 20)]
    found = measured(lines, format="tsm", batch_size=None)
    assert (found.throughput, found.unverified) == (None, None)
    assert ids(found, "reject") == ["batch-unknown"]
    assert "--batch-size" in found.missing["throughput"]


def test_a_printed_configuration_without_amp_is_no_log_of_amp() -> None:
    found = measured([HEAD + "Config:", *run(STEADY)], precision="amp")
    assert (found.precision, found.precision_effective, found.amp_dtype) == ("fp32", "fp32", None)
    (reason,) = found.reasons
    assert (reason.id, reason.severity) == ("precision", "reject")
    assert [place.line for place in reason.evidence] == [1]
    assert ids(measured([HEAD + "Config:", *run(STEADY)], precision="fp32")) == []
    assert measured([HEAD + "Config:", *run(STEADY)]).precision == "fp32"


# What a log says more than once.


def fixture_text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


MISMATCH = "batch-mismatch"
SEG: dict[str, Any] = {"format": "paddleseg", "gpus": None, "batch_size": None}


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("paddleseg.log", r"ips: (\d+\.\d+) samples"),
        ("paddleclas_2020.log", r"ips: (\d+\.\d+) images"),
        ("paddleclas_running.log", r"ips: (\d+\.\d+) "),
        ("paddlevideo.log", r"ips: (\d+\.\d+) instance"),
    ],
)
def test_rate_times_seconds_is_one_batch_in_all_lines(name: str, rate: str) -> None:
    family = name.partition("_")[0].removesuffix(".log")
    known: dict[str, Any] = {"format": family, "gpus": None, "batch_size": None}
    if name in {"paddlevideo.log", "paddleclas_running.log"}:
        known["gpus"] = 1
    text = fixture_text(name)
    assert MISMATCH not in ids(measured(text.splitlines(), **known))
    found = list(re.finditer(rate, text))
    middle = found[len(found) // 2]
    faster = f"{float(middle[1]) * 1.1:.5f}"
    edited = text[: middle.start(1)] + faster + text[middle.end(1) :]
    changed = measured(edited.splitlines(), **known)
    (reason,) = (each for each in changed.reasons if each.id == MISMATCH)
    assert [faster in place.text for place in reason.evidence] == [True]


def test_the_last_line_of_an_epoch_may_be_of_a_smaller_batch() -> None:
    def line(epoch: int, step: int, rate: float) -> str:
        return (
            f"2026-03-02 10:0{epoch}:{step:02d} INFO: epoch:{epoch}   train step:{step}    "
            f"loss:  7.0000 lr: 0.1 elapse: 0.100s ips: {rate:.5f} images/sec."
        )

    def of(smaller: int) -> list[str]:
        lines = [
            line(epoch, step, 320.0 if step != smaller else 160.0)
            for epoch in (0, 1)
            for step in range(10)
        ]
        return ids(measured(lines, format="paddleclas", batch_size=None))

    assert MISMATCH not in of(9)
    assert MISMATCH in of(5)


def test_paddleclas_states_its_batch_in_its_head_per_card_or_of_the_job() -> None:
    known: dict[str, Any] = {"format": "paddleclas", "gpus": None, "batch_size": None}
    old = fixture_text("paddleclas_2020.log")
    assert MISMATCH not in ids(measured(old.splitlines(), **known))
    other = measured(old.replace("batch_size : 256", "batch_size : 512").splitlines(), **known)
    assert MISMATCH in ids(other, "reject")
    head = "[2026/03/02 10:00:00] ppcls INFO:     "
    train = [head + "Train : ", head + "        batch_size : 64", head + "Infer : "]
    new = fixture_text("paddleclas_running.log").splitlines()
    for size, expected in ((64, []), (48, [MISMATCH])):
        train[1] = head + f"        batch_size : {size}"
        lines = [*new[:4], *train, head + "    batch_size : 10", *new[4:]]
        found = measured(lines, **(known | {"gpus": 1}))
        assert found.batch_size_per_gpu == size
        assert [each for each in ids(found) if each == MISMATCH] == expected


@pytest.mark.parametrize(
    ("samples", "gpus", "expected"),
    [
        (1600, 1, []),
        (1584, 1, []),
        (1583, 1, ["batch-mismatch"]),
        (1616, 1, []),
        (1617, 1, ["batch-mismatch"]),
        (12800, 8, []),
        (1600, 8, ["batch-mismatch"]),
    ],
)
def test_the_data_set_by_the_steps_of_an_epoch_is_the_jobs_batch(
    samples: int, gpus: int, expected: list[str]
) -> None:
    """A hundred steps of 16, of which the last may be smaller or left out."""
    head = f"- AI-Rank-log 1618109465.579 load_data, checksum:{samples}"
    lines = [tsm(0, step, 0.5, 0.5) for step in range(0, 100, 10)]
    known: dict[str, Any] = {"format": "tsm", "gpus": gpus, "batch_size": 16}
    found = ids(measured([head, *lines], **known))
    assert [each for each in found if each == MISMATCH] == expected
    # A hash is not a size.
    hashed = [head.replace(str(samples), "37724b19b6e5d41f"), *lines]
    assert MISMATCH not in ids(measured(hashed, **known))


def test_a_log_whose_data_set_tells_the_samples_of_a_step_needs_one_of_gpus_and_batch() -> None:
    head = "- AI-Rank-log 1618109465.579 load_data, checksum:{}"
    lines = [head.format(234584), *(tsm(0, step, 0.5, 0.5, total=1832) for step in range(0, 99, 9))]
    known: dict[str, Any] = {"format": "tsm", "gpus": None, "batch_size": None, "by_user": True}
    both = measured(lines, **(known | {"gpus": 8, "batch_size": 16}))
    assert both.environment["global_batch"] == 128
    # Either confirms the other.
    assert ids(both) == []
    for name, size, remarked in (
        ("gpus", 8, "gpus-unverified"),
        ("batch_size", 16, "batch-unverified"),
    ):
        found = measured(lines, **(known | {name: size}))
        assert (found.gpus, found.batch_size_per_gpu, ids(found)) == (8, 16, [remarked])
        assert found.throughput == both.throughput
    with pytest.raises(Exception, match="only that a step of all of them has 128 samples"):
        measured(lines, **known)
    # 2975 samples in 8 steps are 331 to 425 for each.
    vague = [head.format(2975), *(tsm(0, step, 0.5, 0.5, total=8) for step in range(8))]
    with pytest.raises(Exception, match=r"how many GPUs the job had\."):
        measured(vague, **known)
    found = measured(vague, **(known | {"gpus": 8}))
    assert "batch-unknown" in ids(found)
    assert "global_batch" not in found.environment


@pytest.mark.parametrize(
    ("rate", "batch"),
    [
        *((10.0, 4), (10.2, 4), (9.8, 4), (10.25, None), (9.75, None), (10.4, None)),
        *((40.8, 16), (40.9, None), (61.0, 24), (61.25, 24), (2.5, 1), (1.0, None)),
    ],
)
def test_rate_times_seconds_is_a_batch_where_it_is_nearly_a_whole_number(
    rate: float, batch: int | None
) -> None:
    """Within 2 % and a hundredth; seconds of 0.4."""
    lines = [
        f"[TRAIN] epoch: 1, iter: {i}/100, loss: 1.0000, lr: 0.01, batch_cost: 0.4000, "
        f"reader_cost: 0.00100, ips: {rate:.4f} samples/sec | ETA 00:00:10"
        for i in range(10, 101, 10)
    ]
    found = measured(lines, format="paddleseg", batch_size=None)
    assert found.batch_size_per_gpu == batch


def paddleseg(gpus: int, steps: int, last: int) -> list[str]:
    """A log of batch 4 per GPU, an epoch of which has so many steps, up to an iteration."""
    lines = [f"GPUs used: {gpus}", "batch_size: 4"]
    for iteration in range(last // 10, last + 1, last // 10):
        epoch = (iteration - 1) // steps + 1
        lines.append(
            f"[TRAIN] epoch: {epoch}, iter: {iteration}/{last}, loss: 1.0000, lr: 0.01, "
            "batch_cost: 0.4000, reader_cost: 0.00100, ips: 10.0000 samples/sec | ETA 00:00:10"
        )
    return lines


@pytest.mark.parametrize(("total", "gpus"), [("256", 8), ("32", 1), ("250", None)])
def test_a_stated_batch_of_the_job_tells_the_gpus(total: str, gpus: int | None) -> None:
    text = fixture_text("paddleclas_2020.log").replace("batch_size : 256", f"batch_size : {total}")
    lines = [line for line in text.splitlines() if "PADDLE_TRAINERS_NUM" not in line]
    known: dict[str, Any] = {"format": "paddleclas", "batch_size": None, "by_user": True}
    if gpus is None:
        with pytest.raises(Exception, match="how many GPUs the job had"):
            measured(lines, gpus=None, **known)
        assert MISMATCH in ids(measured(lines, gpus=8, **known))
        return
    found = measured(lines, gpus=None, **known)
    assert (found.gpus, MISMATCH in ids(found)) == (gpus, False)
    assert "gpus-unverified" not in ids(measured(lines, gpus=gpus, **known))


def test_epochs_do_not_count_where_iterations_go_on_through_them() -> None:
    known: dict[str, Any] = {"format": "paddleseg", "gpus": None, "batch_size": None, "warmup": 500}
    lines = paddleseg(1, 50, 1000)
    # Each of its records ends an epoch; of the first one here only the second tells the length.
    resumed = measured([*lines[:2], *lines[7:]], **known)
    assert (resumed.iterations, ids(resumed)) == (500, [])
    lines[9] = lines[9].replace("ips: 10.0000", "ips: 11.0000")
    assert MISMATCH in ids(measured(lines, **known), "reject")
    # Two files that both begin with the first iterations are two runs.
    first = paddleseg(1, 50, 1000)
    second = [line.replace("/1000", "/2000") for line in first]
    both = measure([Lines(first), Lines(second)], Expectation(format="paddleseg", warmup=0))
    assert "two-runs" in ids(both, "reject")


# What the lines say among themselves.


def test_a_resumed_run_is_remarked_and_counts_iterations_once() -> None:
    lines = [
        *run([0.5] * 6, total=100),
        HEAD + "resumed from epoch: 0, iter 40",
        *run([0.5] * 6, first=40, at=500, total=100),
    ]
    found = measured(lines)
    assert (found.verdict, ids(found)) == ("valid", ["restarted"])
    assert (found.iterations, found.records) == (100, 10)
    # The first new record behind the restart is not a steady one.
    assert [place.line for place in present(found.window).left_out] == [10]


def dle(total: str) -> list[str]:
    lines = [
        f"DLL 2026-03-02 10:00:{i:02d}.000000 - Epoch: 0 Iteration: {i}  train.loss : 7.00000  "
        "train.total_ips : 128.00 img/s"
        for i in range(1, 11)
    ]
    lines.append(
        "DLL 2026-03-02 10:00:11.000000 - Epoch: 0  train.loss : 7.0  "
        f"train.total_ips : {total} img/s"
    )
    return lines


LONG = run([0.5] * 12)
VALIDATED = "2026-03-02 10:00:25,000 - mmseg - INFO - Iter(val) [50]\tmIoU: 0.5000, aAcc: 0.9"
NAN_FIRST = [STEADY_LINES[0].replace("2.0000", "nan"), *STEADY_LINES[1:]]
RANKS = [f"[1,{rank}]<stdout>:{line}" for line in STEADY_LINES for rank in (0, 1)]
RESUMED = [HEAD + "resumed from epoch: 0, iter 4000", *run(STEADY, first=4000)]
EPOCHS, OTHER_EPOCHS = (
    [tsm(e, s, 0.5, 0.5) for e in numbers for s in range(0, 100, 20)]
    for numbers in ((0, 1), (0, 2))
)
EVERY_TENTH = "    interval=10, hooks=[dict(type='TextLoggerHook', by_epoch=False)])"


def two_steps(samples: int) -> list[str]:
    """Epochs of two steps of 16, of which a further one may be left out or the second be small."""
    head = f"- AI-Rank-log 1618109465.579 load_data, checksum:{samples}"
    return [head, *(tsm(e, s, 0.5, 0.5, total=2) for e in range(5) for s in range(2))]


def printed_as_the_epochs_mean(count: int) -> list[str]:
    lines = [
        f"2026-03-02 10:00:{i:02d} INFO: epoch:0   train step:{i:<4} loss:  7.0 top1: 0.0 "
        "lr: 0.1 elapse: 1.000s ips: 32.00000 images/sec."
        for i in range(count)
    ]
    lines.append(
        f"2026-03-02 10:00:{count} INFO: END epoch:0   train loss:  6.0 top1: 0.0  "
        f"elapse_sum: {count}.000s ips: 32.00000 images/sec."
    )
    return lines


SAID: dict[str, Any] = {"gpus": 8, "precision": "amp", "by_user": True}
UNSTATED = ["gpus-unverified", "batch-unverified", "precision-unverified"]
STATED = [
    *(HEAD + "Config:", "gpu_ids = range(0, 8)", "fp16 = dict(loss_scale=512.)"),
    *("    samples_per_gpu=4,", *STEADY_LINES),
]
ALL_RANKS = [f"[1,{rank}]<stdout>:{line}" for line in STEADY_LINES for rank in range(8)]
PLANNED: dict[str, Any] = {"benchmark": "deeplabv3p", "model": "DeepLabV3+"}
NAMED = PLANNED | {"logged_models": ("depthwiseseparableaspphead",)}
TWO_GPUS: dict[str, Any] = {"gpus": 2, "by_user": True}
HEADLESS = ["gpu_ids = range(0, 2)", "samples_per_gpu=4,", *STEADY_LINES]
OTHER_HEAD, RIGHT_HEAD = (
    [f"type='{head}'", *HEADLESS] for head in ("FCNHead", "DepthwiseSeparableASPPHead")
)
OF_TWO: dict[str, Any] = {"format": "tsm", "batch_size": 16}
BY_CATALOG: dict[str, Any] = {"batch_size": None, "batch_sizes": {"fp32": 2, "amp": 4}}
MEANS: dict[str, Any] = {"format": "paddleclas", "batch_size": None}
LINES: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {
    "lines are lost behind the first": ([*LONG[:1], *LONG[4:]], {}, ["iterations-missing"]),
    "an evaluation stands behind the first": ([*LONG[:1], VALIDATED, *LONG[2:]], {}, []),
    "every second line is lost": ([EVERY_TENTH, LONG[0], *LONG[1::2]], {}, ["iterations-missing"]),
    "every tenth iteration has a line": ([EVERY_TENTH, *LONG], {}, []),
    "every twentieth iteration has a line": (LONG[1::2], {}, []),
    "every twentieth has one, then every tenth": ([*LONG[1:6:2], *LONG[6:]], {}, []),
    "ranks of another total": ([*RANKS[::2], *LONG], {"gpus": 2}, ["two-runs"]),
    "a line is lost before the window": ([*LONG[:1], *LONG[2:]], {"warmup": 30}, []),
    "a line is lost behind it": ([*LONG[:9], *LONG[10:]], {"warmup": 10, "iterations": 80}, []),
    "the head is cut off": (run(STEADY, first=4000), {"warmup": 20}, ["iterations-missing"]),
    "it says that it resumes": (RESUMED, {"warmup": 20}, ["restarted"]),
    "mmcv prints an evaluation in place of a record": ([*LONG[:4], VALIDATED, *LONG[5:]], {}, []),
    "an evaluation explains no second line": (
        [*LONG[:4], VALIDATED, *LONG[6:]],
        {},
        ["iterations-missing"],
    ),
    "the end of an epoch is in no record": (EPOCHS, {"format": "tsm"}, []),
    "a line is lost at the end of an epoch": (
        [*EPOCHS[:4], *EPOCHS[5:]],
        {"format": "tsm"},
        ["iterations-missing"],
    ),
    "an epoch is missing": (OTHER_EPOCHS, {"format": "tsm"}, ["iterations-missing"]),
    "the last interval is shorter": (run(STEADY, total=85), {}, []),
    "the same log twice": ([*STEADY_LINES, *STEADY_LINES], {}, ["repeated-lines"]),
    "steps behind the last": (dle("149.00"), {"format": "dle-resnet50", "batch_size": 128}, []),
    "more ranks than GPUs": (RANKS, {"gpus": 1}, ["gpu-count"]),
    "as many ranks as GPUs": (RANKS, {"gpus": 2}, []),
    "a format alone has no model": (
        ["        type='FCNHead',", *STEADY_LINES],
        {"model": "DeepLabV3+"},
        [],
    ),
    # What a user says of a log, and the log does not.
    "it states nothing": (STEADY_LINES, SAID, UNSTATED),
    "it states all": (STATED, SAID, []),
    "a run that was started with these values": (STEADY_LINES, SAID | {"by_user": False}, []),
    "as many ranks as are said": (ALL_RANKS, SAID, UNSTATED[1:]),
    "it names no model": (HEADLESS, NAMED | TWO_GPUS, ["model-unverified"]),
    "the catalog knows no names": (OTHER_HEAD, PLANNED | TWO_GPUS, ["model-unverified"]),
    "a run of our own names no model": (HEADLESS, NAMED | {"gpus": 2}, []),
    "another model": (OTHER_HEAD, NAMED | TWO_GPUS, ["other-benchmark"]),
    "the benchmark's model": (RIGHT_HEAD, NAMED | TWO_GPUS, []),
    # Batches.
    "none of the catalog's": (
        ["samples_per_gpu=1,", *STEADY_LINES],
        PLANNED | BY_CATALOG,
        ["batch-size"],
    ),
    "one of the catalog's": (["samples_per_gpu=2,", *STEADY_LINES], PLANNED | BY_CATALOG, []),
    "two steps of fewer samples": (two_steps(15), OF_TWO, ["batch-mismatch"]),
    "one full step and a small one": (two_steps(16), OF_TWO, []),
    "three steps, one of them left out": (two_steps(48), OF_TWO, []),
    "two steps of more samples": (two_steps(49), OF_TWO, ["batch-mismatch"]),
    # Few steps may be as fast as all of them by chance.
    "nineteen steps like the mean": (printed_as_the_epochs_mean(19), MEANS, []),
    "twenty steps like it": (printed_as_the_epochs_mean(20), MEANS, ["printed-running-mean"]),
    "a loss that is no number in the warm-up": (NAN_FIRST, {"warmup": 10}, ["loss-not-finite"]),
}
REMARKS = {"restarted", "repeated-lines", "model-unverified", "printed-running-mean", *UNSTATED}


@pytest.mark.parametrize("case", LINES)
def test_a_log_has_the_reasons_of_its_lines(case: str) -> None:
    lines, known, expected = LINES[case]
    found = measured(lines, **known)
    assert ids(found) == expected
    is_remarked = {*expected} <= REMARKS or "warm-up" in case
    assert found.verdict == ("valid" if is_remarked else "rejected")


def test_a_last_loss_that_is_no_number_is_absent_with_the_reason() -> None:
    lines = run(STEADY)
    lines[-1] = mmseg(80, 0.5, at=40, loss="nan", total=80)
    found = measured(lines)
    assert found.final_loss is None
    assert "nan" in found.missing["final_loss"]


# The log's own summary.


def paddleclas(mean: float, total: float) -> list[str]:
    lines = [
        f"[2026/03/02 10:00:{s // 10:02d}] ppcls INFO: epoch:0   train step:{s:<4} lr: 0.1, "
        f"loss:  5.0000 top1:  0.0 batch_cost: 0.10000 s, reader_cost: 0.00100 s, "
        "ips: 640.00000 samples/sec."
        for s in range(0, 100, 10)
    ]
    lines.append(
        "[2026/03/02 10:00:10] ppcls INFO: END epoch:0   train  loss:  4.0 top1:  0.0 "
        f"batch_cost: {mean:.5f} s, reader_cost: 0.00100 s, batch_cost_sum: {total:.5f} s, "
        "ips: 21.60906 images/sec."
    )
    return lines


@pytest.mark.parametrize(
    ("mean", "total", "expected"),
    [
        (0.1, 9.5, []),
        # Nine iterations behind the last record at double the time.
        (0.10947, 10.4, []),
        (0.2, 19.0, ["summary-mismatch"]),
        (0.05, 4.75, ["summary-mismatch"]),
        (0.0, 9.5, []),  # says nothing
        (0.1, 0.0, []),
    ],
)
def test_an_epochs_sum_must_go_on_from_its_running_means(
    mean: float, total: float, expected: list[str]
) -> None:
    """Its ips is that of another batch in public logs, and is not looked at."""
    found = measured(paddleclas(mean, total), format="paddleclas", batch_size=None)
    assert {*ids(found, "reject")} - {"below-median"} == {*expected}


def test_single_steps_far_from_the_mean_over_all_steps_are_remarked() -> None:
    """80 clips/s in the printed steps but one of 4 s, 72.7 in all of them."""
    lines = paddlevideo(1, [0.1] * 8, 161 * 0.2)
    known: dict[str, Any] = {"format": "paddlevideo", "batch_size": 16}
    found = measured(lines, warmup=20, **known)
    assert (found.verdict, found.estimator) == ("valid", "printed_steps")
    assert "sampled-steps" in ids(found, "warn")
    # The mean of the printed rates is 71.6; 69.6 and 73.6 lie within 5 % of it, 67.8 does not.
    for total, far in ((37.0, False), (35.0, False), (38.0, True)):
        found = measured(paddlevideo(1, [0.2] * 8, total), warmup=20, **known)
        assert ("sampled-steps" in ids(found)) == far
    # Without a warm-up the epoch lies in the window, and the figure is of all its steps.
    assert "sampled-steps" not in ids(measured(lines, warmup=0, **known))


def paddlevideo(epoch: int, seconds: list[float], total: float, steps: int = 161) -> list[str]:
    """An epoch of 16 clips a step, whose first step took 4 s and whose every 20th is printed."""
    lines = [
        f"[03/02 10:{epoch:02d}:{index:02d}] epoch:[ {epoch:2}/50 ] train step:{index * 20} "
        f"loss: 6.0 lr: 0.08 top1: 0.1 top5: 0.2 elapse: {each:.3f} reader: 0.001s "
        f"ips: {16 / each:.5f} instance/sec."
        for index, each in enumerate([4.0, *seconds])
    ]
    lines.append(
        f"[03/02 10:{epoch:02d}:40] END epoch:{epoch} train loss_avg: 5.0 top1_avg: 0.1 "
        f"elapse_avg: {total / steps:.3f} reader_avg: 0.010 elapse_sum: {total:.3f}s "
        f"ips: {16 * steps / total:.5f} instance/sec."
    )
    return lines


def test_an_epochs_total_is_the_headline_where_single_steps_are_printed() -> None:
    """The printed steps over-weight the first: 9 steps in 5.6 s, all 161 in 36 s."""
    lines = paddlevideo(1, [0.2] * 8, 36.0)
    known: dict[str, Any] = {"format": "paddlevideo", "gpus": 2, "batch_size": 16}
    known["accept"] = ("below-median",)
    found = measured(lines, **known)
    figures, window = present(found.throughput), present(found.window)
    assert (found.estimator, found.iterations, found.records) == ("time_weighted", 161, 9)
    assert found.rate == figures.time_weighted_steady == pytest.approx(2 * 16 * 161 / 36)
    assert figures.printed_steps == pytest.approx(2 * 16 * 9 / 5.6)
    assert (window.first_iteration, window.last_iteration) == (1, 161)
    assert window.seconds == pytest.approx(36.0)
    # Of three epochs, the one that begins in the warm-up does not count.
    two = [line for epoch in (2, 3) for line in paddlevideo(epoch, [0.2] * 8, 32.0, 160)]
    found = measured([*lines, *two], warmup=20, **known)
    assert (found.iterations, present(found.window).first_iteration) == (320, 162)
    assert found.rate == pytest.approx(2 * 16 / 0.2, rel=1e-6)
    # Without a total only the printed steps are known, and the name says so.
    found = measured(lines[1:-1], **known)
    assert (found.estimator, found.iterations) == ("printed_steps", 8)
    assert ids(found, "reject") == []
    assert found.rate == pytest.approx(2 * 16 / 0.2)
    # Another rank's line of the same epoch counts once.
    assert measured([*lines, lines[-1]], **known).iterations == 161


@pytest.mark.parametrize(
    ("every", "estimator"), [(1, "time_weighted"), (2, "printed_steps"), (20, "printed_steps")]
)
def test_single_steps_are_all_steps_where_each_is_printed(every: int, estimator: str) -> None:
    lines = [
        f"[03/02 10:00:{i:02d}] epoch:[  1/50 ] train step:{i * every} loss: 6.0 lr: 0.08 "
        "top1: 0.1 top5: 0.2 elapse: 0.200 reader: 0.001s ips: 80.00000 instance/sec."
        for i in range(10)
    ]
    assert measured(lines, format="paddlevideo", batch_size=16).estimator == estimator


@pytest.mark.parametrize(("epoch", "missing"), [(0, None), (1, 100), (3, 300)])
def test_a_log_that_begins_in_a_later_epoch_lacks_those_before(
    epoch: int, missing: int | None
) -> None:
    lines = [tsm(epoch, step, 0.5, 0.5) for step in range(0, 100, 10)]
    found = measured(lines, format="tsm", batch_size=16)
    assert ids(found, "reject") == ([] if missing is None else ["iterations-missing"])
    if missing is not None:
        assert f"{missing} iterations of the window" in found.reasons[0].sentence


@pytest.mark.parametrize(("total", "steps"), [(36.0, 322), (18.0, 80), (36.0, 100)])
def test_an_epochs_total_of_other_steps_than_the_lines_is_rejected(
    total: float, steps: int
) -> None:
    lines = paddlevideo(1, [0.2] * 8, total, steps)
    found = measured(lines, format="paddlevideo", batch_size=16)
    assert "summary-mismatch" in ids(found, "reject")
    assert (found.estimator, found.iterations) == ("printed_steps", 9)


def test_a_first_step_that_is_in_no_running_mean_is_in_no_figure() -> None:
    """A line per step from the second on, whose mean is of that step; anew at step 5."""
    seconds = [0.0, 3.6, *[0.2] * 28]
    lines = []
    for step in range(1, 30):
        since = seconds[1 : step + 1] if step < 5 else seconds[5 : step + 1]
        lines.append(
            f"2026-03-02 10:00:{int(sum(seconds[: step + 1])):02d} INFO: epoch:0   train "
            f"step:{step} loss:  6.9 lr: 0.1, batch_cost: {sum(since) / len(since):.5f} s, "
            f"reader_cost: 0.00037 s, ips: {20 * len(since) / sum(since):.5f} images/sec."
        )
    accept = ("below-median",)
    found = measured(lines, format="paddleclas", batch_size=None, accept=accept)
    assert ids(found) == ["below-median"]
    assert (found.records, found.iterations) == (29, 29)
    assert found.rate == pytest.approx(20 * 29 / (3.6 + 28 * 0.2), rel=1e-4)


def test_the_steps_after_an_epochs_last_line_are_in_its_total() -> None:
    """Ten lines up to iteration 91; the total says 95 since step 5, in 9.5 s and 12.5 s."""
    for total in (9.5, 12.5):
        lines = paddleclas(total / 95, total)
        second = [line.replace("epoch:0", "epoch:1").replace(" 10:", " 11:") for line in lines]
        lines = [*paddleclas(0.1, 9.5), *second]
        found = measured(lines, format="paddleclas", batch_size=None)
        assert present(found.window).last_iteration == 200
        assert found.rate == pytest.approx(64 * 192 / (9.7 + total))
        # The window's end may lie between the last line and the end of the epoch.
        cut = measured(lines, format="paddleclas", batch_size=None, warmup=0, iterations=195)
        assert present(cut.window).last_iteration == 191


@pytest.mark.parametrize(
    ("warmup", "first"),
    [
        (0, 1),
        (1, 6),  # The next four steps are in no mean.
        (81, 82),
        (82, 92),  # The record at 91 begins in the warm-up.
        (91, 92),  # Of the epoch its rest alone lies in the window.
        (92, 101),
        (105, 106),
    ],
)
def test_the_window_begins_with_the_first_record_or_rest_of_an_epoch_in_it(
    warmup: int, first: int
) -> None:
    second = [line.replace("epoch:0", "epoch:1") for line in paddleclas(0.1, 9.5)]
    lines = [*paddleclas(0.1, 9.5), *second]
    window = present(measured(lines, format="paddleclas", batch_size=None, warmup=warmup).window)
    assert (window.first_iteration, window.last_iteration) == (first, 200)
