"""A folder to work in, with a store and thirty logs of six cases."""

from pathlib import Path

import pytest

from tests.unit.command_line import Cli
from tests.unit.imports import foreign


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with a store that does not exist yet."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def logs(place: Path) -> Path:
    """Thirty logs."""
    return foreign.folder(place / "logs")


@pytest.fixture
def run_id(place: Path, cli: Cli) -> str:
    """The run of one log that was imported."""
    (place / "one.txt").write_text(foreign.log())
    return cli("import", "one.txt", *foreign.OF, "--set", "one", "-o", "name").out.strip()
