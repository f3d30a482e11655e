"""A store's files are their owner's alone, whatever the umask and whatever made them."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import stores
from k8sbench.cli.main import main
from tests.unit.imports import foreign
from tests.unit.store.test_exchange import fill

UMASKS = [0o022, 0o000]


@pytest.fixture(params=UMASKS, ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def seen_by_others(*paths: Path) -> dict[str, str]:
    """What is not 0600, or of a folder 0700, with its mode; of all that is there."""
    every = [each for path in paths for each in (path, *path.rglob("*"))]
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in every}
    wanted = {each: 0o700 if each.is_dir() else 0o600 for each in every}
    return {str(each): oct(mode) for each, mode in modes.items() if mode != wanted[each]}


@pytest.mark.usefixtures("_umask")
def test_all_that_a_store_writes_is_its_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "data" / "k8sbench"  # neither is there yet
    with open_store(str(root)) as store:
        fill(store)
        store.begin_attempt("seg-1")
        assert store.claims.claim("seg-1")
        assert {path.suffix for path in root.iterdir()} >= {".db", ".db-wal", ".db-shm", ".lock"}
        assert seen_by_others(tmp_path / "data") == {}
    (root / "k8sbench.db").write_bytes(b"damaged" * 4096)
    stores.reindex(str(root))
    assert seen_by_others(root) == {}


@pytest.mark.usefixtures("_umask")
def test_so_is_what_goes_from_store_to_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text(foreign.log())
    for store in ("here", "there"):
        monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / store))
        if store == "here":
            assert main(["import", "one.txt", *foreign.OF, "--set", "one"]) == 0
            assert main(["baseline", "save", "mine", "one"]) == 0
            assert main(["store", "export", "one", "runs.tar.gz"]) == 0
        else:
            assert main(["store", "import", "runs.tar.gz"]) == 0
        assert seen_by_others(tmp_path / store) == {}
    assert seen_by_others(tmp_path / "runs.tar.gz") == {}
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xpf", tmp_path / "runs.tar.gz", "-C", unpacked], check=True)
    files = [each for each in unpacked.rglob("*") if each.is_file()]
    assert files
    assert seen_by_others(*files) == {}


def test_a_folder_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").touch(mode=0o644)
    open_store(str(tmp_path)).close()
    left = {str(tmp_path): "0o755", str(tmp_path / "notes.txt"): "0o644"}
    assert seen_by_others(tmp_path) == left
