"""Stores to test: one of each kind that there is, empty."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sbench.adapters.store.opening import open_store
from k8sbench.adapters.store.sql_store import SqlStore
from tests.harness import postgres
from tests.unit.store.examples import NOW, PROCESS, plan

OpenStore = Callable[[], SqlStore]


@pytest.fixture(params=["sqlite", postgres.PARAMETER])
def where(request: pytest.FixtureRequest, root: Path) -> str:
    """A store of each kind, not made yet."""
    return str(root) if request.param == "sqlite" else str(request.getfixturevalue("url"))


@pytest.fixture
def open_again(where: str) -> Iterator[OpenStore]:
    """Open one and the same store, as another process would; closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(open_store(where, is_operator=True))


@pytest.fixture
def store(open_again: OpenStore) -> SqlStore:
    """An empty store of each kind."""
    return open_again()


@pytest.fixture
def url(postgres_server: postgres.Server) -> str:
    """An empty database of PostgreSQL."""
    return postgres_server.database()


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
    """A store of each kind with the run seg-1."""
    store.record(plan(), at=NOW, process=PROCESS)
    return store
