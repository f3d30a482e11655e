"""``k8sbench measure`` as it is typed: what goes where, and the exit codes."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import benchmark_files
from tests.unit.command_line import Cli
from tests.unit.measure import train_logs
from tests.unit.measure.support import FIXTURES, run

PROMISED = """
schema files format impl framework gpus precision batch_size_per_gpu warmup_iterations
iterations records throughput final_loss accuracy time_to_train_s train_wall_s environment
verdict reasons
"""
KEYS = frozenset(PROMISED.split())
GOOD = run([0.5] * 8)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.log").write_text("\n".join(GOOD))
    (tmp_path / "short.log").write_text("\n".join(GOOD[:3]))
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "letter.log").write_text("Dear all,\nthis is no log.\n")
    (tmp_path / "other.log").write_bytes((FIXTURES / "tsm.log").read_bytes())
    return tmp_path


BASE = ["--format", "mmseg", "--gpus", "1", "--batch-size", "4", "--warmup", "0"]


@pytest.mark.parametrize("given", ["", "set/odd.log"], ids=["folder", "file"])
def test_no_name_of_a_log_shows_the_folders_above_what_was_given(
    logs: Path, cli: Cli, given: str
) -> None:
    home = logs / "home" / "alice" / "runs"
    (home / "set").mkdir(parents=True)
    (home / "set" / "odd.log").write_text("\n".join([*GOOD, *run([0.5] * 8, at=100)]))
    shown = cli("measure", str(home / given), *BASE, "-o", "json", code=5).out
    (found,) = json.loads(shown)
    name = "odd.log" if given else "set/odd.log"
    assert found["files"] == [name]
    assert [place["file"] for place in found["reasons"][0]["evidence"]] == [name]
    assert "alice" not in shown


def test_json_is_a_list_with_one_object_per_log(logs: Path, cli: Cli) -> None:
    out, err = cli("measure", "good.log", "short.log", *BASE, "-o", "json", code=5)
    found = json.loads(out)
    assert [each["files"] for each in found] == [["good.log"], ["short.log"]]
    assert err == ""
    for each in found:
        assert set(each) >= KEYS
    good, short = found
    assert set(good["throughput"]) == {
        "time_weighted",
        "time_weighted_steady",
        "median",
        "arithmetic",
        "timestamps",
        "printed_steps",
        "unit",
    }
    assert good["throughput"]["time_weighted"] == pytest.approx(8.0)
    assert (good["schema"], good["verdict"]) == (2, "valid")
    assert [each["id"] for each in good["reasons"]] == ["gpus-unverified", "batch-unverified"]
    assert (short["verdict"], short["throughput"]) == ("rejected", None)
    assert short["unverified"]["time_weighted"] == pytest.approx(8.0)
    (reason,) = (each for each in short["reasons"] if each["severity"] == "reject")
    assert {"id", "severity", "message", "evidence"} <= set(reason)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["good.log"], 0),
        (["good.log", "short.log"], 5),
        (["good.log", "empty.log"], 2),
        (["short.log", "letter.log"], 2),
        (["good.log", "other.log"], 2),
        (["good.log", "gone.log"], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_log_and_nothing_good_is_lost(
    logs: Path, cli: Cli, names: list[str], code: int
) -> None:
    found = cli.json("measure", *names, *BASE, "-o", "json", code=code)
    measurable = {"good.log", "short.log"}
    assert [each["files"][0] for each in found] == [name for name in names if name in measurable]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("empty.log", "is empty"),
        ("letter.log", "no training line of mmseg"),
        ("gone.log", "does not exist"),
    ],
)
def test_what_cannot_be_measured_is_named_with_what_to_do(
    logs: Path, cli: Cli, name: str, what: str
) -> None:
    out, err = cli("measure", name, *BASE, code=2)
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"error: {name}")
    assert what in first
    assert second.startswith("  ")


def test_folders_and_packed_files_are_read(logs: Path, cli: Cli) -> None:
    folder = logs / "runs"
    folder.mkdir()
    (folder / "a.log.gz").write_bytes(gzip.compress("\n".join(GOOD).encode()))
    (folder / "b.log").write_text("\n".join(GOOD))
    (folder / "plan.json").write_text("{}")
    assert [each["files"] for each in cli.json("measure", "runs", *BASE, "-o", "json")] == [
        ["runs/a.log.gz"],
        ["runs/b.log"],
    ]


def test_one_run_of_several_files_is_one_object(logs: Path, cli: Cli) -> None:
    (logs / "second.log").write_text("\n".join(run([0.5] * 6, first=80, at=300)))
    (found,) = cli.json("measure", "good.log", "second.log", *BASE, "--one-run", "-o", "json")
    assert found["files"] == ["good.log", "second.log"]
    assert found["iterations"] == 140


def test_one_run_that_lacks_a_file_is_not_measured(logs: Path, cli: Cli) -> None:
    out = cli("measure", "good.log", "gone.log", *BASE, "--one-run", "-o", "json", code=2).out
    assert out == ""


@pytest.mark.parametrize("which", [["--format", "mmseg"], ["--benchmark", "deeplabv3p"]])
@pytest.mark.parametrize(("asked", "rejected"), [("amp", False), ("fp16", False), ("bf16", True)])
def test_another_half_type_than_was_asked_for_is_rejected(
    logs: Path, cli: Cli, which: list[str], asked: str, rejected: bool
) -> None:
    (logs / "half.log").write_text("\n".join(["fp16 = dict(loss_scale=512.)", *GOOD]))
    (found,) = cli.json(
        "measure", "half.log", *which, "--gpus=1", "--precision", asked, "-o", "json", code=None
    )
    assert (found["precision"], found["amp_dtype"]) == ("amp", "fp16")
    assert ("precision" in {each["id"] for each in found["reasons"]}) is rejected


def test_cpu_and_smoke_stand_in_every_form(logs: Path, cli: Cli) -> None:
    (logs / "own.log").write_bytes((FIXTURES / "k8sbench_master.log").read_bytes())
    shown = {}
    for form in ("table", "json"):
        shown[form] = cli("measure", "own.log", "--format", "k8sbench", "-o", form).out
    assert "2 CPU processes · smoke run · batch 4 per CPU process" in shown["table"]
    (found,) = json.loads(shown["json"])
    assert (found["device"], found["environment"]["preset"]) == ("cpu", "smoke")
    assert "reject preset" in cli("measure", "own.log", "--benchmark", "deeplabv3p", code=5).out


def test_a_training_names_what_it_reached(logs: Path, cli: Cli) -> None:
    log = logs / "train.log"
    log.write_text("\n".join(train_logs.texts(train_logs.attempt(stop=True))) + "\n")
    shown = " ".join(cli("measure", str(log), "--format", "k8sbench").out.split())
    assert re.search(r"trained to mIoU 40 % \(40 % after [\d.]+ s\)", shown)


def test_the_table_names_figure_estimator_unit_verdict_and_reasons(logs: Path, cli: Cli) -> None:
    out, err = cli("measure", "good.log", "short.log", *BASE, code=5)
    assert err == ""
    good, short = out.split("\n\n")
    # The figures as results and explain write them.
    assert "  8.000 samples/s time_weighted  valid" in good
    assert "median 8.000" in good
    assert "8.000 samples/s time_weighted (unverified)  rejected" in short
    assert "reject too-few-records: 3 training lines" in short


@pytest.mark.parametrize("width", [40, 60, 200])
def test_the_table_fits_its_terminal(
    logs: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = cli("measure", "good.log", "short.log", *BASE, code=5).out
    assert max(map(len, out.splitlines())) <= width


def test_control_characters_of_a_log_do_not_reach_the_terminal(logs: Path, cli: Cli) -> None:
    lines = list(GOOD)
    lines[4] = lines[4].replace("Iter [50/", "Iter [90/").replace("lr:", "lr:\x07\x08")
    (logs / "odd.log").write_text("\n".join(lines))
    out = cli("measure", "odd.log", *BASE, code=5).out
    assert "\x07" not in out
    assert "\x08" not in out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "Missing argument"),
        (["good.log"], "--benchmark or --format"),
        (["good.log", "--format", "mmseg", "--benchmark", "tsm"], "--benchmark or --format"),
        (["good.log", "--format", "caffe"], "caffe"),
        (["good.log", "--format", "mmseg", "--gpus", "0"], "--gpus"),
        (["good.log", "--format", "mmseg", "--gpus", "many"], "--gpus"),
        (["good.log", "--format", "mmseg", "--batch-size", "-1"], "--batch-size"),
        (["good.log", "--format", "mmseg", "--warmup", "-1"], "--warmup"),
        (["good.log", "--format", "mmseg", "--precision", "int8"], "--precision"),
        (["good.log", "--format", "mmseg", "--framework", "jax"], "--framework"),
        (["good.log", "--format", "mmseg", "--variant", "x"], "--variant"),
        (["good.log", "--format", "mmseg", "--accept", "too-few-record"], "too-few-records"),
        (["good.log", "--benchmark", "deeplabv4"], "deeplabv3p"),
        (["good.log", "--benchmark", "deeplabv3p", "--variant", "x"], "pytorch/mmseg"),
        (["good.log", "--format", "mmseg"], "--gpus"),
    ],
)
def test_a_wrong_command_is_an_error_that_names_what_is_wrong(
    logs: Path, cli: Cli, words: list[str], what: str
) -> None:
    out, err = cli("measure", *words, code=2)
    assert out in ("", "[]\n")
    assert err.startswith("error: ")
    assert what in err


def test_a_rejection_can_be_overruled_by_name(logs: Path, cli: Cli) -> None:
    out = cli("measure", "short.log", *BASE, "--accept", "too-few-records").out
    assert "valid, some reasons accepted" in out
    assert "reject, accepted too-few-records" in out


def test_a_benchmark_brings_its_warm_up_batch_and_unit(logs: Path, cli: Cli) -> None:
    lines = ["x - mmseg - INFO - Config:", "    samples_per_gpu=2,", *run([0.5] * 10)]
    (logs / "run.log").write_text("\n".join(lines))
    (found,) = cli.json("measure", "run.log", "--benchmark", "deeplabv3p", "--gpus=1", "-ojson")
    assert (found["verdict"], found["framework"]) == ("valid", "pytorch")
    assert (found["warmup_iterations"], found["iterations"]) == (20, 80)
    assert (found["batch_size_per_gpu"], found["throughput"]["unit"]) == (2, "samples/s")


def test_of_a_benchmarks_frameworks_the_log_decides(logs: Path, cli: Cli) -> None:
    log = str(FIXTURES / "paddleseg.log")
    words = ("--benchmark", "deeplabv3p", "--gpus=4", "-ojson")
    (found,) = cli.json("measure", log, *words, code=5)
    assert (found["format"], found["framework"]) == ("paddleseg", "paddle")


def test_a_log_that_no_framework_of_the_benchmark_writes_is_an_error(logs: Path, cli: Cli) -> None:
    err = cli("measure", "other.log", "--benchmark", "resnet50", "--gpus", "1", code=2).err
    assert "no training line of dle-resnet50" in err


def test_a_format_of_ones_own_is_measured_from_its_file(logs: Path, cli: Cli) -> None:
    record = r"step (?P<iteration>\d+) tokens/s (?P<rate>[\d.]+)"
    mine = benchmark_files.variant(
        ["train"],
        "x",
        window={"warmup": 2, "iterations": 6},
        log={"name": "mine", "unit": "tokens", "per": "card", "record": record},
    )
    benchmark = {**benchmark_files.benchmark(v=mine), "unit": "tokens"}
    (logs / "mine.yaml").write_text(json.dumps(benchmark))
    (logs / "mine.log").write_text("\n".join(f"step {i} tokens/s 50.0" for i in range(1, 9)))
    (found,) = cli.json("measure", "mine.log", "--benchmark=./mine.yaml", "--gpus=2", "-ojson")
    assert (found["impl"], found["format"]) == ("user", "mine")
    assert found["throughput"]["time_weighted"] == pytest.approx(100.0)
    assert found["throughput"]["unit"] == "tokens/s"


def test_nothing_heavy_is_imported_to_measure(logs: Path) -> None:
    code = (
        "import sys; from k8sbench.cli.main import main; "
        f"main(['measure', 'good.log', *{BASE!r}]); "
        "heavy = {'kubernetes', 'torch', 'numpy', 'sqlalchemy', 'rich', 'jinja2', 'yaml'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.splitlines()[-1] == "[]"
