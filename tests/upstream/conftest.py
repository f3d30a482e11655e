"""Fixtures of the tier: a place for a run, and pictures to train on."""

from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.upstream.runs import Bench


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    """Give a folder of its own, with a store."""
    bench = Bench(tmp_path / "bench", tmp_path / "store", capsys)
    bench.folder.mkdir()
    monkeypatch.setenv("K8SBENCH_STORE", str(bench.store))
    return bench


@pytest.fixture(scope="session")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw Cityscapes in small."""
    folder = tmp_path_factory.mktemp("streets")
    words = ("--pictures=32", "--size=64x32")
    assert main(["data", "make-sample", "cityscapes", str(folder), *words]) == 0
    return folder
