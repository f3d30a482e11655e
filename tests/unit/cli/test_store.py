"""``k8sbench store``: where it is, whether it is whole, and making its database anew."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from k8sbench.adapters.store import migrations
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli.main import main
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
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


def test_info_says_where_and_how_much(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "info"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"Store:      {root}\n" in out
    assert f"Database:   sqlite, schema {len(migrations.STEPS)}" in out
    assert "Runs:       2 runs in 1 set: 1 Created, 1 Failed" in out


def test_info_as_json(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "info", "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == 2
    assert said["runs"] == 2
    assert said["exists"] is True


def test_info_of_no_store(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "info", "--store", str(tmp_path / "none")]) == 0
    assert "(not made yet)" in capsys.readouterr().out


def test_a_whole_store_is_said_to_be_whole(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "check"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"The store {root} has no damage: 2 runs.\n"


def test_findings_exit_1_and_say_what_to_do(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "runs" / "seg-1" / "run.json").write_text("{")
    assert main(["store", "check"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith(f"damaged-run   {root / 'runs' / 'seg-1'}")
    assert "1 finding in" in err
    assert "k8sbench store rebuild" in err
    assert main(["store", "check", "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == 2
    assert [finding["id"] for finding in report["findings"]] == ["damaged-run"]


def test_a_lost_database_is_made_anew(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store() as store:
        before = store.runs(RunFilter())
    (root / "k8sbench.db").unlink()
    assert main(["list"]) == 1
    assert "k8sbench store rebuild" in capsys.readouterr().err
    assert main(["store", "rebuild"]) == 0
    assert "updated from the folders: 2 runs." in capsys.readouterr().err
    with open_store() as store:
        assert store.runs(RunFilter()) == before


def test_a_rebuild_reports_what_it_passed_over(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "runs" / "bad").mkdir()
    (root / "runs" / "bad" / "run.json").write_text("{")
    assert main(["store", "rebuild", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert [finding["id"] for finding in json.loads(out)["findings"]] == ["damaged-run"]
    assert "2 runs" in err


def test_a_damaged_database_is_kept_beside_the_new_one(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "k8sbench.db").write_bytes(b"garbage " * 1000)
    assert main(["store", "rebuild"]) == 0
    assert f"it is kept as {root}/k8sbench.db.backup-1." in capsys.readouterr().err


@pytest.mark.parametrize("what", ["missing", "file", "empty"])
def test_what_is_no_store_is_not_rebuilt(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    place = tmp_path / what
    if what == "file":
        place.write_text("")
    elif what == "empty":
        place.mkdir()
    assert main(["store", "rebuild", "--store", str(place)]) == 2
    assert "There is no store in" in capsys.readouterr().err


def test_a_store_that_was_copied_elsewhere_is_checked_there(
    root: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root, tmp_path / "copy")
    shutil.rmtree(root)
    assert main(["store", "check", "--store", str(tmp_path / "copy")]) == 0
    capsys.readouterr()
