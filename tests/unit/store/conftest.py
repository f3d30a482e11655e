"""Stores to test, empty."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.unit.store.examples import NOW, PROCESS, plan

OpenStore = Callable[[], SqlStore]


@pytest.fixture
def where(root: Path) -> str:
    """A store that is not made yet."""
    return str(root)


@pytest.fixture
def open_again(where: str) -> Iterator[OpenStore]:
    """Open one and the same store, as another process would; closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(open_store(where))


@pytest.fixture
def store(open_again: OpenStore) -> SqlStore:
    """An empty store."""
    return open_again()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that is not made yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "k8sbench"


@pytest.fixture
def sqlite_store(root: Path) -> Iterator[SqlStore]:
    """An empty SQLite store in ``root``."""
    with open_store(str(root)) as opened:
        yield opened


@pytest.fixture
def one_run(store: SqlStore) -> SqlStore:
    """A store with the run seg-1."""
    store.record(plan(), at=NOW, process=PROCESS)
    return store
