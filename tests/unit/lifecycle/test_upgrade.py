"""A store that version 0.1.0 wrote, as it is found after an upgrade: nothing is run again.

Its case keys were other ones. Of ``my-model.yaml`` it has four runs that were three cases to it:
one was submitted as ``./my-model.yaml`` and to a queue, one after a comment was added to the file.
"""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
from collections.abc import Iterator

import pytest

from k8sbench.adapters.files import catalog, pools
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import PlannedCase, Stop
from k8sbench.model.choices import Site
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.planning import SpecSource, make_plan
from k8sbench.model.pool import CPU_POOL
from k8sbench.model.request import SubmitRequest
from k8sbench.ports import RunFilter
from tests.tiers import ROOT
from tests.unit.lifecycle.played import FakeCluster, Silent, context
from tests.unit.model.specs import a_request

FOLDER = ROOT / "tests" / "fixtures" / "store-0.1.0"
MINE = FOLDER / "my-model.yaml"
POOL = pools.load(str(ROOT / "k8sbench" / "pools.yaml")).pools["v100-32gb"]
CLUSTER = Site(backend="kubernetes", pool=POOL)
LOCAL = Site(backend="local", pool=CPU_POOL, cores=4)
TRAINERS = "0" * 63 + "1"
"""The digest of that version's trainers."""


def old_store(at: pathlib.Path) -> pathlib.Path:
    shutil.copytree(FOLDER / "runs", at / "runs")
    database = sqlite3.connect(at / "k8sbench.db")
    database.executescript((FOLDER / "k8sbench.sql").read_text())
    database.close()
    return at


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "store").mkdir()
    return old_store(tmp_path / "store")


@pytest.fixture
def store(root: pathlib.Path) -> Iterator[SqlStore]:
    with open_store(str(root)) as opened:
        yield opened


def planned_case(name: str, request: SubmitRequest, site: Site) -> PlannedCase:
    """A case of today, of the same file and the same trainers."""
    found = catalog.find(name)
    source = SpecSource(digest=found.digest, source=found.source)
    draft = make_plan(found.spec, source, request, site, trainers_digest=TRAINERS)
    return PlannedCase(
        draft=draft, manifests=lambda _: ({"kind": "Job"},), text=lambda _: "kind: Job\n"
    )


def mine(**asked: object) -> PlannedCase:
    return planned_case(str(MINE), a_request(**{"replicas": 1, "gpus": 8} | asked), CLUSTER)


def local() -> PlannedCase:
    return planned_case("resnet50", a_request(replicas=2, gpus=1, preset="smoke"), LOCAL)


def resumed(store: SqlStore, case: PlannedCase) -> list[str]:
    key = case_key(case.plan("draft", "nightly", 1))
    of_set = submitting.repeats(context(store, FakeCluster()), "nightly")
    return [run.run_id for run in of_set.get(key, submitting.Repeats()).finished]


def test_resume_finds_what_the_old_version_finished(store: SqlStore) -> None:
    assert resumed(store, local()) == ["local-1", "local-2"]
    assert resumed(store, mine()) == ["mine-1", "mine-2", "mine-3", "mine-4"]
    assert resumed(store, mine(queue="another")) == ["mine-1", "mine-2", "mine-3", "mine-4"]
    assert resumed(store, mine(batch_size=4)) == []


def test_what_became_one_case_keeps_its_repeat_numbers(store: SqlStore) -> None:
    runs = {run.run_id: run for run in store.runs(RunFilter(set_name="nightly"))}
    assert len(runs) == 7
    mine = [runs[name] for name in sorted(runs) if name.startswith("mine")]
    assert [run.plan.repeat for run in mine] == [1, 1, 2, 1]
    assert len({run.case_key for run in mine}) == 1
    assert store.next_repeat("nightly", mine[0].case_key) == 3


@pytest.mark.parametrize("run_id", ["mine-1", "mine-2", "mine-3", "mine-4"])
def test_a_run_of_the_old_version_is_joined_by_its_id(store: SqlStore, run_id: str) -> None:
    cluster = FakeCluster(outlives=True)
    options = a_request(set_name="nightly", run_id=run_id)
    args = (context(store, cluster), Silent(), Stop(), options)
    (joined,) = submitting.submit([mine()], *args)
    assert joined.run.run_id == run_id
    assert cluster.created == []
    with pytest.raises(UsageError, match=r"another case.*\(other: batch_size"):
        list(submitting.submit([mine(batch_size=4)], *args))
