"""Stores to test: one of each kind that there is, empty."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from tests.harness import postgres

OpenStore = Callable[[], SqlStore]
OpenKind = Callable[..., SqlStore]


@pytest.fixture
def opens(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[OpenKind]:
    """Open a store of a kind in a folder of its own; closed at the end.

    By the name of one that was opened it is the same store again, as another process opens it.
    """
    opened: list[SqlStore] = []
    places: dict[str, str] = {}

    def open_it(kind: str, name: str | None = None) -> SqlStore:
        name = name or f"store-{len(opened)}"
        folder = tmp_path / name
        if name not in places:
            places[name] = str(folder)
            if kind == "postgres":
                places[name] = request.getfixturevalue("postgres_server").database()
        opened.append(open_store(places[name], folder=folder))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, opens: OpenKind) -> OpenStore:
    """Open one and the same store, as another process would; closed at the end."""
    return lambda: opens(request.param, "store")


@pytest.fixture
def store(open_again: OpenStore) -> SqlStore:
    """An empty store of each kind."""
    return open_again()


@pytest.fixture
def url(postgres_server: postgres.Server) -> str:
    """An empty database of PostgreSQL."""
    return postgres_server.database()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, root: pathlib.Path) -> str:
    """A store of each kind, not made yet."""
    return str(root) if request.param == "sqlite" else str(request.getfixturevalue("url"))


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a SQLite store that is not made yet."""
    return tmp_path / "store"


@pytest.fixture
def sqlite_store(root: pathlib.Path) -> Iterator[SqlStore]:
    """An empty SQLite store in ``root``."""
    with open_store(str(root)) as opened:
        yield opened
