"""Stores to test: one of each kind that there is, empty."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store

OpenStore = Callable[[], SqlStore]


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[OpenStore]:
    """Open one and the same store, as another process would; closed at the end."""
    where, folder = str(tmp_path / "store"), None
    if request.param == "postgres":
        where = request.getfixturevalue("postgres_server").database()
        folder = tmp_path / "store"
    opened: list[SqlStore] = []

    def open_it() -> SqlStore:
        opened.append(open_store(where, folder=folder))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: OpenStore) -> SqlStore:
    """An empty store of each kind."""
    return open_again()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a SQLite store that is not made yet."""
    return tmp_path / "store"


@pytest.fixture
def sqlite_store(root: pathlib.Path) -> Iterator[SqlStore]:
    """An empty SQLite store in ``root``."""
    with open_store(str(root)) as opened:
        yield opened
