"""Collection hooks of the folders of tests on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster.limits import TEST_SECONDS


def set_timeouts(items: list[pytest.Item], folder: Path) -> None:
    """Give the tests of a folder their time, unless one has a limit of its own."""
    for item in items:
        if item.path.is_relative_to(folder) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def will_run(session: pytest.Session, folder: Path) -> bool:
    """Whether a test of this folder is about to run."""
    return not session.config.option.collectonly and any(
        item.path.is_relative_to(folder) for item in session.items
    )


def reporter(session: pytest.Session) -> Callable[[str], None]:
    """Return where a line goes before the first test: pytest's terminal, or stdout."""
    plugin = session.config.pluginmanager.get_plugin("terminalreporter")
    return plugin.write_line if plugin else print
