"""The store that the tests of runs write to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.store.interface import Store
from k8sbench.store.open_store import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "store"))
    yield opened
    opened.close()
