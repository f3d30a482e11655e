"""Measurements that other programs made: read, shown with a note, and never rewritten."""

import pathlib
from typing import Any

import msgspec
import pytest

from k8sbench.model import rules
from k8sbench.model.phase import Phase
from k8sbench.model.run import Wish
from k8sbench.store.open_store import open_store
from tests.unit.command_line import Cli
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import NOW, PROCESS, plan, step

REMARK = rules.MEASURED_ELSEWHERE.id


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Make the commands' store, with a run of k8sbench's own and one that is not measured."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    with open_store() as store:
        for number, run_id in enumerate(("ours", "theirs"), start=1):
            store.record(plan(run_id, repeat=number), at=NOW + number, process=PROCESS)
            store.move(run_id, step(Phase.SUCCEEDED, NOW + 10))
        store.save_measurement("ours", measurement())
    return tmp_path / "store"


@pytest.fixture
def cli(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Commands that read this store alone."""
    return Cli(capsys)


def write(root: pathlib.Path, **changes: Any) -> pathlib.Path:
    """Write the measurement of a run as another program does."""
    path = root / "runs" / "theirs" / "measurement.json"
    found = measurement(**{"measured_by": "meter 1.3", **changes})
    path.write_bytes(msgspec.json.encode(found))
    return path


def test_its_row_has_a_note_that_names_the_program(root: pathlib.Path, cli: Cli) -> None:
    write(root)
    cli("store", "reindex")
    listed = {row["run_id"]: row for row in cli.json("list", "--store", "local", "-o", "json")}
    assert listed["ours"]["reasons"] == []
    assert (listed["theirs"]["verdict"], listed["theirs"]["throughput"]) == ("valid", 12.5)
    assert listed["theirs"]["reasons"] == [REMARK]
    assert "meter 1.3" in cli("results", "--store", "local").out
    assert REMARK in cli("explain", "theirs", "--store", "local").out
    assert REMARK not in cli("explain", "ours", "--store", "local").out


def test_the_file_stays_as_the_program_wrote_it(root: pathlib.Path, cli: Cli) -> None:
    path = write(root)
    content = path.read_bytes()
    cli("store", "reindex")
    with open_store() as store:
        run = store.wish("theirs", Wish(kind="delete", at=NOW, cause="It is old."))
        assert run.measurement is not None
        assert [each.id for each in run.measurement.reasons] == [REMARK]
    assert path.read_bytes() == content


def test_an_unknown_estimator_leaves_the_run_without_a_figure(root: pathlib.Path, cli: Cli) -> None:
    write(root, estimator="best_of_three")
    cli("store", "reindex")
    (row,) = (
        r for r in cli.json("list", "--store", "local", "-o", "json") if r["run_id"] != "ours"
    )
    assert row["throughput"] is None


def test_a_remark_that_is_there_is_not_added_again() -> None:
    once = rules.with_maker(measurement(measured_by="meter"))
    assert len(once.reasons) == 1
    assert rules.with_maker(once) == once
    assert rules.with_maker(measurement()) == measurement()
