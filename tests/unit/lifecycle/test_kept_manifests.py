"""What the next attempt of a run is created from: the job in its folder, and its trainers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.adapters.files import packaged
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.app.context import run_context
from k8sbench.lifecycle.context import MANIFEST
from k8sbench.model.run import Run
from k8sbench.render.trainer_sources import TrainerSources, mounted_by
from tests.unit.lifecycle.played import FakeCluster
from tests.unit.render.plans import plan

HERE = packaged.trainer_sources()


@pytest.fixture
def run(tmp_path: Path) -> tuple[SqlStore, Run]:
    store = open_store(str(tmp_path / "store"))
    wanted = plan("2x1", trainers_digest=HERE.digest)
    return store, store.record(wanted, at=0.0, owner=None)


def again(store: SqlStore, run: Run) -> Sequence[Any]:
    return run_context(store, FakeCluster(outlives=True)).manifests(run)


def test_the_job_is_kept_and_the_trainers_come_along(run: tuple[SqlStore, Run]) -> None:
    first = again(*run)
    store, of_run = run
    kept = store.kept(of_run.run_id, MANIFEST)
    assert kept is not None
    assert [one["kind"] for one in yaml.safe_load_all(kept)] == ["PyTorchJob"]
    config, job = again(*run)
    assert [config, job] == list(first)
    assert config["metadata"]["name"] == mounted_by(job) == HERE.config_map_name


def test_after_an_upgrade_the_job_still_names_the_trainers_that_it_had(
    run: tuple[SqlStore, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, before = again(*run)
    other = TrainerSources.of({"k8sbench/trainers/other.py": "1"})
    monkeypatch.setattr(packaged, "trainer_sources", lambda: other)
    (job,) = again(*run)
    assert job == before
    assert mounted_by(job) == HERE.config_map_name
