"""Hypothesis' settings for the unit tests, and a command line."""

import pytest

from tests import profiles
from tests.unit.command_line import Cli

profiles.load()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Type commands of k8sbench."""
    return Cli(capsys)
