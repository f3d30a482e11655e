"""``k8sbench measure LOG --declare``: the template of a benchmark's file for a log that no family
reads."""

import json
import re
from pathlib import Path

import pytest

from tests.reader.declarable import stamped
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.measure.declaring import answered, questions

OWN = stamped("{at} step {step}/400 loss {loss} 412.7 img/s", 2)
ANSWERS = {"batch_size": "82", "per": "job", "averaged": "interval", "iteration_counts": "steps"}


def template(lines: list[str], folder: Path, cli: Cli, *options: str) -> str:
    (folder / "train.log").write_text("\n".join(lines))
    return cli("measure", str(folder / "train.log"), "--declare", *options).out


def test_a_template_with_open_questions_is_an_error_that_names_their_lines(
    tmp_path: Path, cli: Cli
) -> None:
    text = template(OWN, tmp_path, cli)
    assert questions(text) == ["batch_size", "per", "averaged", "iteration_counts"]
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace("confirmed: false", "confirmed: true"))
    words = ("measure", str(tmp_path / "train.log"), "--benchmark", str(file), "--gpus", "1")
    out, err = cli(*words, code=2)
    lines = text.split("\n")
    at = {
        key: next(
            n for n, line in enumerate(lines, 1) if re.match(rf" *{key}: \{{?(?:fp32: )?\?", line)
        )
        for key in questions(text)
    }
    named = ", ".join(f"{key} (line {line})" for key, line in at.items())
    assert (out, f"{file}:{at['batch_size']}: has 4 open questions: {named}." in err) == ("", True)
    for command in ("explain", "benchmarks"):
        cli(command, str(file), *words[1:2] * (command == "explain"), code=2)


def test_a_filled_in_template_measures_nothing_as_valid_before_it_is_confirmed(
    tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "mine.yaml"
    text = answered(template(OWN, tmp_path, cli), ANSWERS)
    file.write_text(text.replace("confirmed: true", "confirmed: false"))
    words = ("measure", str(tmp_path / "train.log"), "--benchmark", str(file), "--gpus", "1")
    (draft,) = json.loads(cli(*words, "-o", "json", code=5).out)
    assert (draft["verdict"], draft["throughput"]) == ("rejected", None)
    rejected = [each for each in draft["reasons"] if each["severity"] == "reject"]
    assert [each["id"] for each in rejected] == ["format-unconfirmed"]
    assert str(file) in rejected[0]["message"]
    (accepted,) = json.loads(cli(*words, "-o", "json", "--accept", "format-unconfirmed").out)
    file.write_text(text)
    (confirmed,) = json.loads(cli(*words, "-o", "json").out)
    figures = [each["throughput"]["time_weighted"] for each in (confirmed, accepted)]
    assert figures == [pytest.approx(412.7)] * 2


def test_the_template_reads_the_lines_that_it_shows(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(answered(template(OWN, tmp_path, cli), ANSWERS))
    out = cli("explain", str(file), str(tmp_path / "train.log")).out
    assert "record of pytorch/base matches 40 lines" in out
    assert "rate '412.7'" in out


def test_the_batch_of_an_option_answers_its_question(tmp_path: Path, cli: Cli) -> None:
    text = template(OWN, tmp_path, cli, "--batch-size", "82")
    assert "batch_size" not in questions(text)
    assert "batch_size: {fp32: 82}  #" in text


def test_a_program_whose_batch_is_null_is_submitted_with_the_batch_of_an_option(
    tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        answered(template(OWN, tmp_path, cli), {**ANSWERS, "batch_size": "{fp32: null}"})
    )
    words = ("render", str(file), "--replicas", "1", "--gpus", "1")
    _, err = cli(*words, code=2)
    assert "Give --batch-size." in err
    assert "kind: " in cli(*words, "--batch-size", "82").out
    assert "any (fp32)" in cli("benchmarks", str(file)).out


@pytest.mark.parametrize(
    ("log", "family"),
    [
        ("olmo", "olmo"),
        ("lerobot", "lerobot"),
        ("megatron_2026", "megatron"),
        ("mlperf_throughput", "mlperf"),
        ("hf_trainer_running", "hf-trainer"),
    ],
)
def test_a_log_that_a_family_reads_needs_no_template(log: str, family: str, cli: Cli) -> None:
    path = str(ROOT / "tests" / "fixtures" / "logs" / f"{log}.log")
    out, err = cli("measure", path, "--declare", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert f"{log}.log: needs no file: it is read as {family}." in err
    assert f"k8sbench measure {path}" in err


def test_a_log_without_times_is_one_error(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(stamped("step {step} loss {loss}", 1)))
    out, err = cli("measure", str(log), "--declare", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert "a.log: has no line that comes again and again" in err
    assert "Print both" in err


def test_the_text_of_an_answer_is_no_training_line(cli: Cli) -> None:
    path = ROOT / "tests" / "fixtures" / "templates" / "grpo_text.log"
    out, _ = cli("measure", str(path), "--declare", code=2)
    assert out == ""


def test_a_template_has_one_format(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(OWN))
    out, err = cli("measure", str(log), "--declare", "-o", "json", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert "Leave out -o." in err
