"""``k8sbench list``: the rows on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
import shutil
import sys
import time

import msgspec
import pytest

from k8sbench.adapters import processes
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.cli.main import main
from k8sbench.model import attempts
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location, Owner
from tests.unit.report.factory import repeats
from tests.unit.store.examples import NOW, OWNER, REJECTION, measurement, plan, step
from tests.unit.store.filled import put
from tests.unit.store.index_checks import damage


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def fill(store: SqlStore) -> float:
    """Record a valid, a rejected, a running and a lost run, a day apart; returns the time."""
    now = time.time()
    day = 86400.0
    valid = plan("seg-1")
    store.record(valid, at=now - 3 * day, owner=None)
    store.move("seg-1", step(Phase.RUNNING, now - 3 * day + 10))
    store.move("seg-1", step(Phase.SUCCEEDED, now - 3 * day + 100))
    store.measured("seg-1", measurement())
    store.record(plan("seg-2", repeat=2), at=now - 2 * day, owner=None)
    store.move("seg-2", step(Phase.SUCCEEDED, now - 2 * day + 60))
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
    store.record(plan("arc-1", benchmark="arcface"), at=now - day, owner=processes.this_process())
    store.move("arc-1", step(Phase.RUNNING, now - day))
    owner = this_process_of_yore()
    store.record(plan("old-1", set_name="weekly"), at=now - 7200, owner=owner)
    return now


def this_process_of_yore() -> Owner:
    return msgspec.structs.replace(processes.this_process(), started=1.0)


def test_runs_are_listed_oldest_first(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == (
        "RUN BENCHMARK FRAMEWORK CASE PRECISION PHASE THROUGHPUT VERDICT TOOK AGE"
    )
    same = ["pytorch", "1x1-cpu", "fp32"]
    assert [line.split() for line in lines[1:]] == [
        ["seg-1", "seg", *same, "Succeeded", "12.50", "images/s", "valid", "1m30s", "3d"],
        ["seg-2", "seg", *same, "Succeeded", "rejected", "rejected", "1m", "2d"],
        ["arc-1", "arcface", *same, "Running", "–", "–", "1d", "1d"],
        ["old-1", "seg", *same, "Lost", "–", "–", "2h", "2h"],
    ]
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_list_fits_the_terminal_with_the_figures_of_the_runs(
    root: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    now = time.time()
    with open_store() as store:
        store.record(plan("deeplabv3p-261120-081500-x7k2qd"), at=now, owner=None)
        store.measured("deeplabv3p-261120-081500-x7k2qd", measurement())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert len(row) <= columns
    assert "12.50 images/s" in row
    assert ("BENCHMARK" in head) == (columns == 120)


def test_a_list_with_an_imported_run_still_has_a_line_for_each(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with open_store() as store:
        for name, backend in (("deeplabv3p-261120-081500-x7k2qd", "local"), ("a", "imported")):
            store.record(plan(name, backend=backend), at=now - 3000, owner=None)
            store.move(name, step(Phase.SUCCEEDED, now))
            store.measured(name, measurement())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert main(["list", "-o", "wide"]) == 0
    assert "SOURCE" in capsys.readouterr().out


def test_a_wide_list_is_not_truncated_in_a_pipe(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "-o", "wide"]) == 0
    out, _ = capsys.readouterr()
    assert "see: k8sbench logs old-1" in out or "nothing of the run had reported yet." in out
    assert "…" not in out
    assert "\x1b" not in out


def test_json_is_a_list_of_documents(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run_id"] for row in rows] == ["seg-1", "seg-2", "arc-1", "old-1"]
    assert {row["schema"] for row in rows} == {2}
    assert rows[1]["reasons"] == ["too-few-records"]
    assert rows[2]["verdict"] is None
    assert rows[2]["ended_at"] is None
    assert rows[3]["cause_id"] == "owner-killed"


def test_csv_has_the_same_fields_as_json(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    main(["list", "-o", "json"])
    documents = json.loads(capsys.readouterr().out)
    main(["list", "-o", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == list(documents[0])
    assert [row["run_id"] for row in rows] == [row["run_id"] for row in documents]
    assert rows[2]["verdict"] == ""
    assert rows[1]["reasons"] == "too-few-records"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", rows[0]["created_at"])


def test_names_are_one_per_line(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "-o", "name"]) == 0
    assert capsys.readouterr().out == "seg-1\nseg-2\narc-1\nold-1\n"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--set", "weekly"], ["old-1"]),
        (["--benchmark", "arcface"], ["arc-1"]),
        (["--since", "36h"], ["arc-1", "old-1"]),
        (["--since", "1990-01-01"], ["seg-1", "seg-2", "arc-1", "old-1"]),
        (["--benchmark", "seg", "--set", "nightly"], ["seg-1", "seg-2"]),
    ],
)
def test_lists_are_narrowed(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], options: list[str], names: list[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "-o", "name", *options]) == 0
    assert capsys.readouterr().out.split() == names


def test_when_nothing_matches_it_says_what_there_is(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "--set", "nightly", "--benchmark", "sge", "-o", "json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Did you mean seg? There are: arcface, seg." in err


@pytest.mark.parametrize(
    ("form", "data"), [("table", ""), ("wide", ""), ("json", "[]\n"), ("name", "")]
)
def test_no_store_is_an_empty_list_and_a_friendly_line(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], form: str, data: str
) -> None:
    assert main(["list", "-o", form]) == 0
    out, err = capsys.readouterr()
    assert out == data
    assert err == (
        f"There is no store in {root} yet; k8sbench submit BENCHMARK makes the first run.\n"
    )
    assert not root.exists()


def test_a_store_without_runs_says_so(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store().close()
    assert main(["list"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"There are no runs in the store {root} yet")


def test_csv_of_nothing_has_its_header(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "-o", "csv"]) == 0
    assert capsys.readouterr().out.startswith("schema,run_id,")


def test_a_run_that_cannot_be_read_is_listed_with_what_is_wrong(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
        damage(store, "seg-2", "{}")
    (root / "runs" / "seg-2" / "run.json").write_text("{")
    assert main(["list", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    rows = {row["run_id"]: row for row in json.loads(out)}
    assert rows.keys() == {"seg-1", "seg-2", "arc-1", "old-1"}
    assert rows["seg-2"]["cause_id"] == "damaged-record"
    assert "run.json cannot be read" in rows["seg-2"]["cause"]
    assert "warning: run seg-2 is damaged" in err
    assert main(["list"]) == 0
    assert "seg-2" in capsys.readouterr().out


def test_a_run_whose_folder_is_gone_is_listed_with_what_is_wrong(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    shutil.rmtree(root / "runs" / "seg-1")
    assert main(["list", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert "seg-1" in out.split()
    assert f"The files of run seg-1 are not in {root / 'runs' / 'seg-1'}" in err


def test_a_store_that_can_only_be_read_is_listed(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = Location(server="https://s", namespace="team", context="gone", kubeconfig=None)
    with open_store() as store:
        store.record(plan(backend="kubernetes"), at=time.time(), owner=None, location=location)
    # As good as a read-only file system, also for root: the file cannot be opened for writing.
    (root / "claims.lock").mkdir()
    assert main(["list", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == "seg-1\n"
    assert "warning: 1 run is shown as last seen: There is no context gone" in err


def test_a_named_cluster_must_be_there(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
    assert main(["list", "-n", "team"]) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert "No cluster is configured" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--since", "yesterday"],
        ["-o", "xml"],
        ["extra"],
        ["--store", ""],
        ["--store", "mysql://u:hemmelig@h/x"],
        ["--store", "postgresql://u:hemmelig@h:port/x"],
    ],
)
def test_wrong_options_are_usage_errors(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["list", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "hemmelig" not in err
    assert "hemmelig" not in str(options) or "ps shows" in err
    assert "Traceback" not in err


def test_a_damaged_index_is_made_anew(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        store.record(plan(), at=NOW, owner=None)
    (root / "k8sbench.db").write_text("garbage " * 1000)
    assert main(["list", "-o", "name"]) == 0
    assert capsys.readouterr().out == "seg-1\n"


def test_a_name_with_control_characters_cannot_draw_on_the_terminal(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        store.record(plan(variant="a\x1b[31mred\nline\x07"), at=time.time(), owner=None)
    assert main(["list", "-o", "wide"]) == 0
    out, _ = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out
    assert "\x07" not in out
    assert OWNER.host not in out


def test_restarts_have_a_column_where_a_run_has_any(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        fill(store)
        store.move("arc-1", attempts.restarting(plan(), 1, "It was killed.", time.time()))
    assert main(["list"]) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[-1] == "RESTARTS"
    assert [row[-1] for row in rows] == ["–", "–", "1", "–"]
    assert main(["list", "-o", "json"]) == 0
    assert [run["restarts"] for run in json.loads(capsys.readouterr().out)] == [0, 0, 1, 0]


@pytest.mark.parametrize("words", [(), ("--set=set-a",)])
def test_a_run_has_the_verdict_that_it_has_among_its_repeats(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    put(root, repeats([100.0, 101.0, 40.0]))
    assert main(["list", *words, "-o", "json"]) == 0
    outlier = json.loads(capsys.readouterr().out)[-1]
    assert (outlier["verdict"], outlier["reasons"]) == ("rejected", ["outlier"])
    assert outlier["throughput"] is None
    assert main(["results", "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert {run["run_id"]: run["verdict"] for run in row["members"]}[
        outlier["run_id"]
    ] == "rejected"
