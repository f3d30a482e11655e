"""Wishes in the store: first in the folder, then in the row; what one has lost is in the other."""

from __future__ import annotations

import json

import msgspec

from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model import creation
from k8sbench.model.errors import UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Wish
from k8sbench.ports import RunFilter
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, measurement, plan, step

CANCEL = Wish(kind="cancel", at=NOW, cause="By hand.", cause_id="cancelled")
DELETE = Wish(kind="delete", at=NOW, cause="The run has ended.")


def recorded(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)


def test_a_wish_is_seen_by_other_processes_until_it_is_fulfilled(
    store: SqlStore, open_again: OpenStore
) -> None:
    recorded(store)
    other = open_again()
    assert store.wish("seg-1", CANCEL) == other.run("seg-1")
    store.wish("seg-1", DELETE)
    assert other.run("seg-1").wishes == (CANCEL, DELETE)
    assert json.loads((store.folder("seg-1") / "wishes.json").read_text())["wishes"]
    other.fulfilled("seg-1", "cancel")
    assert store.fulfilled("seg-1", "cancel").wishes == (DELETE,)
    assert store.fulfilled("seg-1", "delete").wishes == ()
    assert not (store.folder("seg-1") / "wishes.json").exists()


def test_of_a_kind_there_is_one_wish(store: SqlStore) -> None:
    recorded(store)
    store.wish("seg-1", DELETE)
    by_name = msgspec.structs.replace(DELETE, cause="By\0name.")
    (kept,) = store.wish("seg-1", by_name).wishes
    assert kept.cause == "By\N{REPLACEMENT CHARACTER}name."


def test_a_run_that_is_final_is_not_to_be_cancelled_any_more(store: SqlStore) -> None:
    recorded(store)
    for wish in (CANCEL, DELETE):
        store.wish("seg-1", wish)
    assert store.move("seg-1", step(Phase.SUCCEEDED)).wishes == (DELETE,)
    assert store.run("seg-1").wishes == (DELETE,)
    assert store.wish("seg-1", CANCEL).wishes == (DELETE,)
    store.measured("seg-1", measurement())
    for wanted in (RunFilter(unfinished=True), RunFilter(wished=True)):
        assert [run.run_id for run in store.runs(wanted)] == ["seg-1"]
    store.fulfilled("seg-1", "delete")
    assert store.runs(RunFilter(unfinished=True)) == []


def test_a_wish_comes_with_the_end_of_a_run_unless_there_is_one_of_its_kind(
    store: SqlStore,
) -> None:
    recorded(store)
    store.wish("seg-1", CANCEL)
    assert store.move("seg-1", step(Phase.FAILED), owes=DELETE).wishes == (DELETE,)
    assert RunFolder(store.folder("seg-1")).run().wishes == (DELETE,)
    store.record(plan("seg-2", repeat=2), at=NOW, owner=None)
    by_name = msgspec.structs.replace(DELETE, cause="By name.")
    store.wish("seg-2", by_name)
    assert store.move("seg-2", step(Phase.FAILED), owes=DELETE).wishes == (by_name,)


def test_a_run_that_is_submitted_again_is_not_cancelled_by_a_wish_of_before(
    store: SqlStore,
) -> None:
    recorded(store)
    store.wish("seg-1", CANCEL)
    store.move("seg-1", creation.refused("seg-1", UsageError("The webhook refused it."), NOW + 1))
    store.reopen(plan(), at=NOW + 2, owner=None, location=None)
    assert store.run("seg-1").wishes == ()
    assert not (store.folder("seg-1") / "wishes.json").exists()
