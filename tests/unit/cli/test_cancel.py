"""``cancel`` and ``delete``: what is on record when the cluster or the store cannot be used."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import connections
from k8sbench.cli.main import main
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.kube import RUN_LABEL
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import FoundJob, JobEvent, LogLine
from k8sbench.runs import collecting, submitting, wishes
from k8sbench.runs.context import Stop
from tests.unit.model.specs import a_request
from tests.unit.runs.played import (
    LOCATION,
    FakeCluster,
    Silent,
    at,
    context,
    planned_case,
    runs_of,
)

AWAY = Unreachable("The API server cannot be reached.", "Check the network.")
AWAY.cause_id = "api-unreachable"


class Reached(FakeCluster):
    """The cluster of a run; it may be away, or refuse to end jobs."""

    def __init__(self, wrong: BenchError | None = None) -> None:
        super().__init__(at(Phase.RUNNING), outlives=True)
        self.wrong = wrong
        self.there = True
        self.job: dict[str, Any] | None = None
        """What has the run's name."""
        self.api: Any = SimpleNamespace(place=LOCATION, find=lambda _: self.job, time=time.time)

    def look(self, run: Run) -> Sequence[JobEvent]:
        return [at(Phase.RUNNING)] if self.there else ()

    def printed(self, run: Run) -> Iterator[LogLine]:
        if self.wrong is AWAY:
            raise AWAY
        return iter(())

    def cancel(self, run_id: str, cause: str, cause_id: str, *, wait: bool = False) -> None:
        if self.wrong is not None:
            raise self.wrong
        super().cancel(run_id, cause, cause_id, wait=wait)

    def remove(self, run_id: str, collected: object = None, *, force: bool = False) -> str | None:
        if self.wrong is not None:
            raise self.wrong
        return super().remove(run_id, force=force)


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A store with a detached run ``seg-1``."""
    root = tmp_path / "store"
    monkeypatch.setenv("K8SBENCH_STORE", str(root))
    with open_store(str(root)) as store:
        here = context(store, FakeCluster(outlives=True))
        cases, options = [planned_case("kubernetes")], a_request(set_name="night")
        runs_of(submitting.create_all(cases, here, Silent(), Stop(), options))
    return root


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Reached:
    """The cluster that all commands reach."""
    reached = Reached()

    @contextlib.contextmanager
    def cluster_of(*_: object, **__: object) -> Iterator[Reached]:
        yield reached

    monkeypatch.setattr(connections, "cluster_of", cluster_of)
    return reached


@pytest.fixture
def read_only(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store can only be read."""
    access = os.access

    def refused(path: str | pathlib.Path, mode: int) -> bool:
        return mode != os.W_OK and access(path, mode)

    monkeypatch.setattr(os, "access", refused)


def kinds_of(root: pathlib.Path) -> list[str]:
    with open_store(str(root)) as store:
        return [wish.kind for wish in store.run("seg-1").wishes]


@pytest.mark.parametrize(
    ("command", "left"), [("cancel", ["cancel"]), ("delete", ["delete", "cancel"])]
)
def test_what_an_outage_prevents_is_recorded_and_how_to_do_it_is_said(
    root: pathlib.Path,
    cluster: Reached,
    capsys: pytest.CaptureFixture[str],
    command: str,
    left: list[str],
) -> None:
    cluster.wrong = AWAY
    assert main([command, "seg-1"]) == 6
    said = capsys.readouterr().err
    assert "The API server cannot be reached." in said
    assert "That seg-1 is to be cancelled is recorded; carry it out with: k8sbench collect" in said
    assert kinds_of(root) == left


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_a_job_that_lost_its_label_is_named_at_once_and_nothing_is_owed(
    root: pathlib.Path, cluster: Reached, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    cluster.job = {"metadata": {"name": "seg-1", "labels": {}}}
    assert main([command, "seg-1"]) == UsageError.exit_code
    wrong = capsys.readouterr().err
    assert "error: Run seg-1 is not ended: the PaddleJob seg-1 in namespace bench does" in wrong
    assert (cluster.cancelled, kinds_of(root)) == ([], [])
    cluster.job["metadata"]["labels"] = {RUN_LABEL: "seg-1"}
    assert main([command, "seg-1"]) == 0
    assert len(cluster.cancelled) == 1


def test_what_a_user_does_not_wait_for_is_recorded(
    root: pathlib.Path,
    cluster: Reached,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object) -> Run:
        raise KeyboardInterrupt

    monkeypatch.setattr(collecting, "cancel", interrupted)
    assert main(["cancel", "seg-1"]) == 130
    assert "That seg-1 is to be cancelled is recorded" in capsys.readouterr().err
    assert kinds_of(root) == ["cancel"]


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_what_the_cluster_refuses_is_not_wished_any_more(
    root: pathlib.Path, cluster: Reached, command: str
) -> None:
    cluster.wrong = UsageError("Not on Fridays.")
    assert main([command, "seg-1"]) == 2
    assert kinds_of(root) == []


def test_a_deletion_that_is_prevented_is_recorded(
    root: pathlib.Path, cluster: Reached, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cancel", "seg-1"]) == 0
    cluster.wrong = AWAY
    assert main(["delete", "seg-1"]) == 6
    assert "That seg-1 is to be deleted is recorded" in capsys.readouterr().err
    assert kinds_of(root) == ["delete"]
    assert main(["status", "seg-1"]) == 0
    assert "still to be deleted: k8sbench collect seg-1" in capsys.readouterr().out


def test_list_tells_of_runs_whose_jobs_are_still_there(
    root: pathlib.Path, cluster: Reached, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cancel", "seg-1"]) == 0
    with open_store(str(root)) as store:
        store.wish("seg-1", wishes.left_over(30.0))
    capsys.readouterr()
    assert main(["list"]) == 0
    reported = capsys.readouterr().err
    assert "1 run still has its job on the cluster: k8sbench collect --all" in reported


@pytest.mark.parametrize("command", ["cancel", "watch"])
def test_a_deletion_that_is_owed_is_done_by_any_command_that_follows_the_run(
    root: pathlib.Path, cluster: Reached, command: str
) -> None:
    assert main(["cancel", "seg-1"]) == 0
    with open_store(str(root)) as store:
        store.wish("seg-1", wishes.left_over(30.0))
    cluster.removed.clear()
    assert main([command, "seg-1"]) in {0, 3}
    assert cluster.removed == ["seg-1"]
    assert kinds_of(root) == []


@pytest.mark.parametrize("where", ["/proc/no-store", "postgresql://127.0.0.1:1/none"])
def test_a_job_is_found_by_its_name_where_no_store_can_be_opened(
    root: pathlib.Path,
    cluster: Reached,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    with open_store(str(root)) as store:
        plan = store.run("seg-1").plan
    cluster.found = [FoundJob(run_id="seg-1", known_plan=plan, created_at=5.0, phase=Phase.RUNNING)]
    cluster.api = SimpleNamespace(place=LOCATION, time=time.time)
    monkeypatch.setattr(connections, "configured", lambda _: True)
    monkeypatch.setattr(connections, "connect", lambda _: None)
    monkeypatch.setattr(connections, "glimpsed", lambda _: contextlib.nullcontext(cluster))
    monkeypatch.setenv("K8SBENCH_STORE", where)
    assert main(["delete", "seg-1"]) == 1
    assert (len(cluster.cancelled), cluster.removed) == (1, ["seg-1"])
    assert "What became of seg-1 could not be recorded" in capsys.readouterr().err


@pytest.mark.usefixtures("read_only")
def test_cancel_ends_a_job_though_the_store_can_only_be_read(
    cluster: Reached, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cancel", "seg-1"]) == 1
    assert cluster.cancelled == [("Cancelled by k8sbench cancel.", "cancelled")]
    said = capsys.readouterr().err
    assert "The job of run seg-1 is cancelled; lines that were not archived are lost." in said
    assert "What became of seg-1 could not be recorded: The store" in said
    assert "Then record it with: k8sbench cancel seg-1" in said


@pytest.mark.usefixtures("read_only")
def test_delete_deletes_a_job_though_the_store_can_only_be_read(
    cluster: Reached, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete", "seg-1"]) == 1
    assert len(cluster.cancelled) == 1
    assert cluster.removed == ["seg-1"]
    assert "Run seg-1 has nothing on the cluster any more." in capsys.readouterr().err


@pytest.mark.usefixtures("read_only")
def test_a_job_that_is_not_there_is_not_called_cancelled(
    cluster: Reached, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.there = False
    assert main(["cancel", "seg-1"]) == 1
    assert cluster.cancelled == []
    assert "The cluster has no job of run seg-1." in capsys.readouterr().err


def test_a_run_that_is_over_needs_no_store_to_be_written(
    root: pathlib.Path, cluster: Reached, request: pytest.FixtureRequest
) -> None:
    assert main(["cancel", "seg-1"]) == 0
    request.getfixturevalue("read_only")
    assert main(["cancel", "seg-1"]) == 0
