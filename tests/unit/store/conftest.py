"""Stores to test: one of each kind that there is, empty."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from tests.harness import postgres

OpenStore = Callable[[], SqlStore]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, root: pathlib.Path) -> str:
    """A store of each kind, not made yet."""
    return str(root) if request.param == "sqlite" else str(request.getfixturevalue("url"))


@pytest.fixture
def open_again(where: str, root: pathlib.Path) -> Iterator[OpenStore]:
    """Open one and the same store, as another process would; closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(open_store(where, folder=root))


@pytest.fixture
def store(open_again: OpenStore) -> SqlStore:
    """An empty store of each kind."""
    return open_again()


@pytest.fixture
def url(postgres_server: postgres.Server) -> str:
    """An empty database of PostgreSQL."""
    return postgres_server.database()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a SQLite store that is not made yet."""
    return tmp_path / "store"


@pytest.fixture
def sqlite_store(root: pathlib.Path) -> Iterator[SqlStore]:
    """An empty SQLite store in ``root``."""
    with open_store(str(root)) as opened:
        yield opened
