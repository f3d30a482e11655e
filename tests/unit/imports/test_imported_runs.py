"""Runs that were imported, in every command that lists, shows, ends, keeps or moves runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli.main import main
from tests.unit.imports import foreign

Captured = pytest.CaptureFixture[str]


def test_lists_and_status_tell_it_apart(run_id: str, capsys: Captured) -> None:
    assert main(["list"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "SOURCE"
    assert row.split()[-1] == "imported"
    assert main(["list", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["source"], found["backend"], found["impl"]) == ("imported", "imported", "user")
    assert (found["phase"], found["cause_id"]) == ("Succeeded", "imported")
    assert main(["status", run_id]) == 0
    out = capsys.readouterr().out
    assert "Imported: its program ran elsewhere" in out
    assert "Source:  imported" in out
    assert "owner" not in out.lower()


def test_its_log_is_printed_as_it_was(run_id: str, place: Path, capsys: Captured) -> None:
    assert main(["logs", run_id, "--timestamps"]) == 0
    # Nobody saw when the lines came, so no time is put in front of them.
    assert capsys.readouterr().out == foreign.log()
    assert main(["logs", run_id, "--replica", "worker-7"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "has no log of a replica 'worker-7'.\n  Replicas: log-0." in err


@pytest.mark.parametrize("command", ["cancel", "delete", "collect"])
def test_what_needs_a_job_says_that_there_is_none(
    run_id: str, capsys: Captured, command: str
) -> None:
    assert main([command, run_id]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Run {run_id} was imported from logs: it has no job." in err
    assert f"k8sbench store remove {run_id}" in err


def test_a_history_has_its_set_where_the_log_says_it_ran(
    run_id: str, place: Path, capsys: Captured
) -> None:
    (place / "before.txt").write_text(foreign.log(rate=1190.0, day=1))
    assert main(["import", "before.txt", *foreign.OF, "--set", "imported-later"]) == 0
    capsys.readouterr()
    assert main(["history", "resnet50-tf"]) == 0
    points = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert points == [["imported-later", "2026-03-01"], ["one", "2026-03-02"]]
    assert main(["history", "resnet50-tf", "--since", "2026-03-02", "-o", "json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert [point["set"] for point in series["points"]] == ["one"]


def test_watch_prints_its_row(run_id: str, capsys: Captured) -> None:
    assert main(["watch", run_id]) == 0
    assert "1199.91 images/s" in capsys.readouterr().out


def test_the_store_keeps_it_like_any_run(run_id: str, place: Path, capsys: Captured) -> None:
    with open_store() as store:
        before = store.run(run_id)
    assert main(["store", "check"]) == 0
    (place / "store" / "k8sbench.db").unlink()
    assert main(["store", "rebuild"]) == 0
    with open_store() as store:
        assert store.run(run_id) == before
    assert main(["store", "export", run_id, "a.tar.gz"]) == 0
    assert main(["store", "import", "a.tar.gz", "--store", "other"]) == 0
    with open_store("other") as store:
        there = store.run(run_id)
        assert (there.plan, there.measurement) == (before.plan, before.measurement)
        assert there.is_imported
        (path,) = store.log_files(run_id)
        assert path.read_text() == foreign.log()
    assert main(["store", "remove", run_id, "--yes"]) == 0
    with open_store() as store:
        assert store.ids() == []


def test_an_import_that_was_killed_is_completed_by_the_next_one(
    run_id: str, place: Path, capsys: Captured
) -> None:
    """Killed between the folder and the row, it leaves a folder that the store does not list."""
    (place / "store" / "k8sbench.db").unlink()
    with open_store("elsewhere") as store:
        assert store.ids() == []
    for name in ("k8sbench.db", "k8sbench.db-wal", "k8sbench.db-shm"):
        if (place / "elsewhere" / name).exists():
            (place / "elsewhere" / name).rename(place / "store" / name)
    assert main(["store", "check"]) == 1
    assert "no-row" in capsys.readouterr().out
    assert main(["import", "one.txt", *foreign.OF, "--set", "one"]) == 0
    assert "1 run imported" in capsys.readouterr().err
    assert main(["store", "check"]) == 0


def test_an_import_leaves_nothing_behind(run_id: str, place: Path) -> None:
    assert sorted(path.name for path in (place / "store" / "runs").iterdir()) == [run_id]
    assert list((place / "store" / "incoming").iterdir()) == []


def test_a_submitted_run_keeps_its_log_to_itself(
    place: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same log in a run that k8sbench made, and in an import, would count twice."""
    from k8sbench.model.phase import Phase
    from tests.unit.store.examples import NOW, measurement, plan, step

    (place / "one.txt").write_text(foreign.log())
    assert main(["measure", "one.txt", *foreign.OF[:2], "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    with open_store() as store:
        store.record(plan("mine"), at=NOW, owner=None)
        store.move("mine", step(Phase.SUCCEEDED))
        store.measured("mine", measurement(log_digest=found["log_digest"]))
    assert main(["import", "one.txt", *foreign.OF, "--set", "s"]) == 2
    assert "one.txt: is the log of run mine of set nightly." in capsys.readouterr().err
