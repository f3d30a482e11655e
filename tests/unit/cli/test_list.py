"""``k8sbench list``: the rows on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import io
import pathlib
import re
import sys
import time

import msgspec
import pytest

from k8sbench.adapters import processes
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model import attempts
from k8sbench.model.phase import Phase
from tests.unit.command_line import Cli
from tests.unit.store.examples import REJECTION, measurement, plan, step
from tests.unit.store.index_checks import damage

RUNS = ["seg-1", "seg-2", "arc-1", "old-1"]


@pytest.fixture
def filled(store: SqlStore) -> SqlStore:
    """Record a valid, a rejected, a running and a lost run, a day apart."""
    now, day = time.time(), 86400.0
    me = processes.this_process()
    store.record(plan("seg-1"), at=now - 3 * day, owner=None)
    store.move("seg-1", step(Phase.RUNNING, now - 3 * day + 10))
    store.move("seg-1", step(Phase.SUCCEEDED, now - 3 * day + 100))
    store.measured("seg-1", measurement())
    store.record(plan("seg-2", repeat=2), at=now - 2 * day, owner=None)
    store.move("seg-2", step(Phase.SUCCEEDED, now - 2 * day + 60))
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
    store.record(plan("arc-1", benchmark="arcface"), at=now - day, owner=me)
    store.move("arc-1", step(Phase.RUNNING, now - day))
    gone = msgspec.structs.replace(me, started=1.0)
    store.record(plan("old-1", set_name="weekly"), at=now - 7200, owner=gone)
    return store


def test_runs_are_listed_oldest_first_with_restarts_where_any_has_some(
    filled: SqlStore, cli: Cli
) -> None:
    out, err = cli("list")
    assert err == ""
    head, *lines = out.splitlines()
    assert " ".join(head.split()) == (
        "RUN BENCHMARK FRAMEWORK CASE PRECISION PHASE THROUGHPUT VERDICT TOOK AGE"
    )
    same = ["pytorch", "1x1-cpu", "fp32"]
    assert [line.split() for line in lines] == [
        ["seg-1", "seg", *same, "Succeeded", "12.50", "images/s", "valid", "1m30s", "3d"],
        ["seg-2", "seg", *same, "Succeeded", "rejected", "rejected", "1m", "2d"],
        ["arc-1", "arcface", *same, "Running", "–", "–", "1d", "1d"],
        ["old-1", "seg", *same, "Lost", "–", "–", "2h", "2h"],
    ]
    assert all(line == line.rstrip() for line in lines)
    filled.move("arc-1", attempts.restarting(plan(), 1, "It was killed.", time.time()))
    rows = [line.split() for line in cli("list").out.splitlines()]
    assert [row[-1] for row in rows] == ["RESTARTS", "–", "–", "1", "–"]
    assert [run["restarts"] for run in cli.json("list", "-o", "json")] == [0, 0, 1, 0]


@pytest.mark.parametrize("columns", [80, 120])
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
        store.record(plan(name, backend=backend), at=time.time() - 3000, owner=None)
        store.move(name, step(Phase.SUCCEEDED, time.time()))
        store.measured(name, measurement())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    head, *rows = cli("list").out.splitlines()
    assert len(rows) == len(backends)
    assert max(map(len, rows)) <= columns
    assert "12.50 images/s" in rows[0]
    assert ("BENCHMARK" in head) == (columns == 120)
    assert ("SOURCE" in cli("list", "-o", "wide").out) == (len(backends) == 2)


@pytest.mark.usefixtures("filled")
def test_json_csv_and_names_are_of_the_same_runs(cli: Cli) -> None:
    documents = cli.json("list", "-o", "json")
    assert [row["run_id"] for row in documents] == RUNS
    assert {row["schema"] for row in documents} == {2}
    assert documents[1]["reasons"] == ["too-few-records"]
    assert documents[2]["verdict"] is None
    assert documents[2]["ended_at"] is None
    assert documents[3]["cause_id"] == "owner-killed"
    rows = list(csv.DictReader(io.StringIO(cli("list", "-o", "csv").out)))
    assert list(rows[0]) == list(documents[0])
    assert [row["run_id"] for row in rows] == RUNS
    assert rows[2]["verdict"] == ""
    assert rows[1]["reasons"] == "too-few-records"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", rows[0]["created_at"])
    assert cli("list", "-o", "name").out.splitlines() == RUNS


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--set", "weekly"], ["old-1"]),
        (["--benchmark", "arcface"], ["arc-1"]),
        (["--since", "36h"], ["arc-1", "old-1"]),
        (["--since", "1990-01-01"], RUNS),
        (["--benchmark", "seg", "--set", "nightly"], ["seg-1", "seg-2"]),
    ],
)
def test_lists_are_narrowed(cli: Cli, options: list[str], names: list[str]) -> None:
    assert cli("list", "-o", "name", *options).out.split() == names


@pytest.mark.parametrize(
    ("form", "data"),
    [("table", ""), ("wide", ""), ("json", "[]\n"), ("name", ""), ("csv", "schema,run_id,")],
)
def test_no_store_is_an_empty_list_and_a_friendly_line(
    root: pathlib.Path, cli: Cli, form: str, data: str
) -> None:
    out, err = cli("list", "-o", form)
    assert out[: len(data) or None] == data
    assert err == (
        f"There is no store in {root} yet; k8sbench submit BENCHMARK makes the first run.\n"
    )
    assert not root.exists()


def test_a_run_that_cannot_be_read_is_a_warning(filled: SqlStore, cli: Cli) -> None:
    damage(filled, "seg-2", "{}")
    rows = {row["run_id"]: row for row in cli.json("list", "-o", "json")}
    assert rows.keys() == {*RUNS} - {"seg-2"}
    assert "warning: run seg-2 is damaged: The row of run seg-2 cannot be read" in cli("list").err
