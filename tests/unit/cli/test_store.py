"""``k8sbench store``: where it is, and making its database anew from the folders."""

from __future__ import annotations

import pathlib

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests.unit.command_line import Cli
from tests.unit.store.examples import NOW, plan, step


@pytest.fixture(autouse=True)
def _runs(root: pathlib.Path) -> None:
    with open_store() as store:
        store.record(plan(), at=NOW, owner=None)
        store.record(plan("seg-2", repeat=2), at=NOW, owner=None)
        store.move("seg-2", step(Phase.FAILED))


def test_info_says_what_there_is_not(root: pathlib.Path, cli: Cli) -> None:
    assert "it is not made yet" in cli("store", "info", "--store=none").out
    (root / "store.id").write_text("\x1b]0;\n")
    assert f"none: {root / 'store.id'} does not hold" in cli("store", "info").out


def test_a_reindex_names_what_cannot_be_read(root: pathlib.Path, cli: Cli) -> None:
    (root / "runs" / "seg-1" / "run.json").write_text("{")
    out, err = cli("store", "reindex", code=1)
    assert out.splitlines()[1].split()[:2] == ["seg-1", str(root / "runs" / "seg-1" / "run.json")]
    assert "Bring back the files" in err


def test_a_damaged_run_is_removed_by_its_id(root: pathlib.Path, cli: Cli) -> None:
    (root / "runs" / "seg-1" / "run.json").write_text("{")
    assert "run.json cannot be read" in cli("cancel", "seg-1", code=1).err
    assert "k8sbench delete seg-1" in cli("store", "remove", "seg-1", "seg-2", "--yes").err
    with open_store() as store:
        assert (store.runs(RunFilter()), store.unreadable) == ([], {})
    assert list((root / "runs").iterdir()) == []
