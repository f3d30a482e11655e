"""``k8sbench store``: where it is, whether it is whole, and making its database anew."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from k8sbench.adapters.store import migrations
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests.unit.command_line import Cli
from tests.unit.store.examples import NOW, plan, step


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    root = tmp_path / "store"
    monkeypatch.setenv("K8SBENCH_STORE", str(root))
    with open_store() as store:
        store.record(plan(), at=NOW, owner=None)
        store.record(plan("seg-2", repeat=2), at=NOW, owner=None)
        store.move("seg-2", step(Phase.FAILED))
    return root


def test_info_says_where_and_how_much(root: pathlib.Path, cli: Cli) -> None:
    out, err = cli("store", "info")
    assert err == ""
    assert f"Store:      {root}\n" in out
    assert f"Database:   sqlite, schema {len(migrations.STEPS)}" in out
    assert "Runs:       2 runs in 1 set: 1 Created, 1 Failed" in out


def test_info_as_json(root: pathlib.Path, cli: Cli) -> None:
    said = cli.json("store", "info", "-o", "json")
    assert said["schema"] == 2
    assert said["runs"] == 2
    assert said["exists"] is True


def test_info_of_no_store(tmp_path: pathlib.Path, cli: Cli) -> None:
    assert "(not made yet)" in cli("store", "info", "--store", str(tmp_path / "none")).out


def test_a_whole_store_is_said_to_be_whole(root: pathlib.Path, cli: Cli) -> None:
    out, err = cli("store", "check")
    assert out == ""
    assert err == f"The store {root} has no damage: 2 runs.\n"


def test_findings_exit_1_and_say_what_to_do(root: pathlib.Path, cli: Cli) -> None:
    (root / "runs" / "seg-1" / "run.json").write_text("{")
    out, err = cli("store", "check", code=1)
    assert out.splitlines()[1].startswith(f"damaged-run   {root / 'runs' / 'seg-1'}")
    assert "1 finding in" in err
    assert "k8sbench store rebuild" in err
    report = cli.json("store", "check", "-o", "json", code=1)
    assert report["schema"] == 2
    assert [finding["id"] for finding in report["findings"]] == ["damaged-run"]


def test_a_lost_database_is_made_anew(root: pathlib.Path, cli: Cli) -> None:
    with open_store() as store:
        before = store.runs(RunFilter())
    (root / "k8sbench.db").unlink()
    assert "k8sbench store rebuild" in cli("list", code=1).err
    assert "updated from the folders: 2 runs." in cli("store", "rebuild").err
    with open_store() as store:
        assert store.runs(RunFilter()) == before


def test_a_rebuild_reports_what_it_passed_over(root: pathlib.Path, cli: Cli) -> None:
    (root / "runs" / "bad").mkdir()
    (root / "runs" / "bad" / "run.json").write_text("{")
    out, err = cli("store", "rebuild", "-o", "json")
    assert [finding["id"] for finding in json.loads(out)["findings"]] == ["damaged-run"]
    assert "2 runs" in err


def test_a_damaged_database_is_kept_beside_the_new_one(root: pathlib.Path, cli: Cli) -> None:
    (root / "k8sbench.db").write_bytes(b"garbage " * 1000)
    assert f"it is kept as {root}/k8sbench.db.backup-1." in cli("store", "rebuild").err


@pytest.mark.parametrize("what", ["missing", "file", "empty"])
def test_what_is_no_store_is_not_rebuilt(tmp_path: pathlib.Path, cli: Cli, what: str) -> None:
    place = tmp_path / what
    if what == "file":
        place.write_text("")
    elif what == "empty":
        place.mkdir()
    assert "There is no store in" in cli("store", "rebuild", "--store", str(place), code=2).err


def test_a_store_that_was_copied_elsewhere_is_checked_there(
    root: pathlib.Path, tmp_path: pathlib.Path, cli: Cli
) -> None:
    shutil.copytree(root, tmp_path / "copy")
    shutil.rmtree(root)
    cli("store", "check", "--store", str(tmp_path / "copy"))
