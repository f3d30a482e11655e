"""``k8sbench list``: the rows on stdout, everything else on stderr."""

import json
import pathlib
import sys
import time

import pytest

from k8sbench.cli.terminal import output
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.store.sql_store import SqlStore
from tests.results.report.factory import repeats
from tests.unit.cli.conftest import Fill
from tests.unit.command_line import Cli
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import plan, step


@pytest.mark.parametrize("columns", [74, 120])
@pytest.mark.parametrize("backends", [("local",), ("local", "imported")])
def test_a_list_fits_the_terminal_with_the_figures_of_the_runs(
    store: SqlStore,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    backends: tuple[str, ...],
) -> None:
    for backend in backends:
        name = "deeplabv3p-261120-081500-x7k2qd" if backend == "local" else "a"
        store.record(plan(name, backend=backend), at=time.time() - 3000, process=None)
        store.move(name, step(Phase.SUCCEEDED, time.time()))
        store.save_measurement(name, measurement())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    head, *rows = cli("list").out.splitlines()
    assert len(rows) == len(backends)
    assert max(map(len, rows)) <= columns
    assert "12.50 images/s" in rows[0]
    assert ("BENCHMARK" in head) == (columns == 120)
    assert ("SOURCE" in cli("list", "-o", "wide").out) == (len(backends) == 2)


@pytest.mark.usefixtures("runs")
def test_json_has_the_columns_of_csv_and_null_where_nothing_is_known(cli: Cli) -> None:
    documents = cli.json("list", "-o", "json")
    assert list(documents[0]) == cli("list", "-o", "csv").out.splitlines()[0].split(",")
    valid, _, _, rejected, running, lost = documents
    assert (valid["schema"], rejected["reasons"]) == (2, ["too-few-records", "gpu-count"])
    assert (running["restarts"], running["verdict"], running["ended_at"]) == (1, None, None)
    assert lost["cause_id"] == "owner-killed"


@pytest.mark.usefixtures("no_cluster")
def test_a_run_that_its_group_rejects_has_no_figure(fill: Fill, cli: Cli) -> None:
    fill(repeats([100.0, 101.0, 40.0]))
    *_, valid, rejected = cli.json("list", "-o", "json")
    assert (valid["verdict"], valid["throughput"], valid["unit"]) == ("valid", 101.0, "samples/s")
    assert (rejected["verdict"], rejected["reasons"]) == ("rejected", ["outlier"])
    assert (rejected["throughput"], rejected["unit"]) == (None, None)


@pytest.mark.usefixtures("runs")
def test_names_are_those_of_the_index_and_no_run_is_read(store: SqlStore, cli: Cli) -> None:
    expected = [row["run_id"] for row in cli.json("list", "-o", "json")]
    for run_id in expected:
        (store.folder(run_id) / "run.json").write_text("{")
    assert cli("list", "-o", "name").out.split() == expected
    assert cli("list", "-o", "csv").out.count("\n") == 1


@pytest.mark.usefixtures("runs")
def test_a_list_in_a_pipe_writes_runs_before_it_has_read_all(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PIECES", 1)
    written: list[str] = []
    read: list[str] = []
    of_store = SqlStore.read_run

    def reading(store: SqlStore, run_id: str) -> Run | None:
        read.append("".join(written))
        return of_store(store, run_id)

    monkeypatch.setattr(SqlStore, "read_run", reading)
    monkeypatch.setattr(
        output,
        "write",
        lambda text, stream=sys.stdout: written.append(text * (stream is sys.stdout)),
    )
    cli("list", "-o", "json")
    first, *_ = json.loads("".join(written))
    assert first["run_id"] in read[-1]


@pytest.mark.parametrize(
    ("form", "data"),
    [("table", ""), ("wide", ""), ("json", "[]\n"), ("name", ""), ("csv", "schema,run_id,")],
)
def test_no_store_is_an_empty_list(root: pathlib.Path, cli: Cli, form: str, data: str) -> None:
    out, err = cli("list", "-o", form)
    assert out[: len(data) or None] == data
    assert str(root) in err
    assert "k8sbench submit" in err
    assert "k8sbench import" in err
    assert not root.exists()


@pytest.mark.parametrize(
    "words",
    [["compare", "a", "b"], ["history", "tsm"], ["explain", "x"], ["report", "x", "-o", "folder"]],
)
def test_without_a_store_commands_on_runs_say_how_to_make_one(words: list[str], cli: Cli) -> None:
    err = cli(*words, code=2).err
    assert "k8sbench submit" in err
    assert "k8sbench import" in err
    assert "k8sbench list" not in err
