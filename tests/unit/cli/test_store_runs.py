"""``store export``, ``import``, ``remove`` and ``prune``, as typed."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.lifecycle.played import LOCATION
from tests.unit.presence import present
from tests.unit.store.examples import NOW, archive, measurement, plan, step


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A store: two sets of local runs that are over, one run that goes on."""
    root = tmp_path / "store"
    monkeypatch.setenv("K8SBENCH_STORE", str(root))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    with open_store() as store:
        for set_name, run_id, number in (("a", "one", 1), ("b", "two", 1), ("b", "three", 2)):
            store.record(plan(run_id, set_name=set_name, repeat=number), at=NOW, owner=None)
            archive(store, "hello", run_id=run_id)
            store.move(run_id, step(Phase.SUCCEEDED))
            store.measured(run_id, measurement())
        store.record(plan("going", set_name="c"), at=NOW, owner=None)
        store.record(
            plan("remote", set_name="d", backend="kubernetes"),
            at=NOW,
            owner=None,
            location=LOCATION,
        )
        store.move("remote", step(Phase.FAILED))
    return root


def ids() -> list[str]:
    with open_store() as store:
        return sorted(store.ids())


ALL = ["going", "one", "remote", "three", "two"]


def test_runs_and_sets_are_exported_and_imported(
    root: pathlib.Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = "3 runs exported to runs.tar.gz.\n"
    assert cli("store", "export", "one", "b", "runs.tar.gz") == ("", exported)
    monkeypatch.setenv("K8SBENCH_STORE", "other")
    out, err = cli("store", "import", "runs.tar.gz")
    assert out == ""
    assert err == "3 runs imported; 0 runs were here already.\n"
    assert ids() == ["one", "three", "two"]
    assert cli("logs", "one").out == "hello\n"


def test_without_names_it_is_every_run_that_is_over(root: pathlib.Path, cli: Cli) -> None:
    assert cli("store", "export", "all.tar.gz").err == (
        "going is left out: it is Created.\n4 runs exported to all.tar.gz.\n"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["one"], "names no file for an export"),
        (["going", "x.tar.gz"], "going has not ended"),
        (["nothing", "x.tar.gz"], "no run 'nothing'"),
        (["--store", "empty", "x.tar.gz"], "nothing to export"),
    ],
)
def test_what_cannot_be_exported_makes_no_file(
    root: pathlib.Path, cli: Cli, words: list[str], says: str
) -> None:
    assert says in cli("store", "export", *words, code=2).err
    assert [path.name for path in pathlib.Path().iterdir()] == ["store"]


def test_a_run_or_a_whole_set_is_removed(root: pathlib.Path, cli: Cli) -> None:
    assert cli("store", "remove", "b", "--yes").err == "2 runs removed.\n"
    assert ids() == ["going", "one", "remote"]
    cli("store", "remove", "on", "--yes")
    assert ids() == ["going", "remote"]


@pytest.mark.parametrize("words", [("remove", "x", "--yes"), ("prune", "--keep-logs-for", "90d")])
def test_no_store_is_made_to_remove_something(
    words: tuple[str, ...], tmp_path: pathlib.Path, cli: Cli
) -> None:
    where = tmp_path / "mistyped"
    err = cli("store", *words, f"--store={where}", code=2).err
    assert f"There is no store in {where} yet." in err
    assert not where.exists()


@pytest.mark.parametrize("words", [["going"], ["one", "c"], ["b", "going"]])
def test_with_a_run_that_goes_on_nothing_is_removed(
    root: pathlib.Path, cli: Cli, words: list[str]
) -> None:
    err = cli("store", "remove", *words, "--yes", code=2).err
    assert "Run going is Created, not over." in err
    assert "k8sbench cancel going" in err
    assert ids() == ALL


def test_without_a_terminal_nothing_is_removed_unasked(root: pathlib.Path, cli: Cli) -> None:
    assert "2 runs would be removed for ever" in cli("store", "remove", "b", code=2).err
    assert ids() == ALL


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_is_asked(
    root: pathlib.Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    err = cli("store", "remove", "b", code=0 if answer else 130).err
    assert asked == ["Remove 2 runs for ever?"]
    assert "three\ntwo\n" in err
    assert ids() == (["going", "one", "remote"] if answer else ALL)


def test_of_a_run_of_a_cluster_the_command_that_deletes_its_job_is_named(
    root: pathlib.Path, cli: Cli
) -> None:
    """No cluster is asked: it may be gone for ever."""
    err = cli("store", "remove", "one", "remote", "--yes").err
    assert "k8sbench delete remote\n" in err
    assert ids() == ["going", "three", "two"]


CLAIMS = """
import sys
from k8sbench.adapters.store.sql_store import open_store
store = open_store()
store.claims.claim("one")
print(flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_follows_is_not_removed(root: pathlib.Path, cli: Cli) -> None:
    words = [sys.executable, "-c", CLAIMS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        present(other.stdout).readline()
        err = cli("store", "remove", "one", "--yes", code=2).err
        assert "Another k8sbench process follows run one" in err
        other.communicate()
    cli("store", "remove", "one", "--yes")


def test_logs_that_were_removed_by_a_rule_say_so(
    root: pathlib.Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = NOW + 100 * 86400
    monkeypatch.setattr("k8sbench.app.context.now", lambda: later)
    out, err = cli("store", "prune", "--keep-logs-for", "90d", "--dry-run")
    assert sorted(out.split()) == ["one", "three", "two"]
    assert err == "3 files of 3 runs would be removed: 0.0 MB.\n"
    assert cli("logs", "one").out == "hello\n"
    err = cli("store", "prune", "--keep-logs-for", "90d").err
    assert err == "3 files of 3 runs removed: 0.0 MB.\n"
    out, err = cli("logs", "one")
    assert out == ""
    assert err == (
        "The logs of run one were removed at 2027-02-28T07:33:20Z by --keep-logs-for 90d;"
        " its measurement stays.\n"
    )
    cli("store", "reindex")
    cli("store", "prune", "--keep-logs-for", "90", code=2)
