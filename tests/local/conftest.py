"""Fixtures of the local tier: a machine whose runs must leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.limits import shorten
from tests.local.jobs import PATIENCE, Machine, MakeMachine


@pytest.fixture
def make_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeMachine]:
    """Create local clusters with settings; close all and check for remains."""
    # On a machine however slow, the replica that is to blame is heard out.
    shorten(monkeypatch, process_settle=PATIENCE)
    made: list[Machine] = []

    def make(**settings: Any) -> Machine:
        made.append(Machine(tmp_path, **settings))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def machine(make_machine: MakeMachine) -> Machine:
    """Make a local cluster as ``submit`` has it."""
    return make_machine()
