"""Fixtures of the tests that start processes of their own."""

import pathlib

import pytest


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """Give the folder of a SQLite store that is not made yet."""
    return tmp_path / "store"
