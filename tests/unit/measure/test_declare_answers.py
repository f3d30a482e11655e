"""Templates of ``measure LOG --declare``: with the right answers each measures its log, and what
the log disproves is rejected."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from k8sbench.reader import numbered_lines
from tests.reader.declarable import stamped
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.measure.declaring import answered, questions, template_of

LOGS = ROOT / "tests" / "fixtures" / "templates"
TIME = {"unit": "s/step", "iteration_counts": "steps"}
JOB = {"per": "job", "averaged": "interval", "iteration_counts": "steps"}
CARD = {**JOB, "per": "card"}
TOKENS = {"sample": "tokens", "unit": "tokens/s"}


def lines_in(name: str) -> list[str]:
    return numbered_lines.first_lines([(LOGS / f"{name}.log").read_text()])


class Row(NamedTuple):
    """The answers to a template, and the figure of its log."""

    answers: dict[str, str]
    rate: float
    """By hand, to half a percent."""
    options: str = "--gpus 1"


OPENCLIP = {
    "sample": "samples",
    "batch_size": "64",
    "per": "job",
    "averaged": "interval",
    "iteration_counts": "samples",
    "sequence_length": "null",
    "warmup": "400",
}
NANOTRON = Row(
    {
        **TOKENS,
        "batch_size": "32",
        "per": "job",
        "averaged": "step",
        "sequence_length": "4096",
        "speed": "tokens_per_sec 21.8K",
    },
    21_800.0,
    "--gpus 2",
)
FILES = {
    "data_first": Row({"batch_size": "8", **TIME, "averaged": "step"}, 8 / 0.5123),
    "reader_first": Row(
        {"batch_size": "8", "averaged": "step", "iteration_counts": "steps"}, 8 / 0.5123
    ),
    "decl_kv": Row({"batch_size": "8", **JOB}, 520.0),
    "decl_tok": Row({"batch_size": "4096", **JOB, "sequence_length": "null"}, 52_000.0),
    "decl_lightning": Row({"batch_size": "8", **JOB}, 8 * 3.44),
    "swin": Row(
        {"batch_size": "128", **TIME, "averaged": "step", "epoch": "INFO Train"}, 128 / 0.35
    ),
    "ktokens": Row(
        {**TOKENS, "batch_size": "32", **JOB, "speed": "throughput", "sequence_length": "3812"},
        122_000.0,
    ),
    "paddlegan_epoch_label": Row(
        {
            "sample": "images",
            "unit": "images/s",
            "batch_size": "4",
            **CARD,
            "speed": "ips",
            "sequence_length": "null",
        },
        8.0,
    ),
    "litgpt_val": Row(
        {"batch_size": "16", "iteration": "iter", "averaged": "step", "iteration_counts": "steps"},
        160.0,
    ),
    "openclip": Row(
        {
            **OPENCLIP,
            "speed": "Batch (t)",
            "unit": "s/step",
        },
        128.0,
    ),
    "automodel": Row(
        {
            **TOKENS,
            "batch_size": "2048",
            "per": "job",
            "averaged": "interval",
            "sequence_length": "null",
        },
        8192.0,
        "--gpus 8",
    ),
    "verl": Row(
        {
            **TOKENS,
            "batch_size": "500000",
            "per": "card",
            "averaged": "step",
            "sequence_length": "null",
            "speed": "perf/throughput",
        },
        20_619.0,
        "--gpus 4",
    ),
    "nanotron_k": NANOTRON,
}

K_TIME = {**NANOTRON.answers, "unit": "ms/step", "speed": "elapsed_time_per_iteration_ms 12K"}

STEPS = {"batch_size": "8", "averaged": "interval", "iteration_counts": "steps"}
TWO_RATES = [
    f"Step {50 * n}/ 5000; {4466 + n % 2}/{6180 + (n - 1) % 3} tok/s; {32 * n:6d} sec"
    for n in range(1, 40)
]
FORMS: dict[str, tuple[list[str], Row]] = {
    "a time in thousands": (lines_in("nanotron_k"), NANOTRON._replace(answers=K_TIME)),
    "a time of several steps": (
        stamped("{at} Iter: {step} Time(100 iters): 0.500000s Loss: {loss}", 0.5, every=100),
        Row({**STEPS, "unit": "s/step", "speed": "iters) 0.500000s", "steps": "100 iters"}, 1600.0),
    ),
    "a mean of several steps": (
        stamped("step {step} loss {loss} took 0.250s (mean over 20 steps)", 5, every=20),
        Row({**STEPS, "steps": ""}, 32.0),
    ),
    "a mean of the last steps": (
        stamped("step {step} loss {loss} time 0.25", 1),
        Row({**STEPS, "unit": "s/step", "averaged": "last\n      last: 100"}, 32.0),
    ),
    "steps that count samples": (
        stamped("{at} step {step} throughput 80.0", 10, every=800),
        Row(
            {
                "sample": "samples",
                "unit": "samples/s",
                "batch_size": "8",
                "per": "job",
                "averaged": "interval",
                "iteration_counts": "samples",
                "sequence_length": "null",
                "warmup": "1000",
            },
            80.0,
        ),
    ),
    "a rate of one GPU by its label": (
        stamped("{at} step {step} loss {loss} throughput_per_rank 16.0 samples/s", 5),
        Row(STEPS, 128.0, "--gpus 8"),
    ),
    "a rate by the hour": (
        stamped("step {step} loss {loss} speed 230.4k samples/h", 1),
        Row({**STEPS, "per": "job"}, 64.0),
    ),
    "the time since the start": (
        stamped("step {step} loss {loss} elapsed {at}", 5, "0:%M:%S"),
        Row({"batch_size": "8", "unit": "s/step", "iteration_counts": "steps"}, 16.0),
    ),
    "a time of one sample of the job": (
        stamped("{at} iters: {step}, time: 0.0625, loss: {loss}", 5, every=80),
        Row(
            {
                "batch_size": "8",
                "unit": "s/sample",
                "averaged": "interval",
                "iteration_counts": "samples",
                "warmup": "100",
            },
            16.0,
        ),
    ),
    "a time of one sample of each GPU": (
        stamped("{at} iter {step} time: 62.5 loss {loss}", 5, every=10),
        Row({**STEPS, "batch_size": "8", "unit": "ms/sample", "per": "card"}, 128.0, "--gpus 8"),
    ),
    "the seconds since the start beside two rates": (
        TWO_RATES,
        Row(
            {
                **STEPS,
                **TOKENS,
                "batch_size": "4096",
                "per": "job",
                "unit": "s",
                "speed": "32 sec",
                "sequence_length": "null",
            },
            6400.0,
        ),
    ),
    "the second of two rates": (
        TWO_RATES,
        Row(
            {
                **STEPS,
                **TOKENS,
                "batch_size": "4096",
                "per": "job",
                "speed": "6180 tok/s",
                "sequence_length": "null",
            },
            6180.0,
        ),
    ),
    "evaluations between the lines": (
        [
            line
            for n, line in enumerate(stamped("{at} step {step} loss {loss} time 0.5", 5))
            for line in ([f"eval step {n} accuracy 0.5"] if n % 10 == 5 else []) + [line]
        ],
        Row(
            {**STEPS, "unit": "s/step", "evaluation": r"'eval\s*step'"},
            16.0,
        ),
    ),
    "objects of JSON": (
        stamped('{{"step": {step}, "loss": {loss}, "tokens_per_second": 1200.5}}', 1),
        Row({**STEPS, "per": "job", "sequence_length": "150"}, 1200.5),
    ),
    "a step without a label of its epoch": (
        [
            f"[{epoch}][{step}/100] time 0.25 loss 2.5"
            for epoch in range(4)
            for step in range(0, 100, 10)
        ],
        Row({**STEPS, "unit": "s/step", "epoch": "0"}, 32.0),
    ),
}
"""Lines, and the answers to their template."""


def measured(lines: list[str], row: Row, folder: Path, cli: Cli, *, code: int = 0) -> Any:
    """Measure lines by their template with the answers of a row."""
    log, file = folder / "train.log", folder / "mine.yaml"
    log.write_text("\n".join(lines) + "\n")
    text = template_of(lines)
    assert [key for key in questions(text) if key not in row.answers] == []
    file.write_text(answered(text, row.answers))
    words = ("measure", str(log), "--benchmark", str(file), "-o", "json", *row.options.split())
    (measurement,) = json.loads(cli(*words, code=code).out)
    return measurement


@pytest.mark.parametrize(
    ("lines", "row"),
    [
        *(pytest.param(lines_in(name), row, id=name) for name, row in FILES.items()),
        *(pytest.param(lines, row, id=name) for name, (lines, row) in FORMS.items()),
    ],
)
def test_a_template_with_the_right_answers_measures_its_log(
    lines: list[str], row: Row, tmp_path: Path, cli: Cli
) -> None:
    measurement = measured(lines, row, tmp_path, cli)
    assert measurement["verdict"] == "valid"
    figure = measurement["throughput"][measurement["estimator"]]
    assert figure == pytest.approx(row.rate, rel=5e-3)


RATE = stamped("{at} step {step} loss {loss} 64.0 img/s", 10)
SECONDS = stamped("{at} step {step} loss {loss} time 0.5", 5)
IMAGES = Row({"batch_size": "8", **JOB}, 64.0, "--gpus 8")
ONE_GPU = Row({"batch_size": "64", **JOB}, 64.0)
HALF_SECOND = Row({"batch_size": "8", **TIME, "averaged": "interval"}, 128.0, "--gpus 8")
JUMPING = [f"step {n} loss 3.5 time {0.4 + n % 3 / 10:.1f}" for n in range(10, 400, 10)]
HEAD = ["world_size: 8", "micro_batch_size: 8"]
SAMPLES = {"iteration_counts": "samples", "warmup": "1"}
WRONG: dict[str, tuple[list[str], Row, dict[str, str], str]] = {
    "one GPU's rate for the job's": (RATE, IMAGES, {"per": "card"}, "clock-mismatch"),
    "the time of a sample for that of a step": (
        SECONDS,
        HALF_SECOND,
        {"unit": "s/sample"},
        "clock-mismatch",
    ),
    "another batch": (RATE, IMAGES, {"batch_size": "80"}, "clock-mismatch"),
    "samples for steps": (RATE, IMAGES, SAMPLES, "clock-mismatch"),
    "samples for steps of a time": (SECONDS, HALF_SECOND, SAMPLES, "clock-mismatch"),
    "milliseconds for seconds": (SECONDS, HALF_SECOND, {"unit": "ms/step"}, "clock-mismatch"),
    "milliseconds for seconds of single steps": (
        SECONDS,
        HALF_SECOND,
        {"unit": "ms/step", "averaged": "step"},
        "clock-mismatch",
    ),
    "a batch that is not the head's": ([*HEAD, *RATE], IMAGES, {"batch_size": "80"}, "batch-size"),
    "a batch that is not that of the only GPU": (
        ["args: Namespace(batch_size=64, devices=1, num_machines=1)", *RATE],
        ONE_GPU,
        {"batch_size": "65"},
        "batch-size",
    ),
    "one GPU's tokens for the job's": (
        lines_in("automodel"),
        FILES["automodel"],
        {"per": "card"},
        "clock-mismatch",
    ),
    "the rate of one batch for that of all": (
        lines_in("openclip"),
        Row({**OPENCLIP, "speed": "", "unit": "samples/s"}, 128.0),
        {"speed": "80.1234/s"},
        "clock-mismatch",
    ),
    "the rate of one batch for that of a step in many": (
        lines_in("openclip"),
        Row({**OPENCLIP, "speed": "", "unit": "samples/s"}, 128.0),
        {"speed": "80.1234/s", "averaged": "step"},
        "clock-mismatch",
    ),
    "single steps for means since the beginning": (
        JUMPING,
        HALF_SECOND._replace(options="--gpus 1"),
        {"averaged": "running"},
        "clock-mismatch",
    ),
    "a rate of steps that the stamps contradict": (
        lines_in("ppocr"),
        Row(
            {
                "sample": "samples",
                "unit": "samples/s",
                "batch_size": "128",
                **CARD,
                "speed": "ips",
                "sequence_length": "null",
            },
            180.28,
        ),
        {},
        "clock-mismatch",
    ),
}
"""Lines, their right answers, a wrong one, and the reason of its rejection."""


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_the_log_disproves_is_rejected(name: str, tmp_path: Path, cli: Cli) -> None:
    lines, row, wrong, reason = WRONG[name]
    changed = row._replace(answers={**row.answers, **wrong})
    measurement = measured(lines, changed, tmp_path, cli, code=5)
    rejecting = [each["id"] for each in measurement["reasons"] if each["severity"] == "reject"]
    assert reason in rejecting


@pytest.mark.parametrize(
    ("start", "name", "unit"),
    [
        (1592939516.0, "rate", "samples/s"),
        (1592939516.0, "rate", "steps/s"),
        (1592939516.0, "step_seconds", "s/step"),
        (1592939516.0, "step_seconds", "ms/step"),
        (20.5, "rate", "samples/s"),
        (20.5, "step_seconds", "s/step"),
    ],
)
def test_a_clock_is_no_speed_although_a_file_declares_it(
    start: float, name: str, unit: str, tmp_path: Path, cli: Cli
) -> None:
    lines = [f"step {n} loss 3.5 at {start + 1.5 * n:.2f}" for n in range(60)]
    answers = {"batch_size": "8", "speed": "at", "unit": "s/step"}
    right = measured(lines, Row(answers, 8 / 1.5), tmp_path, cli)
    assert right["throughput"][right["estimator"]] == pytest.approx(8 / 1.5, rel=5e-3)
    file = tmp_path / "mine.yaml"
    file.write_text(file.read_text().replace("elapsed: 3", f"{name}: 3").replace("s/step", unit))
    words = ("--benchmark", str(file), "-o", "json", "--gpus", "1")
    (wrong,) = json.loads(cli("measure", str(tmp_path / "train.log"), *words, code=5).out)
    assert "clock-mismatch" in [each["id"] for each in wrong["reasons"]]


@pytest.mark.parametrize(
    ("head", "severities"),
    [
        ([], ["warn"]),
        (['{"batch_size": 64, "gpus": 1, "amp_run": false}'], []),
    ],
)
def test_a_batch_that_a_fact_reads_is_verified(
    head: list[str], severities: list[str], tmp_path: Path, cli: Cli
) -> None:
    measurement = measured([*head, *RATE], ONE_GPU, tmp_path, cli)
    found = {each["id"]: each for each in measurement["reasons"]}
    unverified = found.get("batch-unverified")
    assert [each["severity"] for each in [unverified] if each] == severities
    names = ("(?P<batch_size>", "(?P<global_batch>")  # of one GPU, or of the job
    assert unverified is None or all(name in unverified["action"] for name in names)
    assert ("gpus-unverified" in found) == bool(severities)


def between_others(lines: list[str]) -> list[str]:
    """Put other lines between the training lines, each time more."""
    return [part for n, line in enumerate(lines) for part in (*[f"shard {n}"] * n, line)]


@pytest.mark.parametrize(
    ("printed", "options", "code", "found"),
    [
        (64.0, "--gpus 8", 5, ("clock-mismatch", "reject")),
        (12.0, "--gpus 8", 0, ("clocks-apart", "warn")),
        (14.0, "--gpus 2", 0, ("clocks-apart", "warn")),
        (8.0, "--gpus 8", 0, None),
        (16.0, "--gpus 2", 5, ("clock-mismatch", "reject")),
    ],
    ids=[
        "the rate of eight GPUs",
        "a wait",
        "a wait of nearly half",
        "the rate of one GPU",
        "the rate of two GPUs",
    ],
)
def test_a_rate_of_one_gpu_that_the_stamps_give_to_all_of_them_is_rejected(
    printed: float, options: str, code: int, found: tuple[str, str] | None, tmp_path: Path, cli: Cli
) -> None:
    lines = between_others(stamped(f"{{at}} step {{step}} loss {{loss}} {printed} img/s", 10))
    row = Row({"batch_size": "8", **CARD}, 0.0, options)
    measurement = measured(lines, row, tmp_path, cli, code=code)
    of_clock = [each for each in measurement["reasons"] if each["id"].startswith("clock")]
    assert [(each["id"], each["severity"]) for each in of_clock] == ([found] if found else [])
    if code:
        assert "`per: card`" in of_clock[0]["message"]
        assert "--gpus" in of_clock[0]["message"]
        assert "`per`" in of_clock[0]["action"]


def test_a_fact_that_may_be_the_batch_of_the_job_is_asked_about(tmp_path: Path, cli: Cli) -> None:
    """With nn.DataParallel the program's batch is divided among the GPUs."""
    log, file = tmp_path / "train.log", tmp_path / "mine.yaml"
    lines = ["batch_size=24", *stamped("{at} step {step} loss {loss} time 0.5", 5)]
    log.write_text("\n".join(lines))
    text = answered(template_of(lines), {**TIME, "batch_size": "12", "averaged": "interval"})
    facts = "      facts: ['batch_size=(?P<batch_size>\\d+)']\n"
    file.write_text(text.replace("    window:\n", f"{facts}    window:\n"))
    words = ("measure", str(log), "--benchmark", str(file), "-o", "json", "--gpus", "2")
    (rejected,) = json.loads(cli(*words, code=5).out)
    (reason,) = [each for each in rejected["reasons"] if each["id"] == "batch-size"]
    assert "whole job" in reason["action"]
    assert "`global_batch`" in reason["action"]
    file.write_text(file.read_text().replace("<batch_size>", "<global_batch>"))
    (found,) = json.loads(cli(*words).out)
    assert (found["verdict"], found["batch_size_per_gpu"]) == ("valid", 12)
    assert found["throughput"]["time_weighted"] == pytest.approx(48.0)


@pytest.mark.parametrize("head", [[], ["total batch size: 4096"]])
def test_a_rate_is_held_against_no_batch_that_is_null(
    head: list[str], tmp_path: Path, cli: Cli
) -> None:
    """A budget of tokens is the most that a step has: the printed rate counts the real ones."""
    lines = [*head, *stamped("{at} step {step} loss {loss} tokens/s 2200", 2)]
    answers = {**JOB, "sequence_length": "null"}
    budget = Row({**answers, "batch_size": "{fp32: 4096}"}, 2200.0)
    rejected = measured(lines, budget, tmp_path, cli, code=5)
    (reason,) = [each for each in rejected["reasons"] if each["severity"] == "reject"]
    assert reason["id"] == "clock-mismatch"
    assert "taken as 4096;" in reason["message"]
    right = measured(
        lines, budget._replace(answers={**answers, "batch_size": "{fp32: null}"}), tmp_path, cli
    )
    assert (right["verdict"], right["batch_size_per_gpu"]) == ("valid", None)
    assert right["throughput"]["time_weighted"] == pytest.approx(2200.0)
    assert "batch-unverified" in [each["id"] for each in right["reasons"]]


def test_the_value_that_a_clock_disproves_is_the_one_that_was_used(
    tmp_path: Path, cli: Cli
) -> None:
    """The log's own batch of the job goes before that of the file."""
    lines = ["total batch size: 4096", *stamped("{at} step {step} loss {loss} tokens/s 2200", 2)]
    row = Row({**JOB, "sequence_length": "null", "batch_size": "440"}, 2200.0)
    rejected = measured(lines, row, tmp_path, cli, code=5)
    (reason,) = [each for each in rejected["reasons"] if each["id"] == "clock-mismatch"]
    assert "taken as 4096;" in reason["message"]


def test_an_excerpt_of_a_log_is_measured_as_its_rejection_says(tmp_path: Path, cli: Cli) -> None:
    lines = [
        line.replace("step ", "update 7 of 9 step 52").replace("loss", "seen 1.5 loss")
        for line in stamped("{at} step {step:03} loss {loss} 64.0 img/s", 10)
    ]
    file = tmp_path / "mine.yaml"
    row = ONE_GPU._replace(answers={**ONE_GPU.answers, "warmup": "1"})
    rejected = measured(lines, row, tmp_path, cli, code=5)
    (reason,) = [each for each in rejected["reasons"] if each["id"] == "iterations-missing"]
    (warmup,) = re.findall(r"`window: \{warmup: (\d+)\}`", reason["action"])
    assert (warmup, str(file) in reason["action"]) == ("52000", True)
    file.write_text(file.read_text().replace("warmup: 1\n", f"warmup: {warmup}\n"))
    words = ("measure", str(tmp_path / "train.log"), "--benchmark", str(file), "-o", "json")
    (found,) = json.loads(cli(*words, "--gpus", "1").out)
    assert found["verdict"] == "valid"


def test_a_unit_beside_a_number_that_is_not_the_answer_is_an_error(
    tmp_path: Path, cli: Cli
) -> None:
    log, file = tmp_path / "train.log", tmp_path / "mine.yaml"
    log.write_text("\n".join(RATE))
    file.write_text(answered(template_of(RATE), {**IMAGES.answers, "unit": "steps/s"}))
    _, err = cli("measure", str(log), "--benchmark", str(file), "--gpus", "8", code=2)
    assert "whose unit is images/s, not steps/s" in err


@pytest.mark.parametrize(
    ("head", "later", "options"),
    [
        (["world_size: 8"], [], "--gpus 4"),
        (["world_size: 8"], ["world_size: 4"], "--gpus 8"),
        (["nproc_per_node: 8", "nnodes: 1"], ["nproc_per_node: 8", "nnodes: 2"], "--gpus 8"),
        (["nproc_per_node: 8", "nnodes: 1"], ["nproc_per_node: 4"], "--gpus 8"),
    ],
)
def test_gpus_that_the_head_or_a_later_line_contradicts_are_rejected(
    head: list[str], later: list[str], options: str, tmp_path: Path, cli: Cli
) -> None:
    lines = [*head, *RATE[:20], *later, *RATE[20:]]
    row = IMAGES._replace(options=options)
    measurement = measured(lines, row, tmp_path, cli, code=5)
    assert "gpu-count" in [each["id"] for each in measurement["reasons"]]


def test_iterations_that_begin_anew_without_an_epoch_are_two_runs(tmp_path: Path, cli: Cli) -> None:
    second = [line.replace("2026-03-02", "2026-03-03") for line in RATE]
    measurement = measured([*HEAD, *RATE, *HEAD, *second], IMAGES, tmp_path, cli, code=5)
    found = {each["id"]: each for each in measurement["reasons"]}
    head = len(HEAD) + len(RATE) + 1
    places = [place["line"] for place in found["two-runs"]["evidence"]]
    assert places == [head, head + len(HEAD)]
