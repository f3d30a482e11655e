"""Imported runs in all commands on runs."""

import re
from pathlib import Path

import pytest

from tests.reader.measuring.support import tsm
from tests.unit.command_line import Cli
from tests.unit.imports import foreign


def test_lists_and_status_tell_it_apart(run_id: str, cli: Cli) -> None:
    head, row = cli("list").out.splitlines()
    assert head.split()[-1] == "SOURCE"
    assert row.split()[-1] == "imported"
    (found,) = cli.json("list", "-o", "json")
    assert (found["source"], found["backend"], found["impl"]) == ("imported", "imported", "user")
    assert (found["phase"], found["cause_id"]) == ("Succeeded", "imported")
    out = cli("status", run_id).out
    assert "Imported: its program ran elsewhere" in out
    assert "Source:  imported" in out
    assert "owner" not in out.lower()


def test_its_log_is_printed_as_it_was(run_id: str, place: Path, cli: Cli) -> None:
    assert cli("logs", run_id, "--timestamps").out == foreign.log()
    out, err = cli("logs", run_id, "--replica", "worker-7", code=2)
    assert out == ""
    assert "has no log of a replica 'worker-7'.\n  Replicas: log-0." in err


@pytest.mark.parametrize("command", ["cancel", "delete", "collect"])
def test_what_needs_a_job_says_that_there_is_none(run_id: str, cli: Cli, command: str) -> None:
    out, err = cli(command, run_id, code=2)
    assert out == ""
    assert f"Run {run_id} was imported from logs: it has no job on a cluster." in err
    assert f"k8sbench store remove {run_id}" in err


def test_a_history_has_its_set_when_the_log_ran(run_id: str, place: Path, cli: Cli) -> None:
    (place / "before.txt").write_text(foreign.log(rate=1190.0, day=1))
    cli("import", "before.txt", *foreign.OF, "--set", "imported-later")
    points = [line.split()[:2] for line in cli("history", "resnet50-tf").out.splitlines()[2:4]]
    assert points == [["imported-later", "2026-03-01"], ["one", "2026-03-02"]]
    assert [row["set"] for row in cli.json("results", "-o", "json")["rows"]] == ["one"]
    (series,) = cli.json("history", "resnet50-tf", "--since", "2026-03-02", "-o", "json")["series"]
    assert [point["set"] for point in series["points"]] == ["one"]
    rows = cli.json("results", "--since", "2026-03-02", "-o", "json")["rows"]
    assert [row["set"] for row in rows] == ["one"]


def test_a_format_that_is_named_like_a_benchmark_is_not_missed_in_the_catalog(
    place: Path, cli: Cli
) -> None:
    (place / "a.log").write_text("\n".join(tsm(0, step, 0.5, 0.5) for step in range(0, 100, 4)))
    words = ("--format", "tsm", "--gpus", "1", "--precision", "amp", "--batch-size", "16")
    cli("import", "a.log", *words, code=None)
    out = cli("results", "--published").out
    assert "no catalog entry" not in out
    assert "--benchmark" in out


def test_logs_without_dates_are_not_of_the_day_of_their_import(place: Path, cli: Cli) -> None:
    text = re.sub(r"^DLL \S+ \S+ -", "DLL -", foreign.log(), flags=re.MULTILINE)
    (place / "undated.txt").write_text(text)
    benchmark = place / "undated.yaml"
    benchmark.write_text(re.sub(r"DLL .*? - ", "DLL - ", foreign.BENCHMARK.read_text()))
    words = ("--benchmark", str(benchmark), "--gpu-model", foreign.GPU)
    cli("import", "undated.txt", *words, "--set", "one")
    (series,) = cli.json("history", "resnet50-tf", "-o", "json")["series"]
    assert [point["began_at"] for point in series["points"]] == [None]


def test_the_options_that_a_row_names_are_those_of_import(place: Path, cli: Cli) -> None:
    for gpus in (1, 8):
        (place / f"gpu{gpus}.txt").write_text(foreign.log(gpus, rate=1100.0 * gpus))
    out = cli("import", ".", "--benchmark", str(foreign.BENCHMARK), "--set", "one").out
    assert "--repeats" not in out
    assert "--gpu-model" in out


def test_a_row_names_the_measured_window_and_no_program(logs: Path, cli: Cli) -> None:
    (logs / "gpu8_True_9.txt").write_text(foreign.log(8, rate=8801.0, end=600))
    cli("import", "logs", *foreign.OF, "--set", "march")
    found = cli.json("results", "-o", "json")["rows"]
    (row,) = (r for r in found if (r["case"], r["precision"]) == ("1x8", "amp"))
    assert (row["window"], row["program"]) == ("200+290–390", None)
    assert "imported" in row["missing"]["program"]
    assert " + " not in cli("status", row["members"][0]["run_id"]).out


def test_a_row_of_a_summary_says_why_it_names_no_window(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "hf.log").write_text(
        "***** Running training *****\n"
        "  Num examples = 20,000\n"
        "  Num Epochs = 10\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 16\n"
        "  Total optimization steps = 12,500\n"
        "{'train_runtime': 2000.0, 'train_samples_per_second': 100.0, 'epoch': 10.0}\n"
    )
    cli("import", str(tmp_path / "hf.log"), "--gpus=1", "--precision=bf16", "--set=one")
    (row,) = cli.json("results", "-o", "json")["rows"]
    assert (row["state"], row["window"]) == ("valid", None)
    assert row["missing"]["window"] == "the log states one figure for the whole run"
