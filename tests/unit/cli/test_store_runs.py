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


@pytest.fixture(autouse=True)
def _runs(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store: two sets of local runs that are over, one run that goes on."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with open_store() as store:
        for set_name, run_id, number in (("a", "one", 1), ("b", "two", 1), ("b", "three", 2)):
            store.record(plan(run_id, set_name=set_name, repeat=number), at=NOW, owner=None)
            archive(store, "hello", run_id=run_id)
            store.move(run_id, step(Phase.SUCCEEDED))
            store.measured(run_id, measurement())
        store.record(plan("going", set_name="c"), at=NOW, owner=None)
        remote = plan("remote", set_name="d", backend="kubernetes")
        store.record(remote, at=NOW, owner=None, location=LOCATION)
        store.move("remote", step(Phase.FAILED))


def ids() -> list[str]:
    with open_store() as store:
        return sorted(store.ids())


def test_runs_and_sets_are_exported_and_imported(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("store", "export", "all.tar.gz").err == (
        "going is left out: it is Created.\n4 runs exported to all.tar.gz.\n"
    )
    exported = "3 runs exported to runs.tar.gz.\n"
    assert cli("store", "export", "one", "b", "runs.tar.gz") == ("", exported)
    monkeypatch.setenv("K8SBENCH_STORE", "other")
    out, err = cli("store", "import", "runs.tar.gz")
    assert out == ""
    assert err == "3 runs imported; 0 runs were here already.\n"
    assert ids() == ["one", "three", "two"]
    assert cli("logs", "one").out == "hello\n"


def test_a_run_or_a_whole_set_is_removed_and_what_its_cluster_still_has_is_named(cli: Cli) -> None:
    """No cluster is asked: it may be gone for ever."""
    assert cli("store", "remove", "b", "--yes").err == "2 runs removed.\n"
    assert ids() == ["going", "one", "remote"]
    assert "k8sbench delete remote\n" in cli("store", "remove", "on", "remote", "--yes").err
    assert ids() == ["going"]


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    err = cli("store", "remove", "b", code=0 if answer else 130).err
    assert asked == ["Remove 2 runs for ever?"]
    assert "three\ntwo\n" in err
    assert len(ids()) == (3 if answer else 5)


CLAIMS = """
import sys
from k8sbench.adapters.store.sql_store import open_store
store = open_store()
store.claims.claim("one")
print(flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_follows_is_not_removed(cli: Cli) -> None:
    words = [sys.executable, "-c", CLAIMS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        present(other.stdout).readline()
        err = cli("store", "remove", "one", "--yes", code=2).err
        assert "Another k8sbench process follows run one" in err
        other.communicate()
    cli("store", "remove", "one", "--yes")


def test_logs_that_were_removed_by_a_rule_say_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
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
