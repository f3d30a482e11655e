"""Two machines on one PostgreSQL store: each has its own folders, all rows are everybody's."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import sql_store
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import FilesElsewhere
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location, Run, Wish
from k8sbench.ports import RunFilter
from tests.unit.command_line import Cli
from tests.unit.store.examples import (
    NOW,
    OWNER,
    append,
    archive,
    elsewhere,
    measurement,
    plan,
    step,
)
from tests.unit.store.index_checks import damage

LOCATION = Location(server="https://cluster.example:6443", namespace="bench")


@pytest.fixture
def laptop(url: str, tmp_path: pathlib.Path) -> Iterator[SqlStore]:
    """The store as one machine sees it, with a run that it has submitted to a cluster."""
    with open_store(url, folder=tmp_path / "laptop") as store:
        store.record(plan(backend="kubernetes"), at=NOW, owner=OWNER, location=LOCATION)
        store.move("seg-1", step(Phase.RUNNING))
        yield store


@pytest.fixture
def pod(url: str, laptop: SqlStore, tmp_path: pathlib.Path) -> Iterator[SqlStore]:
    """The same store as another machine sees it."""
    with open_store(url, folder=tmp_path / "pod" / "k8sbench") as store:
        yield store


def test_a_run_whose_files_are_elsewhere_goes_on_from_anywhere(
    laptop: SqlStore, pod: SqlStore
) -> None:
    here, there = laptop.run("seg-1"), pod.run("seg-1")
    assert elsewhere(here) == elsewhere(there)
    assert here.artifacts == str(laptop.root / "runs" / "seg-1")
    assert there.artifacts is None
    assert str(laptop.root) in (there.artifacts_missing or "")
    assert laptop.identity == pod.identity
    pod.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
    pod.measured("seg-1", measurement())
    assert elsewhere(laptop.run("seg-1")) == elsewhere(pod.run("seg-1"))
    assert laptop.run("seg-1").measurement == measurement()
    assert not (pod.root / "runs").exists()


def test_what_needs_the_files_says_where_they_are(laptop: SqlStore, pod: SqlStore) -> None:
    for ask in (
        pod.folder,
        pod.log_files,
        pod.log_marks,
        pod.archive,
        lambda run_id: pod.keep(run_id, "manifest.yaml", ""),
    ):
        with pytest.raises(FilesElsewhere, match=str(laptop.root)) as caught:
            ask("seg-1")
        assert "Ask for them there" in caught.value.action
    assert pod.last_written_at("seg-1") is None


def test_a_folder_is_made_from_the_row(laptop: SqlStore, pod: SqlStore) -> None:
    laptop.move("seg-1", step(Phase.RUNNING), image="sha256:abc")
    pod.ensure_folder("seg-1")
    run = pod.run("seg-1")
    assert RunFolder(pod.folder("seg-1")).run() == run
    assert elsewhere(run) == elsewhere(laptop.run("seg-1"))
    with pod.database.reading() as db:
        files_at = db.scalar(sa.text("SELECT files_at FROM runs"))
    assert files_at.endswith(f":{pod.root}")
    # What comes goes to both, and the folder alone tells it again.
    archive(pod, "hello")
    done = pod.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
    with pod.database.writing() as db:
        db.execute(sa.text("DELETE FROM runs"))
    assert sql_store.reindex(pod) == (1, {})
    assert pod.runs(RunFilter()) == [done]


def everything(store: SqlStore) -> list[Run]:
    return [elsewhere(run) for run in store.runs(RunFilter())]


def test_each_machine_reindexes_the_runs_whose_folders_it_has(
    laptop: SqlStore, pod: SqlStore
) -> None:
    pod.record(plan("seg-2", repeat=2), at=NOW + 1, owner=None)
    laptop.wish("seg-2", Wish(kind="cancel", at=NOW + 2, cause="Enough."))
    assert pod.claims.claim("seg-2")
    before = everything(pod)
    for run_id in ("seg-1", "seg-2"):
        damage(pod, run_id, "{")
    assert list(sql_store.reindex(laptop)[1]) == ["seg-2"], "the row of the other"
    assert everything(laptop) == before[:1]
    assert sql_store.reindex(pod) == (2, {})
    assert everything(laptop) == everything(pod) == before, "with the wish"
    assert not laptop.claims.claim("seg-2"), "a reindex takes no claim away"


def test_of_a_row_and_a_folder_a_reindex_takes_what_continues_the_other(
    laptop: SqlStore, pod: SqlStore
) -> None:
    laptop.record(plan("seg-2", repeat=2), at=NOW, owner=None)
    for run_id in ("seg-1", "seg-2"):
        append(laptop.folder(run_id), step(Phase.RUNNING, NOW + 2))
    done = pod.move("seg-1", step(Phase.FAILED, NOW + 3))  # the other machine went on with it
    sql_store.reindex(laptop)
    assert laptop.run("seg-1").history == done.history
    assert laptop.run("seg-2").phase is Phase.RUNNING, "as after the rows came back from a backup"


def test_a_machine_with_another_name_on_the_same_volume_has_the_files(
    url: str, laptop: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = laptop.run("seg-1")
    monkeypatch.setattr("platform.node", lambda: "collector-7d9f-x2x4z")
    with open_store(url, folder=laptop.root) as again:
        assert again.run("seg-1") == before
        assert again.log_files("seg-1") == []


def test_the_commands_count_a_run_whose_files_are_elsewhere(
    url: str,
    laptop: SqlStore,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "somebody"))
    monkeypatch.setenv("K8SBENCH_STORE", url)
    laptop.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
    laptop.measured("seg-1", measurement())
    (listed,) = json.loads(cli("list", "-o", "json").out)
    assert listed["artifacts"] is None
    assert str(laptop.root) in listed["artifacts_missing"]
    assert str(laptop.root) in cli("status", "seg-1").out
    assert "seg" in cli("results").out
    assert str(laptop.root) in cli("logs", "seg-1", code=1).err
