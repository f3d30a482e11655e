"""``k8sbench measure`` as it is typed: what goes where, and the exit codes."""

import json
from pathlib import Path

import pytest

from k8sbench.model.measurement import ESTIMATORS
from tests.reader.measuring.support import FIXTURES, run
from tests.unit.command_line import Cli

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


def test_json_is_a_list_with_one_object_per_log(logs: Path, cli: Cli) -> None:
    out, err = cli("measure", "good.log", "short.log", *BASE, "-o", "json", code=5)
    found = json.loads(out)
    assert [each["files"] for each in found] == [["good.log"], ["short.log"]]
    assert err == ""
    for each in found:
        assert set(each) >= KEYS
    good, short = found
    assert set(good["throughput"]) == {*ESTIMATORS, "unit"}
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
def test_the_worst_log_decides_the_code(logs: Path, cli: Cli, names: list[str], code: int) -> None:
    found = cli.json("measure", *names, *BASE, "-o", "json", code=code)
    measurable = {"good.log", "short.log"}
    assert [each["files"][0] for each in found] == [name for name in names if name in measurable]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("empty.log", "is empty"),
        ("letter.log", "no training line of mmseg"),
        ("gone.log", "no such file"),
    ],
)
def test_unmeasurable_logs_are_named(logs: Path, cli: Cli, name: str, what: str) -> None:
    out, err = cli("measure", name, *BASE, code=2)
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"error: {name}")
    assert what in first
    assert second.startswith("  ")


def test_the_table_names_figure_estimator_unit_verdict_and_reasons(logs: Path, cli: Cli) -> None:
    out, err = cli("measure", "good.log", "short.log", *BASE, code=5)
    assert err == ""
    good, short = out.split("\n\n")
    # The figures as results and explain write them.
    assert "  8.000 samples/s time_weighted  valid" in good
    assert "median 8.000" in good
    assert "8.000 samples/s time_weighted (unverified)  rejected" in short
    assert "reject too-few-records: 3 training lines" in short


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["good.log"], "--gpus"),
        (["good.log", "--format", "mmseg", "--benchmark", "tsm"], "--format FAMILY"),
        (["good.log", "--format", "mmseg", "--warmup", "-1"], "--warmup"),
        (["good.log", "--format", "mmseg", "--variant", "x"], "--variant"),
        (["good.log", "--format", "mmseg", "--accept", "too-few-record"], "too-few-records"),
        (["good.log", "--benchmark", "deeplabv4"], "deeplabv3p"),
        (["good.log", "--benchmark", "deeplabv3p", "--variant", "x"], "pytorch/mmseg"),
        (["good.log", "--format", "mmseg"], "--gpus"),
    ],
)
def test_errors_name_what_is_wrong(logs: Path, cli: Cli, words: list[str], what: str) -> None:
    out, err = cli("measure", *words, code=2)
    assert out in ("", "[]\n")
    assert err.startswith("error: ")
    assert what in err
