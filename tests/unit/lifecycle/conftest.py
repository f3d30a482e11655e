"""The store that the tests of runs write to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.store.opening import open_store
from k8sbench.store.port import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "store"))
    yield opened
    opened.close()
