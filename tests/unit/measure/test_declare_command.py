"""``k8sbench measure LOG --declare``: a first benchmark's file for a log that nothing reads."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model import expressions
from k8sbench.parse import guessing
from tests.unit.command_line import Cli
from tests.unit.parse.test_records_by_family import ALL

OWN = [f"2026-03-02 11:20:{n:02d} step {10 * n}/250 loss 0.5312 412.7 img/s" for n in range(1, 26)]
ARCFACE = [
    f"Training: 2026-03-02 10:00:{n:02d},319-Speed 64.50 samples/sec   Loss {40 - n}.6965   "
    f"LearningRate 0.016000   Epoch: {n // 8}   Global Step: {20 * n}   Required: 0 hours"
    for n in range(2, 22)
]
TIMM = [
    f"Train: {epoch} [{step:>4d}/100 ({step + 1:>3d}%)]  Loss: 2.10 (2.14)  "
    "Time: 0.250s,   64.00/s  (0.604s,   26.49/s)  LR: 1.000e-05  Data: 0.007 (0.012)"
    for epoch in (0, 1)
    for step in range(0, 100, 10)
]
TESTS = ["Test: [   2/3]  Time: 0.145 (0.240)  Loss:   2.092 ( 2.083)"] * 90
HF = [
    *(f"{{'loss': '0.6{n}81', 'grad_norm': '0.2977', 'epoch': '0.{n}25'}}" for n in range(9)),
    "{'train_runtime': '9.9', 'train_samples_per_second': '93.23', 'train_loss': '0.6'}",
]
SHORT_DATE = [
    f"11/25 08:50:{n:02d} - INFO - Iter(train) [{n:>2d}/30]  lr: 1.0e-02  time: 0.5000  "
    f"data_time: 0.0217  loss: 4.{n}"
    for n in range(1, 31)
]
JSON = [f'{{"step": {50 * n}, "loss": {n}.25, "tokens_per_second": 1200.5}}' for n in range(20)]
FIGURES: dict[str, tuple[list[str], float]] = {
    "a program of one's own": (OWN, 412.7),
    "arcface_torch": (ARCFACE, 64.5),
    "timm, whose evaluations have more lines": (TIMM + TESTS, 64.0),
    "Hugging Face's Trainer": (HF, 93.23),
    "seconds of a step, with the batch in the head": (["batch_size:        16", *SHORT_DATE], 32.0),
    "steps per second": (
        ["batch size 8", *(f"iter {n}, speed: 4.50 step/s, loss nan" for n in range(30))],
        36.0,
    ),
    "JSON": (JSON, 1200.5),
    "epochs and iterations in brackets": (
        [f"[e {n // 10}][{n % 10 + 1:>2d}/10] 0.25 s/it, cost 0.25" for n in range(40)],
        4.0,
    ),
    "steps of the run beside epochs": (
        [f"epoch {n // 10} | step {n} | ips: 5.5 | elapsed {n}.1s" for n in range(1, 40)],
        5.5,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_file_reads_the_log_that_it_was_written_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    lines, rate = FIGURES[name]
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text("\n".join(["starting …", *lines, "done"]) + "\n")
    text, err = cli("measure", "train.log", "--declare")
    assert err == ""
    Path("mine.yaml").write_text(text)
    _, matched, *_ = cli("explain", "mine.yaml", "train.log").out.splitlines()
    assert re.match(r"(record|summary) of pytorch/base matches \d", matched), matched
    words = ("measure", "train.log", "--benchmark", "mine.yaml", "--gpus", "1", "-o", "json")
    (found,) = json.loads(cli(*words).out)
    estimator = "printed_steps" if found["estimator"] == "printed_steps" else "time_weighted"
    assert (found["verdict"], found["throughput"][estimator]) == ("valid", pytest.approx(rate))
    # Each value is a guess, and says so.
    values = [line for line in text.splitlines() if re.search(r": .", line)]
    assert [line for line in values if "# " not in line] == []


def guessed_at(key: str, *logs: list[str]) -> list[str | int | None]:
    return [(guessing.guess(lines) or {}).get(key) for lines in logs]


def test_a_value_with_a_mean_in_brackets_is_of_one_step() -> None:
    assert guessed_at("averaged", TIMM, OWN) == ["step", "interval"]


def test_a_rate_counts_what_the_word_beside_it_says() -> None:
    found = guessed_at("unit", OWN, JSON, ARCFACE, SHORT_DATE)
    assert found == ["images/s", "tokens/s", "samples/s", "s/step"]


def test_a_batch_that_is_given_is_no_guess(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "a.log").write_text("\n".join(SHORT_DATE))
    text, _ = cli("measure", str(tmp_path / "a.log"), "--declare", "--batch-size", "24")
    assert "{fp32: 24}" in text


@pytest.mark.parametrize(
    "line",
    [
        "nothing of the kind",
        "step {} loss 2.5",
        "412.{} img/s",
        "step {} 1,356.8 img/s",
        "step {} time 135.{}ms",
        "eval step {} 412.7 img/s",
        "epoch 1:  10%|█         | 1/10 [00:00<00:01,  8.{}it/s]",
    ],
)
def test_a_log_without_times_is_one_error(line: str, tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"{line}\n".replace("{}", str(n)) for n in range(10, 40)))
    out, err = cli("measure", str(log), "--declare", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert "a.log: has no line that comes again and again" in err


@pytest.mark.parametrize("family", ALL)
def test_a_line_of_any_program_is_matched_by_its_expression(family: str) -> None:
    guessed = guessing.guess([ALL[family]] * 5)
    assert guessed is not None
    expression = str(guessed["expression"]).replace("''", "'")
    found = expressions.compiled(expression).search(ALL[family])
    assert found is not None
    assert found.groupdict().keys() >= {"iteration"}


PARTS = [
    "step 10k",
    "1/2",
    "[3][4/5]",
    "5 img/s",
    "it/s 7",
    "time: 1e5",
    "loss",
    "'",
    "\t",
    "$",
    "",
]


@given(st.lists(st.one_of(st.sampled_from([*PARTS, *ALL.values()]), st.text()), max_size=6))
def test_any_lines_are_guessed_at_or_not(parts: list[str]) -> None:
    line = " ".join("".join(parts).split("\n"))
    guessed = guessing.guess([line] * 5)
    if guessed is not None:
        expression = str(guessed["expression"]).replace("''", "'")
        assert expressions.compiled(expression).search(line.encode(errors="replace").decode())
