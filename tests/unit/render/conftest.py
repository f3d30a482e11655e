"""Every plan rendered once, and the go command."""

import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from k8sbench.model.plan import RunPlan
from tests import tiers
from tests.unit.render import plans

# Taken before a test has a home of its own: Go's caches are in the user's.
GO_ENVIRONMENT = os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
FETCHING_SECONDS = 600
"""For a test with go, which may have to fetch a module first."""


@pytest.hookimpl(tryfirst=True)  # before the marks are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of every plan as slow."""
    for item in items:
        if "everything" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def everything() -> list[tuple[RunPlan, plans.Objects]]:
    """All plans, rendered."""
    return [(plan, plans.rendered(plan)) for plan in plans.all_plans()]


@pytest.fixture(scope="session")
@tiers.needs("go")
def go(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that runs go in its own folder."""
    return functools.partial(_go, tmp_path_factory.mktemp("module"))


def _go(folder: Path, *words: str, given: str | None = None) -> str:
    done = subprocess.run(
        ["go", *words],
        cwd=folder,
        env=GO_ENVIRONMENT,
        input=given,
        capture_output=True,
        text=True,
        timeout=FETCHING_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        # A go that is there may still lack the module and the network to fetch it.
        tiers.absent("go", f"go {words[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout
