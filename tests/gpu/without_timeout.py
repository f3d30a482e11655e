"""Pytest plugin that replaces pytest-timeout where it is missing."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know its option in pyproject.toml."""
    parser.addini("timeout", "is for pytest-timeout, which is not loaded here")


def pytest_configure(config: pytest.Config) -> None:
    """Know its mark."""
    config.addinivalue_line("markers", "timeout: is for pytest-timeout, which is not loaded here")
