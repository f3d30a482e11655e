"""Baselines in the store: kept whole, in both databases, and after a rebuild."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model import baseline as baselines
from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import NotFound, StoreError, UsageError
from k8sbench.model.identity import checked_set_name
from k8sbench.model.phase import Phase
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, measurement, plan, step


def made(store: SqlStore, name: str = "release", run_id: str = "seg-1") -> Baseline:
    """A baseline of a run of the store."""
    store.record(plan(run_id, set_name=run_id), at=NOW, owner=None)
    store.move(run_id, step(Phase.SUCCEEDED))
    run = store.measured(run_id, measurement())
    return Baseline(name=name, saved_at=NOW, of=(run_id,), runs=(baselines.kept(run),))


def test_a_baseline_is_read_back_as_it_was_saved(store: SqlStore, open_again: OpenStore) -> None:
    saved = made(store)
    store.save_baseline(saved)
    assert open_again().baselines() == [saved]
    (run,) = saved.as_runs()
    kept = store.run("seg-1")
    assert (run.plan, run.history, run.measurement) == (kept.plan, kept.history, kept.measurement)
    assert run.artifacts is None


def test_a_name_is_not_taken_twice_unless_that_is_wished(store: SqlStore) -> None:
    one, two = made(store), made(store, run_id="seg-2")
    store.save_baseline(one)
    store.save_baseline(one)  # the same again, as after a lost connection
    with pytest.raises(UsageError, match="There is a baseline 'release' already"):
        store.save_baseline(two)
    assert store.baselines() == [one]
    store.save_baseline(two, replace=True)
    assert store.baselines() == [two]


def test_one_that_is_removed_is_gone(store: SqlStore) -> None:
    store.save_baseline(made(store))
    with pytest.raises(NotFound, match="There is no baseline 'relase'") as raised:
        store.remove_baseline("relase")
    assert "Did you mean release?" in raised.value.action
    store.remove_baseline("release")
    assert store.baselines() == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".a", "a b", "x" * 64])
def test_what_cannot_name_a_file_cannot_name_a_baseline(name: str) -> None:
    with pytest.raises(UsageError):
        checked_set_name(name, "baseline")


def test_baselines_do_not_need_the_database(root: pathlib.Path) -> None:
    with open_store(str(root)) as store:
        saved = made(store)
        store.save_baseline(saved)
        store.save_baseline(msgspec.structs.replace(saved, name="gone"))
        store.remove_baseline("gone")
    for path in root.glob("k8sbench.db*"):
        path.unlink()
    with open_store(str(root)) as store:
        assert store.baselines() == [saved]


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(root: pathlib.Path) -> None:
    with open_store(str(root)) as store:
        saved = made(store)
        store.save_baseline(saved)
        (root / "baselines" / "broken.json").write_text("{")
        with pytest.raises(StoreError, match="baseline broken cannot be read") as caught:
            store.baselines()
        assert "k8sbench baseline remove broken" in caught.value.action
        store.remove_baseline("broken")
        assert store.baselines() == [saved]


def test_the_files_of_a_removed_run_are_no_part_of_it(root: pathlib.Path) -> None:
    with open_store(str(root)) as store:
        saved = made(store)
        store.save_baseline(saved)
        from k8sbench.adapters.store import exchange

        exchange.remove(store, "seg-1")
        assert store.ids() == []
        assert store.baselines() == [saved]
