"""A store of a test's own, which commands find where they are typed."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator

import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.cli.main import main
from k8sbench.model.run import Run
from tests.unit.store.filled import put

Fill = Callable[[Iterable[Run]], None]
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where the commands' store is, which is not made yet; the working folder is above it."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


@pytest.fixture
def store(root: pathlib.Path) -> Iterator[SqlStore]:
    """The commands' store, empty."""
    with open_store() as opened:
        yield opened


@pytest.fixture
def fill(root: pathlib.Path) -> Fill:
    """Put runs into the commands' store, as submit would."""
    return functools.partial(put, root)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command that may end with any code; gives code, stdout, stderr."""

    def type_it(*words: str) -> tuple[int, str, str]:
        return main(words), *capsys.readouterr()

    return type_it


@pytest.fixture
def no_cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure no cluster, whatever the machine's own user has."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
